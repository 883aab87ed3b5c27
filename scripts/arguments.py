"""Arguments that several commands have, and what they mean for configs."""

import argparse
from pathlib import Path
from typing import Any

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
