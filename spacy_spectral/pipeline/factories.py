"""The factories of components. `spacy.blank` imports them all: what they make is imported when it is made."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from spacy.language import Language
from thinc.api import Model

if TYPE_CHECKING:
    from .constituency import SpectralConstituency
    from .eigenwords import EigenwordSimilarity
    from .lemmatizer import SpectralLemmatizer
    from .parser import SpectralParser
    from .refiner import SpectralRefiner
    from .reranker import SpectralReranker
    from .senter import SpectralSenter
    from .tagger import SpectralTagger

PARSER_MODEL = {"@architectures": "spacy-spectral.SHAG.v1"}
_PARSE_SCORES = {
    "dep_uas": 0.5,
    "dep_las": 0.5,
    "dep_uas_no_punct": None,
    "dep_las_no_punct": None,
    "dep_las_per_type": None,
}


@Language.factory(
    "spectral_parser",
    requires=["token.is_sent_start", "token.tag"],
    assigns=[
        "token.dep",
        "token.head",
        "token.is_sent_start",
        "doc.sents",
        "token._.head_prob",
        "token._.dep_prob",
        "span._.parse_logprob",
        "span._.marginals",
    ],
    default_config={
        "model": PARSER_MODEL,
        "symbol": "TAG",
        "decode": "mbr",
        "constrain": False,
        "valid_trees": False,
        "store": ["head_prob", "dep_prob", "parse_logprob"],
        "annotate_with": [],
        "jackknife": None,
        "source": None,
        "scorer": {"@scorers": "spacy-spectral.ud_scorer.v1"},
    },
    default_score_weights=_PARSE_SCORES,
)
def make_spectral_parser(
    nlp: Language,
    name: str,
    model: Model,
    symbol: str | list[str],
    decode: str,
    constrain: bool,
    valid_trees: bool,
    store: list[str],
    annotate_with: list[str],
    jackknife: str | None,
    source: str | None,
    scorer: Callable | None,
) -> "SpectralParser":
    """Make a parser; see `SpectralParser`."""
    from .parser import SpectralParser

    return SpectralParser(
        nlp.vocab,
        model,
        name,
        symbol=symbol,
        decode=decode,
        constrain=constrain,
        valid_trees=valid_trees,
        store=store,
        annotate_with=annotate_with,
        jackknife=jackknife,
        source=source,
        scorer=scorer,
    )


TAGGER_MODEL = {"@architectures": "spacy-spectral.LinearTagger.v1", "epochs": 5, "seed": 0}


@Language.factory(
    "spectral_tagger",
    assigns=["token.tag", "token.pos", "token.morph", "token._.tag_probs"],
    default_config={
        "model": TAGGER_MODEL,
        "overwrite": False,
        "top_k": 3,
        "scorer": {"@scorers": "spacy-spectral.tagger_scorer.v1"},
    },
    default_score_weights={
        "tag_acc": 0.4,
        "pos_acc": 0.3,
        "morph_acc": 0.3,
        "morph_micro_p": None,
        "morph_micro_r": None,
        "morph_micro_f": None,
        "morph_per_feat": None,
    },
)
def make_spectral_tagger(
    nlp: Language, name: str, model: Model, overwrite: bool, top_k: int, scorer: Callable | None
) -> "SpectralTagger":
    """Make a tagger; see `SpectralTagger`."""
    from .tagger import SpectralTagger

    return SpectralTagger(nlp.vocab, model, name, overwrite=overwrite, top_k=top_k, scorer=scorer)


RERANKER_MODEL = {"@architectures": "spacy-spectral.Reranker.v1"}


@Language.factory(
    "spectral_reranker",
    requires=["token.tag", "token.dep", "token.head", "doc.sents"],
    assigns=["token.dep", "token.head", "span._.parses"],
    default_config={
        "model": RERANKER_MODEL,
        "base": "spectral_parser",
        "n": 50,
        "margin": 6.0,
        "symbol": None,
        "store": [],
        "scorer": {"@scorers": "spacy-spectral.ud_scorer.v1"},
    },
    default_score_weights=_PARSE_SCORES,
)
def make_spectral_reranker(
    nlp: Language,
    name: str,
    model: Model,
    base: str,
    n: int,
    margin: float,
    symbol: str | None,
    store: list[str],
    scorer: Callable | None,
) -> "SpectralReranker":
    """Make a reranker; see `SpectralReranker`."""
    from .reranker import SpectralReranker

    return SpectralReranker(
        nlp, model, name, base=base, n=n, margin=margin, symbol=symbol, store=store, scorer=scorer
    )


@Language.factory(
    "eigenwords",
    assigns=["doc.user_hooks", "doc.user_span_hooks", "doc.user_token_hooks"],
    default_config={},
)
def make_eigenwords(nlp: Language, name: str) -> "EigenwordSimilarity":
    """Make the component; vectors and clusters are those of the pipeline's vocabulary."""
    from .eigenwords import EigenwordSimilarity

    return EigenwordSimilarity(name, vocab=nlp.vocab)


