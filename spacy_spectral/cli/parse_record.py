"""What is known of a directory of parsed files: by which pipeline and of which texts they are.

A parse that was made of another text, or by another pipeline, is not a finished part.
"""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import srsly

from ..base.errors import Errors
from ..base.serialize import require_writable, write_atomically

if TYPE_CHECKING:
    from spacy.language import Language

    from .parse import Job

NAME = "parse.json"


def open_record(
    nlp: "Language", output: Path, jobs: Sequence["Job"], *, overwrite: bool, **settings: Any
) -> None:
    """Make a directory ready for parsed files: those of texts that have changed are removed.

    nlp (Language): The pipeline.
    output (Path): The directory.
    jobs (Sequence[Job]): What is to be parsed.
    overwrite (bool): Whether all that was parsed before counts for nothing.
    settings: What else the parses depend on.
    """
    if output.exists() and not output.is_dir():
        raise ValueError(Errors.S615.format(path=output))
    path = output / NAME
    require_writable(path)
    record = {"settings": {"pipeline": fingerprint(nlp), **settings}, "files": {}}
    before = _read(path)
    if before is not None and before["settings"] != record["settings"] and not overwrite:
        raise ValueError(Errors.S616.format(path=output))
    known = before["files"] if before is not None else {}
    for job in jobs:
        name = job.target.relative_to(output).as_posix()
        status = job.path.stat()
        entry = {
            "source": str(job.path.resolve()),
            "size": status.st_size,
            "modified": status.st_mtime_ns,
        }
        if overwrite or known.get(name) != entry:
            _forget(job, is_known=name in known or overwrite)
        known[name] = entry
    record["files"] = known
    write_atomically(path, srsly.json_dumps(record, indent=2) + "\n")


def fingerprint(nlp: "Language") -> str:
    """RETURNS (str): Name, version and checksum of the files of a pipeline."""
    directory = nlp.path
    checksum = 0
    for path in sorted(directory.rglob("*")) if directory is not None else ():
        if path.is_file() and "__pycache__" not in path.parts:
            checksum = zlib.crc32(path.relative_to(directory).as_posix().encode(), checksum)
            checksum = zlib.crc32(path.read_bytes(), checksum)
    meta = nlp.meta
    return f"{meta['lang']}_{meta['name']} {meta['version']} {checksum:08x}"


def _forget(job: "Job", *, is_known: bool) -> None:
    """Remove what was parsed of a file before."""
    whole = job.target.with_name(job.target.name + job.suffix)
    numbered = "-" + "[0-9]" * 5 + job.suffix
    found = [whole, *job.target.parent.glob(_escaped(job.target.name) + numbered)]
    for path in found:
        if path.exists():
            if not is_known:
                raise ValueError(Errors.S617.format(path=path))
            path.unlink()


def _escaped(name: str) -> str:
    from glob import escape

    return escape(name)


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        record = srsly.read_json(path)
        if isinstance(record["settings"], dict) and isinstance(record["files"], dict):
            return record
    except (ValueError, KeyError, TypeError):
        pass
    raise ValueError(Errors.S618.format(path=path))
