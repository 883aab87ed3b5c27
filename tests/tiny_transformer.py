"""Pipelines over a tiny transformer whose weights are random: nothing is downloaded."""

import re
from collections import Counter
from pathlib import Path

from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_config

ROOT = Path(__file__).parents[1]
WIDTH = 48
SIZES = {
    "hidden_width": WIDTH,
    "intermediate_width": 96,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "attention_probs_dropout_prob": 0.0,
    "hidden_dropout_prob": 0.0,
}


def write_pieces(conllu, path):
    """Word pieces: the words of a treebank that are seen twice, and single letters."""
    words = Counter(re.findall(r"^\d+\t(\S+)", conllu.read_text("utf8"), re.M))
    letters = sorted(set("".join(words)))
    frequent = [word for word, n in sorted(words.items()) if n > 1 and len(word) > 1]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{c}" for c in letters), *frequent]
    path.write_text("\n".join(pieces), encoding="utf8")
    return len(pieces)


def train_tiny(name, corpora, output, *, words, **more):
    """The directory of a pipeline that `spacy train` has written.

    corpora: The files to train on and to score on, by split.
    words: A CoNLL-U file, for word pieces."""
    n_pieces = write_pieces(words, output / "vocab.txt")
    model = {f"components.transformer.model.{size}": n for size, n in SIZES.items()}
    overrides = {
        "paths.train": str(corpora["train"]),
        "paths.dev": str(corpora["dev"]),
        "paths.pieces": str(output / "vocab.txt"),
        "components.transformer.model.vocab_size": n_pieces,
        **model,
        "initialize.components.transformer.encoder_loader": None,  # weights stay random
        "training.optimizer.learn_rate": 0.003,
        "training.max_epochs": 5,
        "training.eval_frequency": 50,
        "training.batcher.size": 200,
        **more,
    }
    config = load_config(ROOT / "configs" / name, overrides=overrides)
    train(init_nlp(config), output)
    return output / "model-last"
