import numpy
import pytest

from spacy_spectral.base.files import (
    Array,
    Bool,
    Bytes,
    Float,
    Format,
    Int,
    List,
    Record,
    Scope,
    Str,
    Strings,
)

NAN, INF = float("nan"), float("inf")


def read(field, value, **numbers):
    return field.read(value, Scope("test", "it", numbers))


def ints(*values, dtype="int32"):
    return numpy.array(values, dtype=dtype)


@pytest.mark.parametrize(
    "field, good, bad",
    [
        (Bool(), [True, False], [None, 1, "yes", numpy.zeros(1)]),
        (Bytes(), [b"", b"a"], [None, "a", 1]),
        (Str(), ["", "a"], [None, b"a", 1, ["a"]]),
        (Str(choices=("a", "b")), ["a"], ["c", ""]),
        (Int(), [0, -5, 2**70], [None, True, 1.0, "1", numpy.int32(1)]),
        (Int(low=1, high=3), [1, 3], [0, 4]),
        (Int(above=1, below=3), [2], [1, 3]),
        (Int(optional=True), [None, 1], ["1"]),
        (Float(), [0, 1.5], [None, True, NAN, INF, -INF, "1", 1j, 10**400]),
        (Float(low=0.0, high=1.0), [0, 1, 0.5], [-1e-9, 1.1, NAN]),
        (Float(finite=False, above=0.0), [INF, 2.0], [NAN, -INF, 0.0]),
        (Strings(), [[], ["a", "a"]], [None, "ab", ["a", 1], [None], {"a": 1}]),
        (Strings(2), [["a", "b"]], [["a"], []]),
        (Strings(least=1, most=2, unique=True), [["a"], ["a", "b"]], [[], ["a"] * 2, list("abc")]),
        (List(Strings(2), unique=True), [[], [["a", "b"]]], [[["a"]], [["a", "b"]] * 2, ["ab"]]),
        (List(Int(low=0)), [[1, 2]], [[1, -1], [1.0]]),
    ],
)
def test_plain_fields(field, good, bad):
    for value in good:
        assert read(field, value) == value
    for value in bad:
        with pytest.raises(ValueError, match=r"\[S005\] Can't read test: 'it"):
            read(field, value)


@pytest.mark.parametrize(
    "field, good, bad",
    [
        (Array("int32", 3), ints(1, 2, 3), [ints(1, 2), ints(1, 2, 3, dtype=">i4"), [1, 2, 3]]),
        (Array("int32", 3), ints(1, 2, 3), [ints(1, 2, 3).reshape(3, 1), numpy.float64(1), None]),
        (Array("int32", 3), ints(1, 2, 3), [ints(1, 2, 3, dtype=t) for t in ("int64", "uint32")]),
        (Array("float32", 2, 1), numpy.ones((2, 1), "f4"), [numpy.ones((1, 2), "f4")]),
        (Array("float64", 2), numpy.ones(2), [numpy.array([1, x]) for x in (NAN, INF, -INF)]),
        (Array("float64", 2, finite=False, low=0), numpy.array([0, INF]), [numpy.array([0, NAN])]),
        (Array("float64", 1, above=0), numpy.ones(1), [numpy.zeros(1), -numpy.ones(1)]),
        (Array("int32", "n", low=0, below="top"), ints(0, 6), [ints(0, 7), ints(-1)]),
        (Array("int32", "n", high="top+1"), ints(8), [ints(9)]),
        (Array("int32", "n", least=1, most=2), ints(0, 6), [ints(), ints(1, 2, 3)]),
        (Array("int32", "n", order="ascending"), ints(1, 1, 4), [ints(1, 0)]),
        (Array("int32", "n", order="strict"), ints(1, 3, 4), [ints(1, 1)]),
        (Array("uint64", "n", order="strict"), ints(1, 3, dtype="u8"), [ints(3, 1, dtype="u8")]),
        (Array("int32", "n", unique=True), ints(4, 3), [ints(4, 3, 4)]),
        (Array("int32", "n+1", starts=7), ints(0, 3, 3, 7), [ints(0, 7, 6), ints(0, 6), ints()]),
        (Array("int32", "n+1", starts=7), ints(0, 7), [ints(1, 7), ints(0, 9, 7), ints(-1, 7)]),
        (Array("int32", "n+1", starts=0), ints(0), [ints()]),
        (Array("int32", "n", sizes=7), ints(3, 0, 4), [ints(3, 5), ints(8, -1), ints()]),
        (Array("uint16", "n", sizes=0), ints(dtype="uint16"), [ints(1, dtype="uint16")]),
        (Array(("int8", "int32"), 1), ints(3, dtype="int8"), [ints(3, dtype="int16")]),
        (Array("bool", 2), numpy.zeros(2, bool), [ints(0, 1, dtype="uint8")]),
        # without entries, an axis can be as long as one likes
        (Array("int8", "n", "m"), numpy.zeros((0, 0), "i1"), [numpy.zeros((1 << 40, 0), "i1")]),
        (Array("int8", "n", "top"), numpy.zeros((0, 7), "i1"), [numpy.zeros((0, 1 << 40), "i1")]),
        (Array("int8", "m", 2), numpy.zeros((0, 2), "i1"), [numpy.zeros((0, 3), "i1")]),
    ],
)
def test_arrays(field, good, bad):
    found = read(field, good, top=7)
    assert found.tobytes() == good.tobytes() and found.shape == good.shape
    for value in bad:
        with pytest.raises(ValueError, match=r"\[S005\] Can't read test: 'it'"):
            read(field, value, top=7)


