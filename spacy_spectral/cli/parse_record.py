"""What is known of a directory of parsed files: of which texts they are, and how they were parsed.

The record is a file of lines that only grows. A line says: a file of this name *with this content* is the
parse of this text, made in this way. It is written before the file gets its name. So it stays true in any
order of writing, also if a command is killed: the content of a file tells what it is. A file that no line
names was not written here, or was changed since, and is kept.
"""

import json
import re
import zlib
from collections import defaultdict
from collections.abc import Container, Sequence
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from spacy.language import Language

from ..base.errors import Errors, SpectralError
from ..base.files import append_line, remove_leftovers, require_writable, write_atomically

if TYPE_CHECKING:
    from .parse import Job, WorkItem

NAME = "parse.jsonl"
_HEADER = {"record": "spacy spectral parse", "version": 1}


class Fact(NamedTuple):
    """What a file with a certain content is: what the parsed text is called, without the number of a
    part and the ending, where the text was, a digest of it, and the pipeline and what else the parse
    depends on."""

    target: str
    source: str
    text: str
    way: str


class Record:
    """The record of a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / NAME
        self._facts: dict[str, dict[str, list[Fact]]] = {}  # by file, then by content
        self._files: defaultdict[str, set[str]] = defaultdict(set)  # by target
        self._n_read = 0
        self._is_cut = False
        self._way = ""
        self._sources: set[Path] = set()
        self._overwrite = False

    def made(self) -> set[Path]:
        """Resolved paths of all that was ever written here, the record, too."""
        self.refresh()
        directory = self.directory.resolve()
        return {directory / name for name in (NAME, *self._facts)}

    def begin(self, jobs: Sequence["Job"], way: dict[str, Any], *, overwrite: bool) -> None:
        """Find out whether parses can be written, and begin to. `way` is what they depend on beside the
        text; if `overwrite`, what is there counts for nothing: it is removed."""
        if self.directory.exists() and not self.directory.is_dir():
            raise SpectralError(Errors.S615.format(path=self.directory))
        require_writable(self.path)
        self._way = json.dumps(way, sort_keys=True)
        self._overwrite = overwrite
        self._sources = {job.path.resolve() for job in jobs}
        self.refresh()
        facts = [fact for own in self._facts.values() for fact in _all(own)]
        is_other = bool(facts) and not any(fact.way == self._way for fact in facts)
        there = any((self.directory / name).exists() for name in self._facts) if is_other else False
        if there and not overwrite:
            raise SpectralError(Errors.S616.format(path=self.directory))
        listing = _Listing()
        for job in jobs:
            for path in listing.parses_of(job):
                self._look_at(job, path)
        if self._is_cut:
            append_line(self.path, "")
        if not self._n_read:
            append_line(self.path, json.dumps(_HEADER))

    def _look_at(self, job: "Job", path: Path) -> None:
        """Decide before the work about a file that was there before."""
        name = self._name(path)
        if name not in self._facts:
            self.refresh()  # another command has just written it
        facts = _all(self._facts.get(name, {}))
        if not any(fact.target == self._name(job.target) for fact in facts):
            if facts:
                return  # that of another text, which is left alone
            if not self._overwrite:
                raise SpectralError(Errors.S617.format(path=path))
        if self._overwrite:
            self._remove(path, job)
        elif not any(fact.way == self._way for fact in facts):
            raise SpectralError(Errors.S616.format(path=path))

    def is_finished(self, item: "WorkItem") -> bool:
        """Find out whether a part is parsed. What was parsed of what the text was before is removed."""
        job, path = item.job, item.target
        name, target = self._name(path), self._name(job.target)
        known = self._facts_of(path)
        if known is None:
            return False
        mine = Fact(target, job.source, item.digest, self._way)
        # what users have changed is finished, too
        facts = known or _all(self._facts.get(name, {}))
        if any(fact._replace(source=job.source) == mine for fact in facts):
            return True
        if other := next((fact for fact in known if fact.target != target), None):
            raise SpectralError(Errors.S613.format(one=other.source, other=job.path, target=path))
        if not self._overwrite:
            if not any(fact.source == job.source for fact in known):
                raise SpectralError(Errors.S617.format(path=path))
            if not any(fact.way == self._way for fact in known):
                raise SpectralError(Errors.S616.format(path=path))
        # a command that has read an old text removes nothing
        if not job.has_changed():
            self._remove(path, job)
        return False

    def files_of(self, job: "Job") -> set[Path]:
        """Where parses of a text were ever written."""
        names = self._files.get(self._name(job.target), ())
        return {self.directory / name for name in names if name.endswith(job.suffix)}

    def keep_only(self, job: "Job", files: Container[Path]) -> None:
        """Remove parses of what a text was before."""
        target = self._name(job.target)
        for path in sorted(self.files_of(job)):
            known = None if path in files or job.has_changed() else self._facts_of(path)
            if known is not None:
                if not any(fact.target == target for fact in known):
                    raise SpectralError(Errors.S617.format(path=path))
                self._remove(path, job)

    def write(self, item: "WorkItem", data: bytes) -> None:
        """Write the parse of a part."""
        fact = Fact(self._name(item.job.target), item.job.source, item.digest, self._way)
        line = {"file": self._name(item.target), "content": digest(data), **fact._asdict()}
        line["way"] = json.loads(fact.way)
        append_line(self.path, json.dumps(line))
        self._add(line)
        write_atomically(item.target, data)

    def refresh(self) -> None:
        """Read what was written since the last time, by others, too."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self._n_read)
                content = file.read()
        except FileNotFoundError:
            return
        except OSError as error:
            raise SpectralError(Errors.S618.format(path=self.path)) from error
        *lines, rest = content.split(b"\n")
        if content and not self._n_read and _read([*lines, rest][0]) != _HEADER:
            raise SpectralError(Errors.S618.format(path=self.path))
        # it was cut off by a full disk, or is being written
        self._is_cut = bool(rest)
        self._n_read += len(content) - len(rest)
        for data in lines:
            line = _read(data)
            if isinstance(line, dict) and _is_whole(line):
                self._add(line)

    def _add(self, line: dict[str, Any]) -> None:
        way = json.dumps(line["way"], sort_keys=True)
        fact = Fact(line["target"], line["source"], line["text"], way)
        contents = self._facts.setdefault(line["file"], {})
        facts = contents.setdefault(line["content"], [])
        if fact not in facts:
            facts.append(fact)
        self._files[fact.target].add(line["file"])

    def _facts_of(self, path: Path) -> list[Fact] | None:
        """What a file is, by its content: nothing if that is not known, None if there is no file."""
        name = self._name(path)
        try:
            content = digest(path.read_bytes())
        except FileNotFoundError:
            return None
        if content not in self._facts.get(name, {}):
            self.refresh()
        return self._facts.get(name, {}).get(content, [])

    def _name(self, path: Path) -> str:
        return path.relative_to(self.directory).as_posix()

    def _remove(self, path: Path, job: "Job") -> None:
        if path.resolve() in self._sources:
            raise SpectralError(Errors.S612.format(path=job.path))
        path.unlink(missing_ok=True)


