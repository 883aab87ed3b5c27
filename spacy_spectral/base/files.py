"""Files: what models write, how it is checked when it is read, and writing that leaves nothing half done.

There is one binary format: msgpack behind a header with kind, version and checksum. No pickle anywhere.
There is one way to check what is loaded: a model declares its fields, and what a file holds must fit.
Kernels do not check bounds, and a checksum says nothing about a file that somebody made: kinds, sizes,
order and bounds of everything are checked here, before anything is computed or allocated from it. What
does not fit is an error [S005] that names the field and what is wrong with it.

    _FORMAT = Format(
        "toy tagger", 1,
        words=Strings("words", unique=True),               # "words" is now how many there are
        tags=Strings("tags", least=1),
        counts=Array("uint32", "words", "tags"),           # both sizes must agree with what was read before
        row_starts=Array("int32", "words+1", starts="entries"),        # 0, ascending, up to "entries"
        row_tags=Array("int32", "entries", low=0, below="tags", order="strict", rows="row_starts"),
        weights=Array("float32", "entries"),               # finite, unless it says otherwise
        log_size=Int(low=1, high=20),                      # bounded before anybody allocates 2 ** log_size
        threshold=Float(above=0.0, high=1.0, optional=True),
        lexicon=Record(kind=Str(choices=("a", "b")), ids=Array("int32", "ids", below="tags")),
    )

    class Toy(Stored):                                     # see below
        FORMAT = _FORMAT

        def to_payload(self) -> dict[str, Any]:
            return {"words": self.words, ...}

        @classmethod
        def from_payload(cls, read: dict[str, Any]) -> "Toy":      # exactly the declared fields
            _FORMAT.require(read["counts"].any(), "counts", "has no counts")    # what no field can say
            return cls(**read)

Sizes and bounds are numbers or names. A name stands for a number that is given to `unpack`, for the value
of an `Int` field that was read before, or for a size that the first shape with that name decides; they can be
added up: "words+1", "words+classes". Names of a `Record` are its own, but it sees those around it. None is
allowed only in optional fields, which may be missing, too. Arrays come out as they were read: contiguous,
aligned, not writable.
"""

import errno
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isinf, isnan
from pathlib import Path
from shutil import rmtree
from typing import Any, ClassVar, Literal, NoReturn, TypeVar
from uuid import uuid4

import numpy
import srsly

from .errors import Errors, SpectralError, reason_of

MAGIC = b"spacy-spectral"
# the ending of what is not written to its end, and the seconds after which nobody is writing it
_TEMPORARY = ".spectral-tmp"
_LONGEST_WRITING = 3600


def pack(kind: str, version: int, payload: Any) -> bytes:
    """Serialise a payload of plain values and numpy arrays, the same always to the same bytes. The kind,
    e.g. "shag", is checked on reading."""
    body = srsly.msgpack_dumps(payload)
    header = srsly.msgpack_dumps([kind, version, zlib.crc32(body)])
    return MAGIC + len(header).to_bytes(2, "little") + header + body


def unpack(kind: str, version: int, data: bytes) -> Any:
    """Read what `pack` wrote, or raise a ValueError that says what is wrong."""
    try:
        found_kind, found_version, checksum, body = read_header(data)
    except Exception as error:
        raise SpectralError(
            Errors.S002.format(what=kind, reason="no spacy-spectral header")
        ) from error
    if found_kind != kind:
        raise SpectralError(Errors.S002.format(what=kind, reason=f"it holds {found_kind!r}"))
    if found_version != version:
        raise SpectralError(Errors.S003.format(what=kind, found=found_version, expected=version))
    if zlib.crc32(body) != checksum:
        raise SpectralError(Errors.S002.format(what=kind, reason="the checksum does not match"))
    try:
        return srsly.msgpack_loads(body)
    except Exception as error:
        raise SpectralError(Errors.S002.format(what=kind, reason="unreadable body")) from error


def read_header(data: bytes) -> tuple[str, int, int, bytes]:
    """Kind, version, checksum and the rest of what `pack` wrote."""
    if not isinstance(data, bytes) or not data.startswith(MAGIC):
        raise ValueError
    start = len(MAGIC) + 2
    end = start + int.from_bytes(data[len(MAGIC) : start], "little")
    kind, version, checksum = srsly.msgpack_loads(data[start:end])
    return kind, version, checksum, data[end:]


