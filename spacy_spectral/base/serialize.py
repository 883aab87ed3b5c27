"""The one binary format of the package: msgpack behind a header with kind, version and checksum.

Learnt parameters go to kernels that do not check bounds, so damaged bytes must be noticed here and
not become a wrong parse. No pickle anywhere.
"""

import errno
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any
from uuid import uuid4

import srsly

from .errors import Errors

MAGIC = b"spacy-spectral"
# the ending of what is not written to its end, and the seconds after which nobody is writing it
_TEMPORARY = ".spectral-tmp"
_LONGEST_WRITING = 3600


def pack(kind: str, version: int, payload: Any) -> bytes:
    """Serialise a payload of plain values and numpy arrays.

    kind: What is stored, e.g. "shag". Checked on reading.
    RETURNS: The serialised form; the same payload always gives the same bytes.
    """
    body = srsly.msgpack_dumps(payload)
    header = srsly.msgpack_dumps([kind, version, zlib.crc32(body)])
    return MAGIC + len(header).to_bytes(2, "little") + header + body


def unpack(kind: str, version: int, data: bytes) -> Any:
    """Read what `pack` wrote, or raise a ValueError that says what is wrong."""
    try:
        found_kind, found_version, checksum, body = read_header(data)
    except Exception as error:
        raise ValueError(
            Errors.S002.format(what=kind, reason="no spacy-spectral header")
        ) from error
    if found_kind != kind:
        raise ValueError(Errors.S002.format(what=kind, reason=f"it holds {found_kind!r}"))
    if found_version != version:
        raise ValueError(Errors.S003.format(what=kind, found=found_version, expected=version))
    if zlib.crc32(body) != checksum:
        raise ValueError(Errors.S002.format(what=kind, reason="the checksum does not match"))
    try:
        return srsly.msgpack_loads(body)
    except Exception as error:
        raise ValueError(Errors.S002.format(what=kind, reason="unreadable body")) from error


def read_header(data: bytes) -> tuple[str, int, int, bytes]:
    """Kind, version, checksum and the rest of what `pack` wrote."""
    if not isinstance(data, bytes) or not data.startswith(MAGIC):
        raise ValueError
    start = len(MAGIC) + 2
    end = start + int.from_bytes(data[len(MAGIC) : start], "little")
    kind, version, checksum = srsly.msgpack_loads(data[start:end])
    return kind, version, checksum, data[end:]


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
    """Add a line to a file, to which others may add lines at the same time. It is on the disk then.

    line: The line, without its end.
    """
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
        raise ValueError(Errors.S004.format(path=path, reason=error.strerror or error)) from error


def output_path(name: str) -> Path:
    """Read the name of a file or directory to write to."""
    # Path("") is the current directory, which an unset variable of a shell does not mean
    if not name.strip():
        raise ValueError(Errors.S004.format(path=name, reason="the name is empty"))
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
        raise ValueError(Errors.S004.format(path=path, reason=error.strerror or error)) from error


def loading(load: Callable, name: str, source: Any, exclude: Iterable[str]) -> Any:
    """Load a component, with an error that says what is wrong with the data."""
    try:
        # spaCy takes anything that msgpack can read, and loads nothing from it
        if isinstance(source, bytes) and not isinstance(srsly.msgpack_loads(source), dict):
            raise ValueError("no serialised component")
        return load(source, exclude=tuple(exclude))
    except ValueError as error:
        if str(error).startswith("[S"):
            raise
        raise ValueError(Errors.S002.format(what=name, reason=error)) from error
    except Exception as error:
        raise ValueError(Errors.S002.format(what=name, reason=error)) from error