class _Listing:
    """What is in the directories that are written to. Each is read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Path, str], defaultdict[str, list[Path]]] = {}

    def parses_of(self, job: "Job") -> list[Path]:
        """The files that are named as parses of a text, whole or in parts."""
        key = job.target.parent, job.suffix
        if key not in self._known:
            self._known[key] = self._read(*key)
        return self._known[key].get(job.target.name, [])

    def _read(self, directory: Path, suffix: str) -> defaultdict[str, list[Path]]:
        found: defaultdict[str, list[Path]] = defaultdict(list)
        if directory.is_dir():
            remove_leftovers(directory)
            for path in sorted(directory.iterdir()):
                if path.name.endswith(suffix):
                    name = path.name.removesuffix(suffix)
                    found[name].append(path)
                    if numbered := re.fullmatch(r"(.*)-\d{5,}", name, re.DOTALL):
                        found[numbered[1]].append(path)
        return found


def _all(contents: dict[str, list[Fact]]) -> list[Fact]:
    return [fact for facts in contents.values() for fact in facts]


def _read(line: bytes) -> Any:
    # not srsly, which fails on names that are no UTF-8
    try:
        return json.loads(line)
    except ValueError:
        return None  # cut off by a full disk or a loss of power


def _is_whole(line: dict[str, Any]) -> bool:
    names = ("file", "content", "target", "source", "text")
    if "way" not in line or not all(isinstance(line.get(name), str) for name in names):
        return False
    path = PurePosixPath(line["file"])
    return not path.is_absolute() and ".." not in path.parts


def digest(data: bytes) -> str:
    """What tells contents apart."""
    return blake2b(data, digest_size=16).hexdigest()


def fingerprint(nlp: Language) -> str:
    """Name, version and checksum of the files of a pipeline."""
    directory = nlp.path
    checksum = 0
    for path in sorted(directory.rglob("*")) if directory is not None else ():
        if path.is_file() and "__pycache__" not in path.parts:
            checksum = zlib.crc32(path.relative_to(directory).as_posix().encode(), checksum)
            checksum = zlib.crc32(path.read_bytes(), checksum)
    meta = nlp.meta
    return f"{meta['lang']}_{meta['name']} {meta['version']} {checksum:08x}"