Size = int | str
Bound = int | float | str | None


@dataclass
class Scope:
    """What is known while fields are read: the path of the field at hand, e.g. "automata.start", and
    where rows end, by the field that tells."""

    what: str
    path: str = ""
    numbers: dict[str, int] = field(default_factory=dict)
    rows: dict[str, numpy.ndarray] = field(default_factory=dict)

    def fail(self, reason: str) -> NoReturn:
        raise SpectralError(Errors.S005.format(what=self.what, field=self.path, reason=reason))

    def inside(self, name: str) -> "Scope":
        """That of a field in it, which knows the same names."""
        path = f"{self.path}.{name}" if self.path else name
        return Scope(self.what, path, self.numbers, self.rows)

    def record(self) -> "Scope":
        """That of a record, whose names do not leave it."""
        return Scope(self.what, self.path, dict(self.numbers))

    def number(self, bound: Bound) -> Any:
        """A bound as a number."""
        if not isinstance(bound, str):
            return bound
        parts = bound.split("+")
        for part in parts:
            if not part.isdigit() and part not in self.numbers:
                self.fail(f"needs {part!r}, which is missing")
        return sum(int(part) if part.isdigit() else self.numbers[part] for part in parts)

    def require_size(self, found: int, size: Size, axis: str, *, decides: bool = True) -> None:
        """The first to use a name decides what it stands for, if it can for another number than 0; all
        others must agree."""
        names = [] if isinstance(size, int) else size.split("+")
        new = [name for name in names if not name.isdigit() and name not in self.numbers]
        if new:
            if found and not decides:
                self.fail(f"has {found} {axis}, but no entry")
            self.numbers[new[0]] = 0
            self.numbers[new[0]] = found - self.number(size)
            if self.numbers[new[0]] < 0:
                self.fail(f"has {found} {axis}, fewer than {size!r}")
        elif found != self.number(size):
            named = f" ({size!r})" if isinstance(size, str) else ""
            self.fail(f"has {found} {axis}, not {self.number(size)}{named}")


Order = Literal["ascending", "strict"]


class Field:
    """Something that a file holds under a name."""

    def __init__(self, *, optional: bool = False):
        """optional: Whether it may be None or missing: then it is read as None."""
        self.optional = optional

    def read(self, value: Any, scope: Scope) -> Any:
        """The value, if it is what was declared; else a ValueError is raised."""
        if value is None:
            return None if self.optional else scope.fail("is missing or None")
        return self._read(value, scope)

    def _read(self, value: Any, scope: Scope) -> Any:
        raise NotImplementedError


def _require_kind(value: Any, kind: type | tuple[type, ...], name: str, scope: Scope) -> None:
    # True is an int to Python, but not to us
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        scope.fail(f"is of type {type(value).__name__}, not {name}")


def _require_length(n: int, least: int, most: int | None, scope: Scope) -> None:
    if n < least:
        scope.fail(f"has {n} entries, at least {least} are needed")
    if most is not None and n > most:
        scope.fail(f"has {n} entries, more than {most}")


class Bool(Field):
    """True or false."""

    def _read(self, value: Any, scope: Scope) -> bool:
        _require_kind(value, bool, "bool", scope)
        return value


class Bytes(Field):
    """Bytes, e.g. of a model inside another, which has a format of its own."""

    def _read(self, value: Any, scope: Scope) -> bytes:
        _require_kind(value, bytes, "bytes", scope)
        return value


class Str(Field):
    """A string, perhaps one of some."""

    def __init__(self, *, choices: Collection[str] | None = None, optional: bool = False):
        super().__init__(optional=optional)
        self.choices = choices

    def _read(self, value: Any, scope: Scope) -> str:
        _require_kind(value, str, "str", scope)
        if self.choices is not None and value not in self.choices:
            scope.fail(f"is {value[:80]!r}, not one of {', '.join(self.choices)}")
        return value


class _Bounded(Field):
    """Numbers with bounds: low <= x <= high, above < x < below."""

    def __init__(
        self,
        *,
        low: Bound = None,
        high: Bound = None,
        above: Bound = None,
        below: Bound = None,
        optional: bool = False,
    ):
        super().__init__(optional=optional)
        self.low, self.high, self.above, self.below = low, high, above, below

    def _require_bounds(self, smallest: Any, largest: Any, scope: Scope) -> None:
        # written so that NaN is not within bounds either
        low, high, above, below = map(scope.number, (self.low, self.high, self.above, self.below))
        if low is not None and not smallest >= low:
            scope.fail(f"has {smallest}, which is below {low}")
        if above is not None and not smallest > above:
            scope.fail(f"has {smallest}, which is not above {above}")
        if high is not None and not largest <= high:
            scope.fail(f"has {largest}, which is above {high}")
        if below is not None and not largest < below:
            scope.fail(f"has {largest}, which is not below {below}")