@Language.factory(
    "spectral_senter",
    assigns=["token.is_sent_start", "doc.sents", "token._.sent_start_prob"],
    default_config={
        "model": {"@architectures": "spacy-spectral.LinearSenter.v1"},
        "threshold": 0.5,
        "store": True,
        "scorer": {"@scorers": "spacy.senter_scorer.v1"},
    },
    default_score_weights={"sents_f": 1.0, "sents_p": 0.0, "sents_r": 0.0},
)
def make_spectral_senter(
    nlp: Language, name: str, model: Model, threshold: float, store: bool, scorer: Callable | None
) -> "SpectralSenter":
    """Make a senter; see `SpectralSenter`."""
    from .senter import SpectralSenter

    return SpectralSenter(nlp.vocab, model, name, threshold=threshold, store=store, scorer=scorer)


CONSTITUENCY_MODEL = {
    "@architectures": "spacy-spectral.ConstituencyProduct.v1",
    "estimator": "spectral",
    "states": 24,
    "em_iterations": 8,
    "epochs": 2,
    "anchored_epochs": 3,
    "rate": 0.1,
    "min_count": 2,
    "seed": 0,
}


@Language.factory(
    "spectral_constituency",
    assigns=["doc.user_data"],
    default_config={
        "model": CONSTITUENCY_MODEL,
        "nbest": 0,
        "spans_key": "constituents",
        "set_tags": False,
        "annotate_with": [],
        "scorer": {"@scorers": "spacy-spectral.constituency_scorer.v1"},
    },
    default_score_weights={
        "bracket_f": 1.0,
        "bracket_p": None,
        "bracket_r": None,
        "bracket_exact": None,
        "bracket_tag_acc": None,
        "bracket_f_per_type": None,
    },
)
def make_spectral_constituency(
    nlp: Language,
    name: str,
    model: Model,
    nbest: int,
    spans_key: str | None,
    set_tags: bool,
    annotate_with: list[str],
    scorer: Callable | None,
) -> "SpectralConstituency":
    """Make a constituency parser; see `SpectralConstituency`."""
    from .constituency import SpectralConstituency

    return SpectralConstituency(
        nlp.vocab,
        model,
        name,
        nbest=nbest,
        spans_key=spans_key,
        set_tags=set_tags,
        annotate_with=annotate_with,
        scorer=scorer,
    )


@Language.factory(
    "spectral_refiner",
    requires=["token.is_sent_start", "token.tag"],
    assigns=["token._.subtag", "token._.subtag_prob"],
    default_config={
        "model": {"@architectures": "spacy-spectral.Refined.v1"},
        "symbol": "TAG",
        "use_heads": True,
        "parser": None,
        "annotate_with": [],
        "jackknife": None,
    },
    default_score_weights={"subtag_acc": 1.0},
)
def make_spectral_refiner(
    nlp: Language,
    name: str,
    model: Model,
    symbol: str | list[str],
    use_heads: bool,
    parser: str | None,
    annotate_with: list[str],
    jackknife: str | None,
) -> "SpectralRefiner":
    """Make a refiner; see `SpectralRefiner`."""
    from .refiner import SpectralRefiner

    return SpectralRefiner(
        nlp.vocab,
        model,
        name,
        symbol=symbol,
        use_heads=use_heads,
        parser=parser,
        annotate_with=annotate_with,
        jackknife=jackknife,
    )


@Language.factory(
    "spectral_lemmatizer",
    requires=["token.tag", "token.pos", "token.morph"],
    assigns=["token.lemma"],
    default_config={
        "model": {"@architectures": "spacy-spectral.LinearLemmatizer.v1"},
        "overwrite": False,
        "annotate_with": [],
        "jackknife": None,
        "scorer": {"@scorers": "spacy.lemmatizer_scorer.v1"},
    },
    default_score_weights={"lemma_acc": 1.0},
)
def make_spectral_lemmatizer(
    nlp: Language,
    name: str,
    model: Model,
    overwrite: bool,
    annotate_with: list[str],
    jackknife: str | None,
    scorer: Callable | None,
) -> "SpectralLemmatizer":
    """Make a lemmatizer; see `SpectralLemmatizer`."""
    from .lemmatizer import SpectralLemmatizer

    return SpectralLemmatizer(
        nlp.vocab,
        model,
        name,
        overwrite=overwrite,
        annotate_with=annotate_with,
        jackknife=jackknife,
        scorer=scorer,
    )
