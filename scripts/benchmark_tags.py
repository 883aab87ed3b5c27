"""What taggers learn from another treebank beside their own: plainly, with its name as a feature, by weight.

    python scripts/benchmark_tags.py TRAIN DEV --other FILE [--vectors DIR] [--model linear|neural|product]
        [--blocks 0 5 10] [--weights 0.3 1] [--epochs N] [--only alone plain named] [--json FILE]

TRAIN is cut into blocks of 50 sentences; of every fifteen of them those with the numbers --blocks are held
out, and are what settings are to be chosen by. DEV, of other genres for instance, is measured on beside them.
--other is CoNLL-U, perhaps of another tagger (.gz, too). With its name, all is tagged like TRAIN.

Every row is one tagger: fine tags, parts of speech and features that are right, in percent, on the held-out
blocks and on DEV, CPU seconds of training, and microseconds a token of tagging the held-out blocks. The
exponents of products are learnt from DEV's first half; then only the second is measured on.
"""

import one_thread  # noqa: F401

# isort: split
import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import srsly
from arguments import parser_with
from benchmark_pipeline import percent, print_table
from spacy.vocab import Vocab
from wasabi import msg

from spacy_spectral.base.files import require_writable, write_atomically
from spacy_spectral.models.linear.tagger import TaggerRecipe
from spacy_spectral.models.linear.tagger_training import TaggedSentence
from spacy_spectral.models.tagging.neural import NeuralTaggerRecipe
from spacy_spectral.models.tagging.product import ProductTaggerRecipe
from spacy_spectral.pipeline.training_data import find_clusters, find_word_vectors
from spacy_spectral.treebank.conllu import read_conllu

_BLOCK, _CYCLE = 50, 15
_ROWS = ("alone", "plain", "named")
_OWN, _OTHER = "own", "other"
SCORES = ("tags", "pos", "morphs", "dev_tags", "dev_pos", "dev_morphs")


def main() -> None:
    parser = parser_with(__doc__, "train", "dev", "--vectors", "--json")
    parser.add_argument("--other", type=Path, required=True, help="another treebank")
    parser.add_argument("--model", choices=("linear", "neural", "product"), default="linear")
    parser.add_argument("--blocks", type=int, nargs="+", default=[0, 5, 10], help="held out")
    parser.add_argument("--weights", type=float, nargs="+", default=[0.3, 1.0])
    parser.add_argument("--epochs", type=int, help="of the network beside the other treebank")
    parser.add_argument("--only", nargs="+", choices=_ROWS, default=list(_ROWS))
    options = parser.parse_args()
    if options.json is not None:
        require_writable(options.json)
    found = list(run(options))
    cells = [
        (
            row["name"],
            *(percent(row[score]) for score in SCORES),
            f"{row['seconds']:,.0f}",
            f"{row['microseconds']:.1f}",
        )
        for row in found
    ]
    dev = ("DEV tags", "parts", "features")
    header = ("", "Tags", "Parts", "Features", *dev, "Training, CPU s", "\N{MICRO SIGN}s a token")
    print_table(cells, header)
    if options.json is not None:
        write_atomically(options.json, srsly.json_dumps(found, indent=2) + "\n")


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Train and measure one tagger after the other."""
    everything = read(options.train)
    inside = [(i // _BLOCK) % _CYCLE in options.blocks for i in range(len(everything))]
    own = [s for s, is_out in zip(everything, inside, strict=True) if not is_out]
    held_out = [s for s, is_out in zip(everything, inside, strict=True) if is_out]
    dev, judges, other = read(options.dev), [], read(options.other)
    if options.model == "product":
        judges, dev = dev[: len(dev) // 2], dev[len(dev) // 2 :]
    resources: dict[str, Any] = {
        "clusters": find_clusters(options.vectors, Vocab()),
        "vectors": find_word_vectors(options.vectors, Vocab()),
    }
    rows: list[tuple[str, list[TaggedSentence], str]] = []
    if "alone" in options.only:
        rows.append(("alone", own, ""))
    for name in ("plain", "named"):
        for weight in options.weights if name in options.only else ():
            source = _OTHER if name == "named" else ""
            like = _OWN if name == "named" else ""
            mixed = [s._replace(source=like) for s in own]
            mixed += [s._replace(source=source, weight=weight, corpus=1) for s in other]
            rows.append((f"{name}, weight {weight:g}", mixed, like))
    for name, sentences, like in rows:
        recipe = recipe_of(options, is_alone=name == "alone")
        started = process_time()
        given = [s._replace(source=like) for s in judges]
        tagger = recipe.fit(sentences, dev=given, **resources).like(like)
        row: dict[str, Any] = {"name": name, "seconds": process_time() - started}
        started = process_time()
        row |= scores(tagger, held_out)
        n_tokens = sum(len(s.words) for s in held_out)
        row["microseconds"] = 1e6 * (process_time() - started) / max(1, n_tokens)
        row |= {f"dev_{score}": value for score, value in scores(tagger, dev).items()}
        msg.info(str(row))
        yield row


def read(path: Path) -> list[TaggedSentence]:
    """The sentences of a treebank."""
    return [
        TaggedSentence(
            sentence.words,
            [tag or pos for tag, pos in zip(sentence.xpos, sentence.upos, strict=True)],
            sentence.upos,
            sentence.feats,
            sentence.lemmas,
        )
        for sentence in read_conllu(path)
    ]


def recipe_of(options: argparse.Namespace, *, is_alone: bool) -> Any:
    """How the tagger is trained; the network makes fewer passes over more text."""
    linear, neural = TaggerRecipe(), NeuralTaggerRecipe()
    if options.epochs is not None and not is_alone:
        neural = NeuralTaggerRecipe(epochs=options.epochs)
    experts = {"linear": linear, "neural": neural}
    return ProductTaggerRecipe(experts) if options.model == "product" else experts[options.model]


def scores(tagger: Any, sentences: Sequence[TaggedSentence]) -> dict[str, float]:
    """The parts of tokens whose fine tag, part of speech and features are right."""
    tagging = tagger.tag([s.words for s in sentences], top=1)
    found = [tagger.tag_classes[c] for c in tagging.classes]
    morphs = [tagger.morphs[m] if m >= 0 else "" for m in tagging.morphs]
    gold = [own for s in sentences for own in zip(s.tags, s.pos, s.morphs, strict=True)]
    right = [
        (tag == own[0], pos == own[1], morph == own[2])
        for (tag, pos), morph, own in zip(found, morphs, gold, strict=True)
    ]
    counts = [sum(column) / len(right) for column in zip(*right, strict=True)]
    return dict(zip(SCORES, counts, strict=False))


if __name__ == "__main__":
    main()