class Int(_Bounded):
    """A whole number; fields after it can use its name as a size or a bound."""

    def _read(self, value: Any, scope: Scope) -> int:
        _require_kind(value, int, "int", scope)
        self._require_bounds(value, value, scope)
        return value


class Float(_Bounded):
    """A number, never NaN."""

    def __init__(self, *, finite: bool = True, **options: Any):
        """options: Bounds, and whether it is optional."""
        super().__init__(**options)
        self.finite = finite

    def _read(self, value: Any, scope: Scope) -> float:
        _require_kind(value, (int, float), "float", scope)
        try:
            value = float(value)
        except OverflowError:
            scope.fail("is too large")
        if isnan(value) or (self.finite and isinf(value)):
            scope.fail(f"is {value}")
        self._require_bounds(value, value, scope)
        return value


class List(Field):
    """A list of things of one kind."""

    def __init__(
        self,
        item: Field,
        size: Size | None = None,
        *,
        least: int = 0,
        most: int | None = None,
        unique: bool = False,
        optional: bool = False,
    ):
        super().__init__(optional=optional)
        self.item, self.size = item, size
        self.least, self.most, self.unique = least, most, unique

    def _read(self, value: Any, scope: Scope) -> list:
        _require_kind(value, (list, tuple), "list", scope)
        _require_length(len(value), self.least, self.most, scope)
        if self.size is not None:
            scope.require_size(len(value), self.size, "entries")
        if type(self.item) is Str and self.item.choices is None and not self.item.optional:
            # there may be hundreds of thousands of words
            if not all(type(item) is str for item in value):
                scope.fail("has an entry that is no string")
            read = list(value)
        else:
            read = [self.item.read(item, scope.inside(str(i))) for i, item in enumerate(value)]
        if self.unique and len(set(map(_hashable, read))) != len(read):
            scope.fail("has an entry twice")
        return read


def Strings(size: Size | None = None, **options: Any) -> List:
    """A list of strings; see `List`."""
    return List(Str(), size, **options)


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


class Array(_Bounded):
    """A numpy array."""

    def __init__(
        self,
        dtype: Any,
        *shape: Size,
        finite: bool = True,
        least: int = 0,
        most: int | None = None,
        order: Order | None = None,
        rows: str | None = None,
        starts: Size | None = None,
        sizes: Size | None = None,
        unique: bool = False,
        **options: Any,
    ):
        """dtype: Its type, exactly, or a tuple of types that are all right.
        order: "ascending", or "strict" if no two neighbours may be equal; inside of the rows of an
        earlier field with `starts` or `sizes`, if it is named by `rows`.
        starts: It tells where the rows of something of that size start: from 0, ascending, closed by the
        size; sizes: how long these rows are."""
        super().__init__(**options)
        self.dtypes = tuple(map(numpy.dtype, dtype if isinstance(dtype, tuple) else (dtype,)))
        self.shape, self.finite, self.least, self.most = shape, finite, least, most
        self.order, self.rows, self.unique = order, rows, unique
        self.starts, self.sizes = starts, sizes

    def _read(self, value: Any, scope: Scope) -> numpy.ndarray:
        _require_kind(value, numpy.ndarray, "array", scope)
        if value.dtype not in self.dtypes:
            scope.fail(f"is an array of {value.dtype}, not of {' or '.join(map(str, self.dtypes))}")
        if value.ndim != len(self.shape):
            scope.fail(f"has {value.ndim} axes, not {len(self.shape)}")
        _require_length(len(value), self.least, self.most, scope)
        for axis, (found, size) in enumerate(zip(value.shape, self.shape, strict=True)):
            # without an entry, any number can stand there: nothing may be as large as it says
            scope.require_size(found, size, f"entries along axis {axis}", decides=value.size > 0)
        value = numpy.require(value, requirements=["C", "A"])
        if self.finite and value.dtype.kind == "f" and not numpy.isfinite(value).all():
            scope.fail("has values that are not finite")
        if value.size and value.dtype.kind in "fiu":
            self._require_bounds(value.min().item(), value.max().item(), scope)
        if self.starts is not None or self.sizes is not None:
            scope.rows[scope.path.rpartition(".")[2]] = self._row_ends(value, scope)
        if self.order is not None:
            self._require_order(value, scope)
        if self.unique and len(numpy.unique(value)) != value.size:
            scope.fail("has a value twice")
        return value

    def _row_ends(self, value: numpy.ndarray, scope: Scope) -> numpy.ndarray:
        if self.sizes is not None:
            if value.min(initial=0) < 0:
                scope.fail("has a negative size")
            ends = numpy.cumsum(value, dtype="int64")
            scope.require_size(int(ends[-1]) if len(ends) else 0, self.sizes, "in its rows")
            return ends
        if not len(value) or value[0] != 0:
            scope.fail("does not start from 0")
        if not (value[1:] >= value[:-1]).all():
            scope.fail("is not ascending")
        scope.require_size(int(value[-1]), self.starts or 0, "as its end")
        return value[1:].astype("int64")

    def _require_order(self, value: numpy.ndarray, scope: Scope) -> None:
        right = value[1:] > value[:-1] if self.order == "strict" else value[1:] >= value[:-1]
        if self.rows is not None:
            ends = scope.rows[self.rows]
            right[ends[(ends > 0) & (ends < len(value))] - 1] = True
        if not right.all():
            scope.fail("is not in order")


