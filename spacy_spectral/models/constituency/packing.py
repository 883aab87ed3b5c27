"""What the files of parsers for constituents hold, declared field by field."""

from typing import Any, NamedTuple

import numpy

from ...base._linear import empty_slots, lay_out
from ...base.files import Array, Bytes, Float, Format, Int, List, Record, Str, Strings
from ..linear.tagger import TaggerModel
from ._anchored import AnchoredTable
from ._table import FeatureTable
from .latent import MEANS, LatentGrammar, grow, row_sizes, shrink
from .lexicon import Lexicon
from .neural import FIELDS as NEURAL
from .neural import SpanNetwork
from .statistics import Symbols, rule_features
from .tokens import Encoder
from .trees import GROWS_LEFT, WORD, Symbol


class Mixture(NamedTuple):
    """Exponents and temperature; see `model.py`. Those given here were chosen on folds of training data.

    anchored, grammar, spans (float): Exponents of the posteriors of anchored rules, of the grammar with
        states and of the model of spans, or of the network in its place.
    temperature (float): Of the distribution over trees.
    neural (float): The exponent of the posteriors of the network on the forest.
    calibration (float): A factor of the temperature, also of a model alone; see `calibration`.
    """

    anchored: float = 1.0
    grammar: float = 1.5
    spans: float = 1.0
    temperature: float = 4.5
    neural: float = 2.0
    calibration: float = 1.0


_MOST_SYMBOLS = 4096
_MOST_STATES = 64

FORMAT = Format(
    "constituency",
    2,
    root=Str(),
    chains=List(Strings(least=1), "symbols", least=1, most=_MOST_SYMBOLS),
    kinds=Array("uint8", "symbols", high=GROWS_LEFT, order="ascending"),
    rules=Array("uint16", "rules", 3, below="symbols"),
    seen=Array("uint8", "rules", high=2),
    backoff=Array("float32", "rules", low=0.0, high=1.0),
    mixture=Record(
        anchored=Float(low=0.0, high=100.0),
        grammar=Float(low=0.0, high=100.0),
        spans=Float(low=0.0, high=100.0),
        temperature=Float(low=0.01, high=100.0),
        # files of older versions do not have these
        neural=Float(low=0.0, high=100.0, optional=True),
        calibration=Float(low=0.001, high=1000.0, optional=True),
    ),
    # likewise
    typography=Str(optional=True),
    spans=Record(
        optional=True,
        known=Strings(),
        tagger=Bytes(),
        n_slots=Int(low=16, high=1 << 28),
        places=Array("uint32", "rows", below="n_slots", unique=True),
        checks=Array("uint32", "rows"),
        sizes=Array("uint16", "rows", low=1, sizes="entries"),
        labels=Array(("uint8", "uint16"), "entries", below=_MOST_SYMBOLS),
        weights=Array("float16", "entries"),
        anchored=Record(
            optional=True,
            weights=Array("float16", "entries"),
            n_edges=Int(low=16, high=1 << 26),
            there=Array("uint8", "bytes"),
            edges=Array("float16", "kept"),
            # whether it looks at arcs; files of older versions do not say so
            arcs=Int(low=0, high=1, optional=True),
        ),
    ),
    neural=NEURAL,
    latent=Record(
        optional=True,
        words=Strings("words", unique=True),
        signatures=Strings("signatures", unique=True),
        row_sizes=Array("uint16", "lexicon_rows", sizes="lexicon"),
        row_symbols=Array("uint16", "lexicon", below="symbols", order="strict", rows="row_sizes"),
        row_scores=Array("float32", "lexicon", above=0.0),
        n_states=Array("int32", "symbols", low=1, high=_MOST_STATES),
        root=Array("float32", "symbols", "states"),
        kind=Array("uint8", "rules", high=MEANS),
        y_mean=Array("float32", "symbols", "states"),
        z_mean=Array("float32", "symbols", "states"),
        tensors=Array("int8", "numbers"),
        scales=Array("float32", "tensor_rows", low=0.0),
        vectors=Array("float16", "units", "states"),
        row_units=Array("int32", "lexicon", low=0, below="units"),
        rule_probs=Array("float64", "rules", low=0.0, high=1.0),
        root_probs=Array("float64", "symbols", low=0.0, high=1.0),
        prior=Array("float64", "symbols", low=0.0, high=1.0),
    ),
    # whether the network is trained step by step, so that its layers are kept elsewhere
    outside=Int(low=0, high=1, optional=True),
)


