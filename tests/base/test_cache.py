"""Rows remembered by string: right in many threads, bounded."""

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest

from spacy_spectral.base.cache import Repeated, RowCache, distinct

SIZE = 50


def describe(strings):
    """Two arrays that tell which string it was."""
    values = numpy.array([int(string) for string in strings], dtype="int64")
    return values, numpy.stack([values, -values], axis=1)


def make():
    first = numpy.array([-1]), numpy.array([[-1, 1]])
    return RowCache(describe, first, size=SIZE)


def check(cache, numbers):
    rows, (values, pairs) = cache([str(number) for number in numbers])
    assert rows.dtype == "int32"
    assert values[rows].tolist() == list(numbers)
    assert pairs[rows].tolist() == [[number, -number] for number in numbers]
    assert values[0] == -1  # what stands before all strings
    return len(values)


def test_rows_are_the_strings_own():
    cache = make()
    for numbers in ([], [5, 3, 5], [3], range(40), range(35, 60), range(200), [7, 7]):
        check(cache, numbers)


def test_what_a_caller_got_stays_when_the_cache_is_replaced():
    cache = make()
    rows, (values, _) = cache(["1", "2"])
    for start in range(0, 500, 20):
        check(cache, range(start, start + 20))
    assert values[rows].tolist() == [1, 2]


def test_size_is_bounded():
    cache = make()
    sizes = [check(cache, range(start, start + 10)) for start in range(0, 5000, 10)]
    assert max(sizes) <= 2 * SIZE + 2


def test_strings_are_described_once():
    seen = []
    cache = RowCache(lambda new: seen.extend(new) or describe(new), describe([]), size=SIZE)
    for _ in range(3):
        check_values = cache(["4", "2", "4"])[1][0]
    assert seen == ["4", "2"] and len(check_values) >= 2


@pytest.fixture
def hasty():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_threads(hasty):
    cache = make()

    def work(seed):
        random = numpy.random.default_rng(seed)
        for _ in range(300):
            check(cache, random.integers(0, 90, size=12).tolist())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


@pytest.mark.parametrize("n", [0, 1, 7, 100, 101, 500])
def test_distinct_values(n):
    values = numpy.random.default_rng(n).integers(0, 1 << 63, n // 2 + 1, dtype="uint64")
    values = numpy.concatenate([values, values])[:n]
    found, codes = distinct(values)
    assert len(set(found)) == len(found) and len(codes) == n
    assert [found[code] for code in codes] == values.tolist()
    strings = Repeated([str(value) for value in found], codes)
    assert strings == [str(value) for value in values.tolist()]
    assert pickle.loads(pickle.dumps(strings)).names == strings.names
