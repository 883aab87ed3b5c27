"""A config for components that are trained on top of a pipeline, whatever that pipeline is made of."""

from collections.abc import Callable
from pathlib import Path

from spacy.language import Language
from spacy.util import load_model, registry

_CALLBACK = "after_pipeline_creation"


def create_on_base(path: str | Path | None) -> Callable[[Language], Language]:
    """Registered as the callback `spacy-spectral.on_base.v1`, for `[nlp.after_pipeline_creation]`: puts a
    trained pipeline before the components of a config, so that these are trained on top of it.

    The components of the base are frozen, and stay disabled if they are; those that the config has itself, by
    their names, are left out. Its tokenizer is taken over, and what documents of its training corpus have
    beforehand (`annotations`), so that a parser that was trained on given tags meets them again. The pipeline
    that is saved has all of this by itself, and does not look for the base when it is loaded.

    path: The trained pipeline. Without one nothing is done, so that a config can be filled before there is
        a base.
    """

    def put_on_base(nlp: Language) -> Language:
        # spaCy makes callbacks of [nlp] before variables like ${paths.base} are known
        block = nlp.config.interpolate()["nlp"].get(_CALLBACK)
        where = block["path"] if block else path
        if where is None:
            return nlp
        # as spaCy does it for components with a source: the base's strings are wanted, not its vectors
        vocab = nlp.vocab.to_bytes(exclude=["lookups", "strings"])
        base = load_model(where, vocab=nlp.vocab, exclude=["lookups"])
        own = list(nlp.component_names)
        added = [name for name in base.component_names if name not in own]
        for name in added:
            nlp.add_pipe(name, source=base, before=own[0] if own else None)
            if name in base.disabled:
                nlp.disable_pipe(name)
        nlp.vocab.from_bytes(vocab)
        config, given = nlp.config, base.config.interpolate()
        tokenizer = given["nlp"]["tokenizer"]
        nlp.tokenizer = registry.resolve({"tokenizer": tokenizer})["tokenizer"](nlp)
        nlp.tokenizer.from_bytes(base.tokenizer.to_bytes(exclude=["vocab"]))
        config["nlp"] |= {"tokenizer": tokenizer, _CALLBACK: None}
        training = config["training"]
        training["frozen_components"] = [*training["frozen_components"], *added]
        annotations = given["corpora"].get("train", {}).get("annotations")
        for corpus in config["corpora"].values():
            if annotations is not None and "annotations" in corpus:
                corpus["annotations"] = list(annotations)
        return nlp

    return put_on_base