def span_payload(
    encoder: Encoder, spans: FeatureTable, anchored: AnchoredTable | None
) -> dict[str, Any]:
    starts, labels = spans.slots["start"], spans.labels
    used = numpy.flatnonzero(starts)
    places = used[numpy.argsort(starts[used])]
    payload = {
        "known": sorted(encoder.known),
        "tagger": encoder.tagger.to_bytes(),
        "n_slots": len(starts),
        "places": places.astype("uint32"),
        "checks": spans.slots["check"][places],
        "sizes": numpy.diff(numpy.append(spans.headers, len(labels))).astype("uint16"),
        "labels": labels.astype("uint8" if labels.max(initial=0) < 256 else "uint16"),
        "weights": spans.weights.astype("float16"),
        "anchored": None,
    }
    if anchored is not None:
        there = anchored.weights != 0
        payload["anchored"] = {
            "weights": anchored.spans.weights.astype("float16"),
            "n_edges": len(there),
            "there": numpy.packbits(there),
            "edges": anchored.weights[there].astype("float16"),
            "arcs": int(anchored.arcs),
        }
    return payload


def latent_payload(latent: LatentGrammar) -> dict[str, Any]:
    lexicon = latent.lexicon
    tensors, scales = shrink(latent.tensors, latent.row_sizes())
    return {
        "words": lexicon.words,
        "signatures": lexicon.signatures,
        "row_sizes": numpy.diff(lexicon.starts).astype("uint16"),
        "row_symbols": lexicon.symbols.astype("uint16"),
        "row_scores": lexicon.scores,
        "row_units": lexicon.units,
        "n_states": latent.n_states,
        "root": latent.root,
        "kind": latent.kind,
        "y_mean": latent.y_mean,
        "z_mean": latent.z_mean,
        "tensors": tensors,
        "scales": scales,
        "vectors": latent.vectors.astype("float16"),
        "rule_probs": latent.rule_probs,
        "root_probs": latent.root_probs,
        "prior": latent.prior,
    }


def read_symbols(read: dict[str, Any]) -> Symbols:
    """The symbols and rules of a parser's file, or a ValueError that says what is wrong."""
    kinds = read["kinds"].tolist()
    pairs = zip(read["chains"], kinds, strict=True)
    symbols = [Symbol(tuple(chain), kind) for chain, kind in pairs]
    n_words = kinds.count(WORD)
    FORMAT.require(n_words, "kinds", "has no symbols of words")
    FORMAT.require(all(all(chain) for chain in read["chains"]), "chains", "has an empty label")
    rules, seen = read["rules"].astype("int32"), read["seen"]
    is_sorted = (numpy.diff((seen > 0).astype("int8")) <= 0).all()
    FORMAT.require(is_sorted, "seen", "has rules that were seen behind others")
    FORMAT.require((rules[:, 0] >= n_words).all(), "rules", "has a rule that makes a word")
    FORMAT.require(len(numpy.unique(rules, axis=0)) == len(rules), "rules", "has a rule twice")
    is_there = any(read[name] is not None for name in ("spans", "neural", "latent"))
    if read["outside"]:
        FORMAT.require(not is_there, "outside", "is 1, but there are models inside")
    else:
        FORMAT.require(is_there, "latent", "is missing, and so is 'spans'")
    return Symbols(symbols, n_words, rules, seen, read["backoff"].astype("float64"), read["root"])