class Record(Field):
    """Several fields under their names, which are seen only inside."""

    def __init__(self, *, optional: bool = False, **fields: Field):
        super().__init__(optional=optional)
        self.fields = fields

    def _read(self, value: Any, scope: Scope) -> dict[str, Any]:
        _require_kind(value, dict, "record", scope)
        own, read = scope.record(), {}
        for name, declared in self.fields.items():
            read[name] = declared.read(value.get(name), own.inside(name))
            if isinstance(declared, Int) and read[name] is not None:
                own.numbers[name] = read[name]
        return read


class Map(Field):
    """Things of one kind under names that are not known before."""

    def __init__(self, item: Field, *, optional: bool = False):
        super().__init__(optional=optional)
        self.item = item

    def _read(self, value: Any, scope: Scope) -> dict[str, Any]:
        _require_kind(value, dict, "record", scope)
        if not all(type(name) is str for name in value):
            scope.fail("has a name that is no string")
        return {name: self.item.read(item, scope.inside(name)) for name, item in value.items()}


class Format(Record):
    """What the files of one kind hold; see above."""

    def __init__(self, kind: str, version: int, **fields: Field):
        """fields: The fields, in the order in which they are to be read."""
        super().__init__()
        self.fields = fields
        self.kind, self.version = kind, version

    def pack(self, payload: dict[str, Any]) -> bytes:
        """The fields in the package's binary form; see `pack`. Optional ones may be left out."""
        given = {
            name: payload[name]
            for name, own in self.fields.items()
            if name in payload or not own.optional
        }
        return pack(self.kind, self.version, given)

    def unpack(self, data: bytes, **numbers: int) -> dict[str, Any]:
        """Read what `pack` wrote, or raise a ValueError that says what is wrong."""
        payload = unpack(self.kind, self.version, data)
        return self.read(payload, Scope(self.kind, numbers=dict(numbers)))

    def require(self, condition: Any, name: str, reason: str) -> None:
        """Raise the error of a field, for what its declaration can't say."""
        if not condition:
            Scope(self.kind, name).fail(reason)


Kind = TypeVar("Kind", bound="Stored")


class Stored:
    """Something that can be saved: its class has the format, what is written, and how that is read."""

    FORMAT: ClassVar[Format]

    def to_payload(self) -> dict[str, Any]:
        """The fields of the format."""
        raise NotImplementedError

    @classmethod
    def from_payload(cls: type[Kind], read: dict[str, Any]) -> Kind:
        """Make it of fields that are each as declared. What does not fit together is a ValueError."""
        return cls(**read)

    def to_bytes(self) -> bytes:
        """The serialised form; what is equal gives equal bytes."""
        return self.FORMAT.pack(self.to_payload())

    @classmethod
    def from_bytes(cls: type[Kind], data: bytes) -> Kind:
        """Read what `to_bytes` wrote, or raise a ValueError that says what is wrong."""
        return cls.from_payload(cls.FORMAT.unpack(data))

    def __reduce__(self) -> tuple[Any, ...]:
        # through the same bytes: compiled parts and caches do not travel to other processes
        return type(self).from_bytes, (self.to_bytes(),)


