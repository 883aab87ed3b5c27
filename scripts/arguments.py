"""Arguments that several commands have, and what they mean for configs."""

import argparse
from pathlib import Path
from typing import Any

from spacy.util import load_config

from spacy_spectral.base.files import output_path

_TREEBANK = {"type": Path, "help": "CoNLL-U or .spacy, or a directory"}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "train": _TREEBANK,
    "dev": _TREEBANK,
    "--sample": {"action": "store_true", "help": "use the sample treebank"},
    "--vectors": {"type": Path, "help": "made by 'spacy spectral eigenwords'"},
    "--lang": {"default": "en", "help": "code of the language"},
    "--symbol": {"default": "TAG", "help": "what our parsers see: TAG or POS"},
    "--minutes": {"type": float, "default": 60, "help": "limit of others' training"},
    "--quick": {"action": "store_true", "help": "a trial: a few steps of everything"},
    "--no-udpipe": {"action": "store_true", "help": "leave out UDPipe"},
    "--keep": {"type": output_path, "help": "keep trained models here, use those found here"},
    "--text": {"type": Path, "help": "running text to measure speed on"},
    "--json": {"type": output_path, "help": "write all figures here"},
}
# of commands that compare pipelines
SYSTEMS = tuple(name for name in ARGUMENTS if name != "--sample")


def parser_with(doc: str | None, *names: str, is_optional: bool = False) -> argparse.ArgumentParser:
    """doc (Optional[str]): The docstring of the command; its first line describes it.
    names (str): Which of ARGUMENTS it has.
    is_optional (bool): Whether treebanks may be left out.
    RETURNS (ArgumentParser): A parser, to be given others.
    """
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    for name in names:
        own = ARGUMENTS[name]
        if is_optional and own is _TREEBANK:
            own = own | {"nargs": "?"}
        parser.add_argument(name, **own)
    return parser


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """RETURNS (Dict[str, Any]): What arguments override in the configs of our pipelines."""
    return {
        "paths.train": str(options.train),
        "paths.dev": str(options.dev),
        "paths.vectors": str(options.vectors) if options.vectors else None,
        "nlp.lang": options.lang,
        "components.spectral_parser.symbol": options.symbol,
    }


_SIZES = dict.fromkeys(("mix_size", "scan_size", "arc_size", "label_size"), 32)
_SMALL = {**_SIZES, "scan_depth": 1, "epochs": 4}


def small_networks(path: Path) -> dict[str, Any]:
    """RETURNS (Dict[str, Any]): Overrides of a config for a trial: a few epochs of small networks."""
    config = load_config(path, interpolate=False)
    return {
        f"components.{component}.model.experts.{name}.{setting}": value
        for component in ("spectral_tagger", "spectral_parser")
        for name, expert in config["components"][component]["model"]["experts"].items()
        for setting, value in _SMALL.items()
        if "mix_size" in expert and setting in expert
    }