def read_spans(read: dict[str, Any], grammar: Symbols) -> dict[str, Any]:
    n_slots, n_rows = read["n_slots"], len(read["places"])
    FORMAT.require(n_slots & (n_slots - 1) == 0, "spans.n_slots", "is no power of 2")
    # a search ends at an empty slot
    FORMAT.require(n_rows < n_slots <= 4 * n_rows + 16, "spans.n_slots", "does not fit the rows")
    tagger = TaggerModel.from_bytes(read["tagger"])
    encoder = Encoder(read["known"], tagger, tagger.lexicon.clusters)
    sizes = read["sizes"].astype("int64")
    labels = numpy.delete(read["labels"], numpy.cumsum(sizes) - sizes)
    starts, entries, _ = lay_out(sizes - 1, labels)
    entries["weight"][1:] = read["weights"]
    slots = empty_slots(n_slots)
    slots["check"][read["places"]] = read["checks"]
    slots["start"][read["places"]] = starts
    n_phrases, anchored = len(grammar) - grammar.n_words, None
    spans = FeatureTable(slots, entries, grammar.n_words, n_phrases)
    if read["anchored"] is not None:
        own = read["anchored"]
        n_edges = own["n_edges"]
        FORMAT.require(n_edges & (n_edges - 1) == 0, "spans.anchored.n_edges", "is no power of 2")
        fits = 8 * len(own["there"]) == n_edges
        FORMAT.require(fits, "spans.anchored.there", "has not a bit for every weight")
        there = numpy.unpackbits(own["there"]).astype(bool)
        fits = there.sum() == len(own["edges"])
        FORMAT.require(fits, "spans.anchored.edges", "has not as many as 'there' says")
        # not `zeros`: only memory numpy fills itself gets the large pages that random access needs
        edges = numpy.empty(n_edges, dtype="float32")
        edges[:] = 0
        edges[there] = own["edges"]
        of_items = spans.with_weights(own["weights"])
        looks = bool(own["arcs"])
        anchored = AnchoredTable(of_items, rule_features(grammar), edges, arcs=looks)
    return {"encoder": encoder, "spans": spans, "anchored": anchored}


def read_network(read: dict[str, Any], grammar: Symbols) -> dict[str, Any]:
    n_phrases = len(grammar) - grammar.n_words
    parts = {"neural": SpanNetwork.from_payload(read, grammar.n_words, n_phrases, FORMAT.require)}
    if not read["tagger"]:
        return parts
    tagger = TaggerModel.from_bytes(read["tagger"])
    return {"encoder": Encoder((), tagger, tagger.lexicon.clusters), **parts}


def read_latent(read: dict[str, Any], grammar: Symbols) -> LatentGrammar:
    n_rows = len(read["words"]) + len(read["signatures"]) + 1
    FORMAT.require(len(read["row_sizes"]) == n_rows, "latent.row_sizes", "does not fit the words")
    FORMAT.require(read["row_sizes"].min() > 0, "latent.row_sizes", "has a word without symbols")
    below = read["row_symbols"].max(initial=0) < grammar.n_words
    FORMAT.require(below, "latent.row_symbols", "has a symbol that words do not have")
    n_states, kind = read["n_states"], read["kind"]
    fits = n_states.max() <= read["root"].shape[1]
    FORMAT.require(fits, "latent.n_states", "has more states than vectors have")
    states = n_states[grammar.rules].astype("int64")
    by_kind = [states.sum(axis=1), states.prod(axis=1), numpy.zeros(len(states), dtype="int64")]
    sizes = numpy.choose(kind, by_kind)
    # before anything is as large as they say
    FORMAT.require(sizes.sum() == len(read["tensors"]), "latent.tensors", "does not fit the rules")
    rows = row_sizes(kind, states)
    FORMAT.require(len(rows) == len(read["scales"]), "latent.scales", "does not fit the rules")
    starts = numpy.concatenate([[0], numpy.cumsum(read["row_sizes"], dtype="int64")])
    lexicon = Lexicon(
        read["words"], read["signatures"], starts.astype("int32"), read["row_symbols"].astype("int32"),
        read["row_scores"], read["row_units"],
    )  # fmt: skip
    return LatentGrammar(
        grammar, lexicon, n_states, read["root"], grow(read["tensors"], read["scales"], rows),
        numpy.where(kind == MEANS, 0, numpy.cumsum(sizes) - sizes).astype("int64"), kind,
        read["y_mean"], read["z_mean"], read["vectors"].astype("float32"),
        read["rule_probs"], read["root_probs"], read["prior"],
    )  # fmt: skip
