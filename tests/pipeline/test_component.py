"""What trainable components share, shown by the tagger and the parser."""

import warnings

import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from tagger_data import make_sentences


def tagger_examples(nlp, n=60):
    for s in make_sentences(n, seed=1):
        reference = Doc(nlp.vocab, words=s.words, tags=s.tags, pos=s.pos, morphs=s.morphs)
        yield Example(Doc(nlp.vocab, words=s.words), reference)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The directory of a pipeline with a trained tagger."""
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_tagger")
    nlp.initialize(lambda: tagger_examples(nlp))
    path = tmp_path_factory.mktemp("saved")
    nlp.to_disk(path)
    return path


def test_settings_overridden_at_load_count(saved):
    text = "the run run ."
    nlp = spacy.load(saved)
    tag = nlp("the run")[1].tag_
    assert tag != "XX" and max(len(token._.tag_probs) for token in nlp(text)) > 1
    config = {"components": {"spectral_tagger": {"top_k": 1, "overwrite": True}}}
    changed = spacy.load(saved, config=config)
    assert max(len(token._.tag_probs) for token in changed(text)) == 1
    for pipeline, expected in ((nlp, "XX"), (changed, tag)):
        doc = pipeline(Doc(pipeline.vocab, words=["the", "run"], tags=["DT", "XX"]))
        assert doc[1].tag_ == expected


def test_settings_of_files_with_a_cfg_are_those_of_the_config(saved, tmp_path):
    """Older versions wrote settings beside the model, too."""
    nlp = spacy.load(saved)
    nlp.to_disk(tmp_path)
    (tmp_path / "spectral_tagger" / "cfg").write_text('{"overwrite": true, "top_k": 7}')
    assert spacy.load(tmp_path).get_pipe("spectral_tagger").top_k == 3


def test_update_after_loading_warns_once(saved):
    nlp = spacy.load(saved)
    before = nlp.get_pipe("spectral_tagger").to_bytes()
    examples = list(tagger_examples(nlp, 4))
    with pytest.warns(UserWarning, match="W111.*'spectral_tagger'"):
        losses = nlp.update(examples)
    assert losses == {"spectral_tagger": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp.update(examples)
    assert nlp.get_pipe("spectral_tagger").to_bytes() == before


def test_updates_after_initialize_do_not_warn():
    """The loop of `spacy train` makes many if other components are trained by it."""
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_tagger")
    examples = list(tagger_examples(nlp, 10))
    nlp.initialize(lambda: examples)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            nlp.update(examples)


def test_what_the_warning_of_updates_advises(saved):
    nlp = spacy.load(saved)
    examples = list(tagger_examples(nlp, 10))
    with pytest.warns(UserWarning, match="W111.*initialize.*frozen.*exclude=.'spectral_tagger'"):
        nlp.update(examples)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp.initialize(lambda: examples)
        nlp.update(examples)
        nlp = spacy.load(saved)
        nlp.update(examples, exclude=["spectral_tagger"])
        # what is sourced is not initialized: frozen, it goes on to annotate
        other = spacy.blank("en")
        other.add_pipe("spectral_tagger", source=nlp)
        other.add_pipe("tagger")
        with other.select_pipes(disable=["spectral_tagger"]):
            other.initialize(lambda: examples)
        other.update(examples, exclude=["spectral_tagger"], annotates=["spectral_tagger"])
    assert other("the run")[1].tag_


def test_parsers_that_learn_step_by_step_do_not_warn(examples):
    nlp = spacy.blank("en")
    model = {"@architectures": "spacy-spectral.Biaffine.v1", "scan_size": 4, "arc_size": 4}
    tok2vec = {"@architectures": "spacy.HashEmbedCNN.v2", "width": 8, "depth": 1, "embed_size": 50}
    tok2vec |= {"window_size": 1, "maxout_pieces": 2, "subword_features": False}
    tok2vec["pretrained_vectors"] = None
    nlp.add_pipe("spectral_parser", config={"model": model | {"tok2vec": tok2vec}})
    batch = examples(nlp)[:8]
    optimizer = nlp.initialize(lambda: batch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses = [nlp.update(batch, sgd=optimizer)["spectral_parser"] for _ in range(3)]
    assert losses[0] > losses[-1] > 0


@pytest.mark.parametrize(
    "names, missing",
    [
        (["spectral_parser"], {"spectral_parser": ["token.is_sent_start", "token.tag"]}),
        (["senter", "spectral_parser"], {"spectral_parser": ["token.tag"]}),
        (["spectral_tagger", "spectral_parser"], {"spectral_parser": ["token.is_sent_start"]}),
        (["sentencizer", "spectral_tagger", "spectral_parser", "spectral_reranker"], {}),
        (["senter", "tagger", "spectral_parser", "spectral_reranker", "eigenwords"], {}),
        (
            ["sentencizer", "spectral_tagger", "spectral_reranker"],
            {"spectral_reranker": ["token.dep", "token.head"]},
        ),
    ],
)
def test_what_is_missing_before_a_component_is_found(names, missing):
    nlp = spacy.blank("en")
    for name in names:
        nlp.add_pipe(name)
    problems = nlp.analyze_pipes(keys=["requires", "assigns"])["problems"]
    assert {name: found for name, found in problems.items() if found} == missing


def test_loading_gives_the_component(saved, tmp_path):
    pipe = spacy.load(saved).get_pipe("spectral_tagger")
    pipe.to_disk(tmp_path / "tagger")
    assert pipe.from_bytes(pipe.to_bytes()) is pipe
    assert pipe.from_disk(tmp_path / "tagger") is pipe


def test_components_without_labels_have_none():
    nlp = spacy.blank("en")
    names = ["spectral_senter", "spectral_tagger", "spectral_lemmatizer", "spectral_refiner"]
    for name in names:
        nlp.add_pipe(name)
    assert nlp.pipe_labels == {name: [] for name in names}
