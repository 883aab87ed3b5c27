"""What the package promises as a whole: names that resolve, cheap imports, safe files."""

import errno
import os
import subprocess
import sys
from importlib.metadata import entry_points, version

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spacy_spectral
from spacy_spectral.base import files


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
    data = files.pack("thing", 1, payload)
    assert data == files.pack("thing", 1, payload)
    read = files.unpack("thing", 1, data)
    numpy.testing.assert_array_equal(read["a"], payload["a"])
    assert read["names"] == payload["names"]


@given(st.binary(max_size=200))
def test_unpack_of_random_bytes_is_a_clear_error(data):
    with pytest.raises(ValueError, match="S002"):
        files.unpack("thing", 1, data)


@given(st.data())
def test_unpack_notices_every_flipped_byte(data):
    good = files.pack("thing", 1, {"a": numpy.ones(5), "b": ["x"] * 3})
    position = data.draw(st.integers(0, len(good) - 1))
    flip = data.draw(st.integers(1, 255))
    bad = good[:position] + bytes([good[position] ^ flip]) + good[position + 1 :]
    with pytest.raises(ValueError, match=r"S00[23]"):
        files.unpack("thing", 1, bad)


def test_write_atomically_keeps_the_old_file_on_failure(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    files.write_atomically(path, "old")
    with pytest.raises(TypeError):
        files.write_atomically(path, None)
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]


def test_a_full_disk_is_an_error_with_a_name(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    files.write_atomically(path, "old")
    monkeypatch.setattr(os, "fsync", _no_space)
    with pytest.raises(ValueError, match=r"\[S004\].*file\.txt.*No space left"):
        files.write_atomically(path, "new")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("file.txt", "old")]


def _no_space(*arguments):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_files_are_on_the_disk_before_they_have_their_names(tmp_path, monkeypatch):
    done = []
    for name in ("fsync", "replace", "rename"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, n=name, f=real: done.append(n) or f(*a))
    files.write_atomically(tmp_path / "file.txt", "new")
    assert done == ["fsync", "replace", "fsync"]
    done.clear()
    files.write_directory(tmp_path / "d", lambda d: (d / "file.txt").write_text("new"))
    assert done == ["fsync", "rename", "fsync"]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_new_files_have_usual_permissions(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "umask", None)  # it is the whole process's, other threads' too
    (tmp_path / "usual").write_text("")
    files.write_atomically(tmp_path / "file.txt", "new")
    assert (tmp_path / "file.txt").stat().st_mode == (tmp_path / "usual").stat().st_mode


def _files(directory):
    return {p.relative_to(directory).as_posix(): p.read_text() for p in directory.rglob("*.txt")}


def test_directories_are_written_as_a_whole(tmp_path, monkeypatch):
    def write(directory, text):
        (directory / "sub").mkdir()
        (directory / "a.txt").write_text(text)
        (directory / "sub" / "b.txt").write_text(text)

    old = {"a.txt": "old", "sub/b.txt": "old", "mine.txt": "mine"}
    (tmp_path / "mine.txt").write_text("mine")
    files.write_directory(tmp_path, lambda d: write(d, "old"))
    assert _files(tmp_path) == old
    real = os.rename
    # whichever step fails, all is as before
    for step in range(5):
        steps = iter([*[real] * step, _no_space])

        def rename(source, target, steps=steps):
            next(steps, real)(source, target)

        monkeypatch.setattr(os, "rename", rename)
        if step == 4:
            files.write_directory(tmp_path, lambda d: write(d, "new"))
        else:
            with pytest.raises(ValueError, match="S004"):
                files.write_directory(tmp_path, lambda d: write(d, "new"))
            assert _files(tmp_path) == old
    assert _files(tmp_path) == old | {"a.txt": "new", "sub/b.txt": "new"}
    assert not list(tmp_path.glob(".*"))


def test_what_killed_writers_left_is_removed_in_time(tmp_path):
    young, old = (tmp_path / f".{n}.spectral-tmp" for n in "12")
    old.mkdir()
    young.write_text("half")
    os.utime(old, (0, 0))
    (tmp_path / ".mine").write_text("mine")
    os.utime(tmp_path / ".mine", (0, 0))
    files.remove_leftovers(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".1.spectral-tmp", ".mine"]
