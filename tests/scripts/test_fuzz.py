"""Files of every component, damaged in every field: a coded error when they are loaded, or a sound model."""

import ctypes
import random
import sys
from importlib.metadata import entry_points

import numpy
import pytest

import damages
import fuzz
import kinds

limited = pytest.mark.skipif(
    sys.platform != "linux", reason="limits of memory and time are those of Linux"
)


@pytest.mark.parametrize("group", ["factories", "architectures", "tokenizers"])
def test_all_that_is_registered_is_tried(group):
    points = entry_points(group=f"spacy_{group}")
    own = {point.name for point in points if point.value.startswith("spacy_spectral.")}
    assert own and own <= set(kinds.registered_names())


# These have crashed the process, or taken gigabytes: all that can be done to them is done.
KNOWN = {"SHAG": ["frequency"], "LogLinear": ["pairs", "size"], "reranker": ["symbols"]}


@limited
@pytest.mark.parametrize("name", sorted(kinds.KINDS))
def test_components(name, tmp_path):
    data = fuzz.sample_data(tmp_path / "data")
    data.sentences = 40
    cases = fuzz.cases(name, data)
    for case in cases:
        # what is opened and closed again is what it was
        case.use(case.load(damages.closed(case.state)))
    results = fuzz.run(cases, seed=0, count=40)
    if name in KNOWN:
        known = fuzz.run(cases[:1], seed=0, fields=KNOWN[name])
        assert len(known) > 20
        results += known
    assert [result for result in results if result.outcome not in (*fuzz.GOOD, "no mutation")] == []
    outcomes = [result.outcome for result in results]
    assert outcomes.count("refused") > 12 and "loaded" in outcomes


def hang(value):
    while True:
        pass


def refuse(value):
    raise ValueError("[S005] Can't read this.")


@limited
@pytest.mark.parametrize(
    "act, outcome",
    [
        (lambda value: ctypes.string_at(0), "crash (SIGSEGV)"),
        (hang, "hang"),
        (lambda value: bytearray(2 << 30), "too much memory"),
        (lambda value: {}["x"], "error when loading"),
        (refuse, "refused"),
        (lambda value: value, "loaded"),
    ],
    ids=["crash", "hang", "memory", "error", "refused", "loaded"],
)
def test_outcomes(act, outcome, monkeypatch):
    monkeypatch.setattr(fuzz, "CPU_SECONDS", 0.2)
    case = fuzz.Case(damages.Message({"a": 1}), act, lambda loaded: None)
    found = fuzz.run([case], seed=0, count=3)
    assert [result.outcome for result in found] == [outcome] * 3


@limited
def test_errors_later_are_seen():
    def use(loaded):
        raise ArithmeticError

    case = fuzz.Case(damages.Message({"a": 1}), lambda value: value, use)
    (found,) = fuzz.run([case], seed=0, count=1)
    assert found.outcome == "error when use"


def test_every_field_is_damaged_in_every_way():
    array = numpy.arange(6, dtype="int32").reshape(2, 3)
    inner = damages.pack("kind", 1, {"array": array, "names": ["a", "b"]})
    state = damages.opened(damages.srsly.msgpack_dumps({"model": inner, "cfg": {"n": 3}}))
    assert damages.closed(state) == damages.srsly.msgpack_dumps({"model": inner, "cfg": {"n": 3}})
    found = damages.mutations(state)
    places = {mutation.path for mutation in found}
    assert places == {
        None, ("model",), ("model", "array"), ("model", "names"), ("cfg",), ("cfg", "n")
    }  # fmt: skip
    of_array = {m.damage for m in found if m.path == ("model", "array")}
    assert of_array >= {
        "missing", "None", "as float64", "transposed", "halved", "empty", "permuted", "one 6", "one -1",
        "one 2147483647", "nan",
    }  # fmt: skip
    for mutation in found:
        whole = damages.mutate(state, mutation, random.Random(0))
        assert isinstance(whole, bytes)
    changed = damages.mutate(state, damages.Mutation(("model", "array"), "one 6"), random.Random(0))
    payload = damages.opened(changed).payload["model"].payload
    assert 6 in payload["array"] and payload["names"] == ["a", "b"]
    assert numpy.array_equal(array.ravel(), range(6))