def test_arrays_are_contiguous():
    found = read(Array("int32", 3, 2), numpy.arange(6, dtype="int32").reshape(2, 3).T)
    assert found.flags.c_contiguous and found.tolist() == [[0, 3], [1, 4], [2, 5]]


FORMAT = Format(
    "toy", 3,
    words=Strings("words"),
    counts=Array("uint32", "words", 2),
    starts=Array("int32", "words+1", starts="entries"),
    tags=Array("int32", "entries", order="strict", rows="starts"),
    bits=Int(low=0, high=4),
    table=Array("int32", "bits"),
    both=Array("int8", "words+bits+1"),
    sizes=Array("uint8", "rows", sizes="cells"),
    cells=Array("uint16", "cells", order="strict", rows="sizes"),
    part=Record(names=Strings("names"), ids=Array("int32", "names", below="words"), optional=True),
    other=Record(names=Strings("names")),
)  # fmt: skip


def payload(**changes):
    whole = {
        "words": ["a", "b", "c"],
        "counts": numpy.zeros((3, 2), "uint32"),
        "starts": ints(0, 2, 2, 4),
        "tags": ints(1, 5, 0, 5),
        "bits": 2,
        "table": ints(7, 7),
        "both": numpy.zeros(6, "int8"),
        "sizes": ints(1, 0, 2, dtype="uint8"),
        "cells": ints(9, 1, 3, dtype="uint16"),
        "part": {"names": ["x"], "ids": ints(2)},
        "other": {"names": ["x", "y"]},
    }
    return {**whole, **changes}


def test_format():
    found = FORMAT.unpack(FORMAT.pack(payload()))
    assert found["words"] == ["a", "b", "c"] and list(found) == list(payload())
    assert FORMAT.unpack(FORMAT.pack(payload(part=None)))["part"] is None
    assert FORMAT.unpack(FORMAT.pack(payload()), words=3)["bits"] == 2


@pytest.mark.parametrize(
    "field, change",
    [
        ("counts", {"words": ["a", "b"]}),
        ("starts", {"starts": ints(0, 2, 4)}),
        ("tags", {"starts": ints(0, 2, 2, 5)}),
        ("tags", {"tags": ints(5, 1, 0, 5)}),
        ("tags", {"starts": ints(0, 1, 2, 4), "tags": ints(5, 1, 3, 3)}),
        ("table", {"bits": 3}),
        ("bits", {"bits": 2**40}),
        ("both", {"both": numpy.zeros(5, "int8")}),
        ("cells", {"cells": ints(9, 3, 1, dtype="uint16")}),
        ("cells", {"sizes": ints(1, 0, 3, dtype="uint8")}),
        ("part", {"part": [1]}),
        ("part.ids", {"part": {"names": ["x"], "ids": ints(3)}}),
        ("part.ids", {"part": {"names": ["x", "y"], "ids": ints(1)}}),
        ("part.names", {"part": {}}),
        ("other", {"other": None}),
    ],
)
def test_fields_must_agree(field, change):
    with pytest.raises(ValueError, match=rf"\[S005\] Can't read toy: '{field}' "):
        FORMAT.unpack(FORMAT.pack(payload(**change)))


def test_given_sizes_and_further_requirements():
    with pytest.raises(ValueError, match=r"'words' has 3 entries, not 4 \('words'\)"):
        FORMAT.unpack(FORMAT.pack(payload()), words=4)
    FORMAT.require(True, "words", "is bad")
    with pytest.raises(ValueError, match=r"\[S005\] Can't read toy: 'words' is bad"):
        FORMAT.require(False, "words", "is bad")


def test_what_is_no_record():
    from spacy_spectral.base.files import pack

    with pytest.raises(ValueError, match=r"\[S005\]"):
        FORMAT.unpack(pack("toy", 3, [1, 2]))
    with pytest.raises(ValueError, match=r"\[S003\]"):
        FORMAT.unpack(pack("toy", 2, payload()))