def write_atomically(path: str | Path, data: bytes | str) -> None:
    """Write a file so that a failure half-way, of the power, too, leaves what was there before."""
    path = Path(path)
    content = data.encode("utf8") if isinstance(data, str) else data
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary(path.parent)
        try:
            # opened by its name, it has the permissions of any other new file
            with open(temporary, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync(path.parent)


def append_line(path: str | Path, line: str) -> None:
    """Add a line to a file, to which others may add lines at the same time. It is on the disk then."""
    path, data = Path(path), f"{line}\n".encode()
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # without a buffer: a line is one call to the system, which does not mix it with others
        with open(path, "ab", buffering=0) as file:
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())


def write_directory(path: str | Path, write: Callable[[Path], Any]) -> None:
    """Write the files of a directory so that a failure half-way leaves those that were there before.

    Files of old and new never stand beside each other: all old ones of these names are taken away before the
    first new one comes. What else is in the directory stays.
    """
    path = Path(path)
    with _writing(path):
        path.mkdir(parents=True, exist_ok=True)
        # inside, so that it is on the same disk, and "." can be written to
        temporary = _temporary(path)
        new, old = temporary / "new", temporary / "old"
        try:
            new.mkdir(parents=True)
            old.mkdir()
            write(new)
            for file in new.rglob("*"):
                _sync(file)
            names = [file.name for file in new.iterdir()]
            try:
                _move(names, path, old)
                _move(names, new, path)
            except BaseException:
                _move([name for name in names if not (new / name).exists()], path, new)
                _move(names, old, path)
                raise
            _sync(path)
        finally:
            rmtree(temporary, ignore_errors=True)
    remove_leftovers(path)


def remove_leftovers(directory: Path) -> None:
    """Remove what writers left half-written in a directory when they were killed."""
    for path in directory.glob(f".*{_TEMPORARY}"):
        # younger ones are perhaps being written
        if time.time() - path.lstat().st_mtime > _LONGEST_WRITING:
            rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def destination(path: Path) -> Path:
    """Where a file will be that `write_directory` is writing; of others, where they are."""
    for directory in path.parents:
        if directory.name.endswith(_TEMPORARY):
            return directory.parent.joinpath(*path.relative_to(directory).parts[1:])
    return path


def _temporary(directory: Path) -> Path:
    return directory / f".{uuid4().hex}{_TEMPORARY}"


def _move(names: list[str], source: Path, target: Path) -> None:
    for name in names:
        if (source / name).exists():
            os.rename(source / name, target / name)


def _sync(path: Path) -> None:
    """Make sure that a file, or the names in a directory, are on the disk."""
    # Windows opens no directories, and syncs only what is open for writing
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Say what could not be written."""
    try:
        yield
    except OSError as error:
        raise SpectralError(Errors.S004.format(path=path, reason=reason_of(error))) from error


def output_path(name: str) -> Path:
    """Read the name of a file or directory to write to."""
    # Path("") is the current directory, which an unset variable of a shell does not mean
    if not name.strip():
        raise SpectralError(Errors.S004.format(path=name, reason="the name is empty"))
    return Path(name)


def require_writable(path: str | Path) -> None:
    """Find out before long work whether its result can be written, or raise a ValueError."""
    path = Path(path)
    existing = next(parent for parent in path.absolute().parents if parent.exists())
    try:
        if path.is_dir():
            raise OSError("it is a directory")
        # permissions do not tell: the disk may be full, the file system read-only, the user root
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise SpectralError(Errors.S004.format(path=path, reason=reason_of(error))) from error


def loading(load: Callable, name: str, source: Any, exclude: Iterable[str]) -> Any:
    """Load a component, with an error that says what is wrong with the data."""
    try:
        # spaCy takes anything that msgpack can read, and loads nothing from it
        if isinstance(source, bytes) and not isinstance(srsly.msgpack_loads(source), dict):
            raise ValueError("no serialised component")
        return load(source, exclude=tuple(exclude))
    except SpectralError:
        raise
    except Exception as error:
        raise SpectralError(Errors.S002.format(what=name, reason=error)) from error
