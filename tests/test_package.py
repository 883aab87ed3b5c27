"""What the package promises as a whole: names that resolve, cheap imports, safe files."""

import subprocess
import sys
from importlib.metadata import entry_points, version

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spacy_spectral
from spacy_spectral.base import serialize


def own_entry_points():
    own = (
        entry_point
        for group in entry_points().groups
        if group.startswith("spacy_")
        for entry_point in entry_points(group=group)
        if entry_point.value.startswith("spacy_spectral.")
    )
    # in an order that is the same in every process of pytest-xdist
    return sorted(own, key=lambda entry_point: (entry_point.group, entry_point.name))


@pytest.mark.parametrize("entry_point", own_entry_points(), ids=lambda ep: f"{ep.group}:{ep.name}")
def test_every_advertised_name_resolves(entry_point):
    assert entry_point.load() is not None


def test_there_are_entry_points():
    assert own_entry_points()


def test_installed_version_is_that_of_the_package():
    assert version("spacy-spectral") == spacy_spectral.__version__


def test_blank_pipeline_loads_no_heavy_module():
    """`spacy.blank` imports every factory: these modules would slow down every spaCy user."""
    heavy = ("scipy.sparse.linalg", "scipy.cluster", "sklearn", "matplotlib", "dask")
    code = f"import sys, spacy; spacy.blank('en'); print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert result.stdout.strip() == "[]"


def test_blank_pipeline_loads_no_model():
    """Nor does it pay for components that are not used."""
    code = (
        "import sys, spacy; spacy.blank('en'); from spacy.util import registry; registry.factories.get_all();"
        "print([m for m in sys.modules if m.startswith('spacy_spectral.models.')])"
    )
    result = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert result.stdout.strip() == "[]"


def test_pack_round_trip_is_deterministic():
    payload = {"a": numpy.arange(6, dtype="float64").reshape(2, 3), "names": ["x", "ä"]}
    data = serialize.pack("thing", 1, payload)
    assert data == serialize.pack("thing", 1, payload)
    read = serialize.unpack("thing", 1, data)
    numpy.testing.assert_array_equal(read["a"], payload["a"])
    assert read["names"] == payload["names"]


@given(st.binary(max_size=200))
def test_unpack_of_random_bytes_is_a_clear_error(data):
    with pytest.raises(ValueError, match="S002"):
        serialize.unpack("thing", 1, data)


@given(st.data())
def test_unpack_notices_every_flipped_byte(data):
    good = serialize.pack("thing", 1, {"a": numpy.ones(5), "b": ["x"] * 3})
    position = data.draw(st.integers(0, len(good) - 1))
    flip = data.draw(st.integers(1, 255))
    bad = good[:position] + bytes([good[position] ^ flip]) + good[position + 1 :]
    with pytest.raises(ValueError, match=r"S00[23]"):
        serialize.unpack("thing", 1, bad)


def test_write_atomically_keeps_the_old_file_on_failure(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    serialize.write_atomically(path, "old")
    with pytest.raises(TypeError):
        serialize.write_atomically(path, None)
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]
