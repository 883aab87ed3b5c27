"""The factories of components. `spacy.blank` imports them all: what they make is imported when it is made."""

from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, Signature
from typing import Any

from spacy.language import Language
from thinc.api import Model


def _factory(
    factory: str,
    made: str,
    settings: dict[str, tuple[Any, Any]],
    *,
    of: str = "vocab",
    **known: Any,
) -> Callable:
    """Register the factory of a component.

    made: The module here and the class in it, as "module:class".
    settings: The type and the default of every setting, which the class gets by its name.
    of: What else the class gets: the "vocab", or the whole pipeline, "nlp".
    known: What spaCy is told about the component.
    """
    module, _, kind = made.partition(":")

    def make(nlp: Language, name: str, **given: Any) -> Any:
        own = {of: nlp if of == "nlp" else nlp.vocab, "name": name}
        return getattr(import_module(f".{module}", __package__), kind)(**own, **given)

    types = {"nlp": Language, "name": str} | {key: own for key, (own, _) in settings.items()}
    make.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter(key, Parameter.KEYWORD_ONLY, annotation=own) for key, own in types.items()]
    )
    make.__doc__ = f"Make a component; see `{kind}`."
    defaults = {key: default for key, (_, default) in settings.items()}
    return Language.factory(factory, default_config=defaults, func=make, **known)


def _model(name: str, **settings: Any) -> tuple[Any, Any]:
    return Model, {"@architectures": f"spacy-spectral.{name}", **settings}


def _scorer(name: str) -> tuple[Any, Any]:
    return Callable | None, {"@scorers": name}


_SYMBOL: Any = str | list[str], "TAG"
_NAMES: Any = list[str], []
_NAME: Any = str | None, None
_PARSE_SCORES = {"dep_uas": 0.5, "dep_las": 0.5} | dict.fromkeys(
    ("dep_uas_no_punct", "dep_las_no_punct", "dep_las_per_type")
)

make_spectral_parser = _factory(
    "spectral_parser",
    "parser:SpectralParser",
    {
        "model": _model("SHAG.v1"),
        "symbol": _SYMBOL,
        "decode": (str, "mbr"),
        "constrain": (bool, False),
        "valid_trees": (bool, False),
        "store": (list[str], ["head_prob", "dep_prob", "parse_logprob"]),
        "annotate_with": _NAMES,
        "jackknife": _NAME,
        "source": _NAME,
        "scorer": _scorer("spacy-spectral.ud_scorer.v1"),
    },
    requires=["token.is_sent_start", "token.tag"],
    assigns=[
        *("token.dep", "token.head", "token.is_sent_start", "doc.sents", "token._.head_prob"),
        *("token._.dep_prob", "span._.parse_logprob", "span._.marginals"),
    ],
    default_score_weights=_PARSE_SCORES,
)

make_spectral_tagger = _factory(
    "spectral_tagger",
    "tagger:SpectralTagger",
    {
        "model": _model("LinearTagger.v1", epochs=5, seed=0),
        "overwrite": (bool, False),
        "top_k": (int, 3),
        "source": _NAME,
        "scorer": _scorer("spacy-spectral.tagger_scorer.v1"),
    },
    assigns=["token.tag", "token.pos", "token.morph", "token._.tag_probs"],
    default_score_weights={"tag_acc": 0.4, "pos_acc": 0.3, "morph_acc": 0.3}
    | dict.fromkeys(("morph_micro_p", "morph_micro_r", "morph_micro_f", "morph_per_feat")),
)

make_spectral_reranker = _factory(
    "spectral_reranker",
    "reranker:SpectralReranker",
    {
        "model": _model("Reranker.v1"),
        "base": (str, "spectral_parser"),
        "n": (int, 50),
        "margin": (float, 6.0),
        "symbol": _NAME,
        "store": _NAMES,
        "scorer": _scorer("spacy-spectral.ud_scorer.v1"),
    },
    of="nlp",
    requires=["token.tag", "token.dep", "token.head", "doc.sents"],
    assigns=["token.dep", "token.head", "span._.parses"],
    default_score_weights=_PARSE_SCORES,
)

make_eigenwords = _factory(
    "eigenwords",
    "eigenwords:EigenwordSimilarity",
    {},
    assigns=["doc.user_hooks", "doc.user_span_hooks", "doc.user_token_hooks"],
)

make_spectral_senter = _factory(
    "spectral_senter",
    "senter:SpectralSenter",
    {
        "model": _model("LinearSenter.v1"),
        "threshold": (float, 0.5),
        "store": (bool, True),
        "scorer": _scorer("spacy.senter_scorer.v1"),
    },
    assigns=["token.is_sent_start", "doc.sents", "token._.sent_start_prob"],
    default_score_weights={"sents_f": 1.0, "sents_p": 0.0, "sents_r": 0.0},
)

make_spectral_constituency = _factory(
    "spectral_constituency",
    "constituency:SpectralConstituency",
    {
        "model": _model(
            "ConstituencyProduct.v1",
            estimator="spectral",
            states=24,
            em_iterations=8,
            epochs=2,
            anchored_epochs=3,
            rate=0.1,
            min_count=2,
            seed=0,
        ),
        "nbest": (int, 0),
        "spans_key": (str | None, "constituents"),
        "set_tags": (bool, False),
        "annotate_with": _NAMES,
        "scorer": _scorer("spacy-spectral.constituency_scorer.v1"),
    },
    assigns=["doc.user_data"],
    default_score_weights={"bracket_f": 1.0}
    | dict.fromkeys(f"bracket_{key}" for key in ("p", "r", "exact", "tag_acc", "f_per_type")),
)

make_spectral_refiner = _factory(
    "spectral_refiner",
    "refiner:SpectralRefiner",
    {
        "model": _model("Refined.v1"),
        "symbol": _SYMBOL,
        "use_heads": (bool, True),
        "parser": _NAME,
        "annotate_with": _NAMES,
        "jackknife": _NAME,
    },
    requires=["token.is_sent_start", "token.tag"],
    assigns=["token._.subtag", "token._.subtag_prob"],
    default_score_weights={"subtag_acc": 1.0},
)

make_spectral_lemmatizer = _factory(
    "spectral_lemmatizer",
    "lemmatizer:SpectralLemmatizer",
    {
        "model": _model("LinearLemmatizer.v1"),
        "overwrite": (bool, False),
        "annotate_with": _NAMES,
        "jackknife": _NAME,
        "scorer": _scorer("spacy.lemmatizer_scorer.v1"),
    },
    requires=["token.tag", "token.pos", "token.morph"],
    assigns=["token.lemma"],
    default_score_weights={"lemma_acc": 1.0},
)
