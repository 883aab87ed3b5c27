"""What a fast parser learns from a better one: trees or arcs, weights, chosen sentences, amounts, treebanks.

    python scripts/benchmark_teach.py TRAIN DEV --teacher MODEL --text FILE... [--vectors DIR] [--keep DIR]
        [--part 0.8] [--epochs 4] [--min-blocks 2] [--limit WORDS] [--other FILE] [--only NAME...]
        [--json FILE]

The teacher parses the text (kept in --keep). The tagger and the parser of configs/pipeline.cfg are trained on
the first part of TRAIN; the rest, which neither has seen, is what is measured on, and DEV beside it. Settings
are to be chosen by the rest. (The teacher may have seen it.) With --part 1 only DEV is left.

--other is a treebank with other conventions, CoNLL-U, perhaps of another parser: without and with its name as
a feature. With the name, all is parsed like TRAIN, and once more like it.

Every row is one parser: what it has learnt from beside gold trees, how many tokens, how much they count, UAS
and LAS on the rest and on DEV, weights in its table, CPU seconds of its training, and microseconds a token of
its parsing.
"""

import one_thread  # noqa: F401

# isort: split
import argparse
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy
import spacy
import srsly
from arguments import parser_with
from benchmark_pipeline import CONFIGS, percent, print_table
from spacy.language import Language
from spacy.training import Example
from wasabi import msg

from spacy_spectral.base.files import require_writable, write_atomically
from spacy_spectral.cli.parse import Way, parse_files
from spacy_spectral.models.product.parser import ProductParser
from spacy_spectral.pipeline.documents import training_treebank
from spacy_spectral.pipeline.parser import SpectralParser
from spacy_spectral.pipeline.training_data import annotated_by
from spacy_spectral.readers import Corpus, SilverCorpus
from spacy_spectral.trees.calibration import judge
from spacy_spectral.trees.sentences import Floats, Treebank, Trust

WEIGHTS = (0.3, 1.0)


@dataclass
class Row:
    """What a parser learns from beside gold trees: a share of the silver tokens, whether by the probabilities
    of arcs, how much a sentence counts, by what sentences are chosen (see `ORDERS`); whether from the other
    treebank, and whether with its name."""

    share: float = 0.0
    soft: bool = True
    weight: float = 1.0
    chosen: str = ""
    other: bool = False
    named: bool = False

    def __str__(self) -> str:
        found = []
        if self.share:
            kind = "soft arcs" if self.soft else "hard trees"
            found.append(kind + ORDERS[self.chosen])
        if self.other:
            found.append("other trees" + ", named" * self.named)
        return ", ".join(found) or "untaught"


# By what sentences are chosen.
ORDERS = {
    "": "",
    "likely": " of the likeliest",
    "unlikely": " of the least likely",
    "agreed": " where experts agree",
    "differ": " where experts differ",
}
ROWS = {
    "untaught": Row(),
    **{f"hard-{w:g}": Row(0.5, soft=False, weight=w) for w in WEIGHTS},
    **{f"soft-{w:g}": Row(0.5, weight=w) for w in WEIGHTS},
    "likely": Row(0.5, chosen="likely"),
    "unlikely": Row(0.5, chosen="unlikely"),
    "agreed": Row(0.5, chosen="agreed"),
    "differ": Row(0.5, chosen="differ"),
    "quarter": Row(0.25),
    "all": Row(1.0),
    "other": Row(other=True),
    "other-named": Row(other=True, named=True),
    "both": Row(1.0, other=True, named=True),
}
_OWN, _OTHER = "own", "other"


def main() -> None:
    parser = parser_with(__doc__, "train", "dev", "--vectors", "--lang", "--keep", "--json")
    parser.add_argument("--teacher", required=True, help="a trained pipeline")
    parser.add_argument("--text", type=Path, nargs="+", required=True, help="one document a line")
    parser.add_argument("--part", type=float, default=0.8, help="of TRAIN that is trained on")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--min-blocks", type=int, default=2, help="parts that features occur in")
    parser.add_argument("--limit", type=int, default=0, help="so many words of silver trees")
    parser.add_argument("--other", type=Path, help="a treebank with other conventions")
    parser.add_argument("--only", nargs="+", choices=ROWS, help="some of the rows")
    options = parser.parse_args()
    if options.only is None:
        options.only = [name for name, row in ROWS.items() if options.other or not row.other]
    if options.other is None and any(ROWS[name].other for name in options.only):
        parser.error("--other is missing")
    if options.json is not None:
        require_writable(options.json)
    with tempfile.TemporaryDirectory() as directory:
        found = list(run(options, options.keep or Path(directory)))
    header = (
        "",
        "Tokens",
        "Weight",
        "UAS",
        "LAS",
        "DEV UAS",
        "DEV LAS",
        "Table",
        "Training, CPU s",
    )
    cells = [
        (
            row["trees"],
            f"{row['tokens']:,}",
            f"{row['weight']:g}",
            *(percent(row[key]) if key in row else "" for key in SCORES),
            f"{1e-6 * row['entries']:.1f} M",
            f"{row['seconds']:,.0f}",
            f"{row['microseconds']:.1f}",
        )
        for row in found
    ]
    print_table(cells, (*header, "\N{MICRO SIGN}s a token"))
    if options.json is not None:
        write_atomically(options.json, srsly.json_dumps(found, indent=2) + "\n")


SCORES = ("uas", "las", "dev_uas", "dev_las")


