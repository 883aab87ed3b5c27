"""Memory for tables that are read at random: in large pages, where the system has them, or every look-up
would wait for the page's address first. Memory that is used again keeps the small pages it had, so it is
asked for anew."""

import mmap
from math import prod
from typing import Any

import numpy
from numpy.typing import NDArray

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
