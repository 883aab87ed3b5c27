"""What is computed of strings, remembered for the next call, in any number of threads."""

import mmap
from collections.abc import Callable, Sequence
from math import prod
from threading import Lock
from typing import Any

import numpy
from numpy.typing import NDArray

Arrays = tuple[NDArray, ...]
_FEW = 100


class Memory:
    """Values that were found for keys. When there are too many, the dictionary is replaced, not emptied, so
    that looking up takes no lock."""

    def __init__(self, size: int):
        """size: How many values are remembered."""
        self.known: dict[Any, Any] = {}
        self._size = size
        self._lock = Lock()

    def add(self, found: dict[Any, Any]) -> None:
        """found: Values to remember."""
        with self._lock:
            if len(self.known) + len(found) > self._size:
                self.known = {}
            if len(found) <= self._size:
                self.known.update(found)


class Repeated(list[str]):
    """Strings of which few are different, so that work can be done once for each different one (`names`).
    `codes` has which of them stands at each place."""

    def __init__(self, names: Sequence[str], codes: NDArray[numpy.int64]):
        self.names = list(names)
        self.codes = codes
        super().__init__(numpy.array([*self.names, None], dtype=object)[codes].tolist())

    def __reduce__(self) -> tuple[Any, ...]:
        return Repeated, (self.names, self.codes)


def distinct(values: NDArray) -> tuple[list[int], NDArray[numpy.int64]]:
    """The different ones of whole numbers, in any order, and which of them stands at each place: of a
    handful of values `numpy.unique` takes longer than a dictionary."""
    if len(values) > _FEW:
        found, codes = numpy.unique(values, return_inverse=True)
        return found.tolist(), codes.ravel()
    places: dict[int, int] = {}
    listed = [places.setdefault(value, len(places)) for value in values.tolist()]
    return list(places), numpy.array(listed, dtype="int64")


class RowCache:
    """Rows of arrays, one for each string that was met: a few words make up most of any text.

    Callers keep what they get: rows that were filled once never change, and a full cache is replaced by a
    new one, not emptied. So looking up takes no lock, and only one thread at a time adds strings.
    """

    def __init__(self, describe: Callable[[list[str]], Arrays], first: Arrays, *, size: int):
        """describe: Gives the rows of new strings.
        first: Rows that stand before those of all strings, perhaps none.
        size: How many strings are remembered; more only for one call."""
        self._describe = describe
        self._first = first
        self._size = size
        self._lock = Lock()
        self._table = _Table(first)

    def __call__(self, strings: Sequence[str]) -> tuple[NDArray[numpy.int32], Arrays]:
        """Where the row of each string is, and the arrays it is in; these have more rows, some of which
        may be filled later."""
        if isinstance(strings, Repeated):
            of_names, arrays = self(strings.names)
            return of_names[strings.codes], arrays
        table = self._table
        get = table.places.get
        rows = [get(string, -1) for string in strings]
        if -1 in rows:
            table = self._with(strings)
            rows = [table.places[string] for string in strings]
        return numpy.array(rows, dtype="int32"), table.arrays

    def _with(self, strings: Sequence[str]) -> "_Table":
        with self._lock:
            table, distinct = self._table, list(dict.fromkeys(strings))
            new = [string for string in distinct if string not in table.places]
            if len(table.places) + len(new) > self._size and table.places:
                table, new = _Table(self._first), distinct
            if new:
                table.add(new, self._describe(new))
            self._table = table
        return table


class _Table:
    """Arrays with room for more rows. A string is found only after its row is filled."""

    def __init__(self, first: Arrays):
        self.arrays = first
        self.places: dict[str, int] = {}
        self._n = len(first[0])

    def add(self, strings: list[str], rows: Arrays) -> None:
        begin, end = self._n, self._n + len(strings)
        if end > len(self.arrays[0]):
            self.arrays = tuple(_longer(old, begin, max(end, 2 * begin)) for old in self.arrays)
        for array, own in zip(self.arrays, rows, strict=True):
            array[begin:end] = own
        self.places.update(zip(strings, range(begin, end), strict=True))
        self._n = end


def _longer(array: NDArray, n: int, room: int) -> NDArray:
    """The first n rows of an array, with room for others."""
    result = numpy.zeros((room, *array.shape[1:]), dtype=array.dtype)
    result[:n] = array[:n]
    return result


# Tables that are read at random lie in large pages, where the system has them: otherwise every look-up waits
# for the page's address. Memory that is used again keeps the small pages it had, so it is asked for anew.
_PAGE = 1 << 21


def zeros_in_large_pages(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Zeros that begin with a line of memory; with a large page if they fill one."""
    kind = numpy.dtype(dtype)
    size = prod(shape) * kind.itemsize
    room: Any = bytearray(size + 64)
    line = 64
    if size >= _PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        room = mmap.mmap(-1, size + _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        room.madvise(mmap.MADV_HUGEPAGE)
        line = _PAGE
    array = numpy.frombuffer(room, dtype="uint8")
    first = -array.ctypes.data % line
    return array[first : first + size].view(kind).reshape(shape)