def run(options: argparse.Namespace, directory: Path) -> Iterator[dict[str, Any]]:
    """Train and measure one parser after the other."""
    way = Way("conllu", probs=True)
    parse_files(options.teacher, options.text, directory / "silver", way, lines=True)
    nlp, gold, held_out = prepare(options)
    dev = Corpus(options.dev, ["sents"], syntactic_words=True)(nlp)
    sets = {"dev_": treebank_of(nlp, dev)}
    if held_out:
        sets[""] = treebank_of(nlp, held_out)
    reader = SilverCorpus(directory / "silver", weight=1.0, limit=options.limit)
    silver = treebank_of(nlp, reader(nlp))
    likely = numpy.array([reader.mean_prob(*found) for found in reader.sentences()])
    agreed = agreement(options.teacher, silver)
    orders = {"likely": likely, "unlikely": -likely, "agreed": agreed, "differ": -agreed}
    other = None
    if options.other is not None:
        corpus = SilverCorpus(options.other, weight=1.0, soft=False, limit=options.limit)
        other = treebank_of(nlp, corpus(nlp))
    clusters = nlp.get_pipe("spectral_tagger").clusters
    recipe = nlp.get_pipe("spectral_parser").model.attrs["recipe"]
    for name in options.only:
        row = ROWS[name]
        parts = [gold]
        if row.share:
            parts.append(weighed(part_of(silver, row.share, orders.get(row.chosen)), row))
        if row.named:
            parts = [named(part, _OWN) for part in parts]
        if row.other and other is not None:
            parts.append(named(other, _OTHER) if row.named else other)
        figures: dict[str, Any] = {"tokens": sum(len(part.heads) for part in parts[1:])}
        started = process_time()
        learnt = recipe.fit(Treebank.mixed(parts), clusters=clusters, report=lambda message: None)
        figures |= {"seconds": process_time() - started, "weight": row.weight}
        figures["entries"] = len(learnt.model.entries)
        for like in (_OWN, _OTHER) if row.named else ("",):
            for prefix, treebank in sets.items():
                given = named(treebank, like) if like else treebank
                started = process_time()
                judged = judge(learnt.parse(given.tokens), given, learnt.label_names)
                figures["microseconds"] = 1e6 * (process_time() - started) / len(given.heads)
                figures |= {f"{prefix}uas": judged.uas, f"{prefix}las": judged.las}
            msg.info(f"{name} {like}: {figures}")
            trees = f"{row}, parsed like them" if like == _OTHER else str(row)
            yield {"name": name, "trees": trees} | figures


def named(treebank: Treebank, name: str) -> Treebank:
    return replace(treebank, tokens=replace(treebank.tokens, sources=[name] * len(treebank.heads)))


def prepare(options: argparse.Namespace) -> tuple[Language, Treebank, list[Example]]:
    """A pipeline with a tagger that is trained on a part of the treebank, this part on jack-knifed tags, and
    the rest."""
    config = spacy.util.load_config(CONFIGS / "pipeline.cfg")
    config["nlp"]["lang"] = options.lang
    config["nlp"]["pipeline"] = ["spectral_tagger", "spectral_parser"]
    model = {"epochs": options.epochs, "min_blocks": options.min_blocks}
    config["components"]["spectral_parser"]["model"].update(model)
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    corpus = Corpus(options.train, ["sents"], n_sents=10, syntactic_words=True)
    examples = list(corpus(nlp))
    middle = round(options.part * len(examples))
    examples, held_out = examples[:middle], examples[middle:]
    vectors = str(options.vectors) if options.vectors else None
    nlp.get_pipe("spectral_tagger").initialize(lambda: examples, nlp=nlp, clusters=vectors)
    return nlp, parser_of(nlp).training_treebank(examples, nlp), held_out


def parser_of(nlp: Language) -> SpectralParser:
    parser = nlp.get_pipe("spectral_parser")
    assert isinstance(parser, SpectralParser)
    return parser


def treebank_of(nlp: Language, examples: Iterable[Example]) -> Treebank:
    """Trees on the tags of the tagger."""
    examples = list(examples)
    docs = annotated_by(["spectral_tagger"], examples, nlp, parser="spectral_parser")
    return training_treebank(examples, docs, parser_of(nlp).read)


def agreement(teacher: str, silver: Treebank) -> Floats:
    """By sentence, the part of the tokens for which all experts of a product have the same labelled arc;
    without a product, all."""
    model = parser_of(spacy.load(teacher)).grammar
    found = []
    for expert in model.experts.values() if isinstance(model, ProductParser) else ():
        parses = expert.parse(silver.tokens)
        names = numpy.array(expert.label_names)
        found.append((parses.heads, names[parses.labels]))
    same = numpy.ones(len(silver.heads), dtype=bool)
    for heads, labels in found[1:]:
        same &= (heads == found[0][0]) & (labels == found[0][1])
    starts = silver.tokens.starts
    return numpy.add.reduceat(same, starts[:-1], dtype="float64") / numpy.diff(starts)


def part_of(silver: Treebank, share: float, order: Floats | None) -> Treebank:
    """The first sentences, or those with the highest values, up to that share of the tokens."""
    lengths = numpy.diff(silver.tokens.starts)
    ranks = numpy.arange(len(lengths))
    if order is not None:
        ranks = numpy.argsort(-order, kind="stable")
    n_before = numpy.cumsum(lengths[ranks]) - lengths[ranks]
    mask = numpy.zeros(len(lengths), dtype=bool)
    mask[ranks[n_before < share * lengths.sum()]] = True
    return silver.select(mask)


def weighed(silver: Treebank, row: Row) -> Treebank:
    assert silver.trust is not None
    trust = replace(silver.trust, weights=silver.trust.weights * numpy.float32(row.weight))
    if not row.soft:
        trust = Trust.whole(len(silver.tokens), len(silver.heads), row.weight)
    return replace(silver, trust=trust)


if __name__ == "__main__":
    main()
