"""What was annotated is on disk, whatever happens."""

import json
import os

import pytest

from spacy_spectral.base.errors import SpectralError
from spacy_spectral.serve.journal import ACCEPTED, Change, Item, Journal

BLOCKS = [f"1\t{word}\t_\tX\t_\t_\t0\troot\t_\t_\n\n" for word in "abc"]


def opened(path, blocks=None, **more):
    journal = Journal(path)
    journal.open("digest", blocks, **more)
    return journal


def accepted(item, word):
    block = item.block.replace(f"\t{item.block[2]}\t", f"\t{word}\t")
    return Item(item.id, block, ACCEPTED, {1: {"lemma": "x"}}, 2, (1, 1, 1, 3))


def test_what_was_done_is_there_again(tmp_path):
    path = tmp_path / "o.conllu"
    journal = opened(path, BLOCKS)
    assert path.read_text() == "".join(BLOCKS)
    new = accepted(journal.items[1], "B")
    back = journal.append(Change(1, 1, (new,)), sync=True)
    assert path.read_text() == "".join([BLOCKS[0], new.block, BLOCKS[2]])
    journal.append(Change(0, 2, (Item(7, BLOCKS[0], edits={1: {"head": "0"}}),)), sync=False)
    items = journal.items
    journal.close()
    again = opened(path)
    assert again.items == items
    again.append(Change(0, 1, (Item(0, BLOCKS[0]), new)), sync=True)
    again.append(back, sync=True)
    assert path.read_text() == "".join(BLOCKS)
    again.close()


def test_every_cut_leaves_a_state_that_was(tmp_path):
    """Killed while a line is written: what was done before it is there."""
    path = tmp_path / "o.conllu"
    journal = opened(path, BLOCKS)
    states = [journal.items]
    begun = journal.path.stat().st_size
    for i, word in enumerate("XYZ"):
        journal.append(Change(i, 1, (accepted(journal.items[i], word),)), sync=True)
        states.append(journal.items)
    journal.close()
    whole, text = journal.path.read_bytes(), path.read_bytes()
    for size in range(begun, len(whole) + 1, 7):
        journal.path.write_bytes(whole[:size])
        path.unlink()
        again = opened(path)
        lines = whole[:size].count(b"\n") - whole[:begun].count(b"\n")
        assert again.items == states[lines]
        assert path.read_bytes() == "".join(item.block for item in again.items).encode()
        again.append(Change(0, 1, ()), sync=True)
        again.close()
        assert opened_and_closed(path) == again.items
    journal.path.write_bytes(whole)
    path.write_bytes(text)
    assert opened_and_closed(path) == states[-1]


def opened_and_closed(path):
    journal = opened(path)
    journal.close()
    return journal.items


def test_a_file_that_is_behind_is_written_again(tmp_path):
    """Killed between journal and file."""
    path = tmp_path / "o.conllu"
    journal = opened(path, BLOCKS)
    before = path.read_bytes()
    journal.append(Change(0, 1, (accepted(journal.items[0], "A"),)), sync=True)
    after = path.read_bytes()
    # drafts that came later change nothing in the file
    journal.append(Change(1, 1, (Item(1, BLOCKS[1], edits={1: {"head": "0"}}),)), sync=False)
    journal.close()
    path.write_bytes(before)
    opened_and_closed(path)
    assert path.read_bytes() == after != before


def test_one_process_at_a_time(tmp_path):
    journal = opened(tmp_path / "o.conllu", BLOCKS)
    with pytest.raises(SpectralError, match="S663"):
        opened(tmp_path / "o.conllu")
    journal.close()
    opened_and_closed(tmp_path / "o.conllu")


def test_files_of_others_are_not_written_over(tmp_path):
    path = tmp_path / "o.conllu"
    path.write_text("mine")
    with pytest.raises(SpectralError, match="S665"):
        opened(path, BLOCKS)
    assert path.read_text() == "mine"
    path.unlink()
    opened(path, BLOCKS).close()
    with pytest.raises(SpectralError, match="S666"):
        Journal(path).open("another", None)
    path.write_text("changed")
    with pytest.raises(SpectralError, match="S664"):
        opened(path)
    assert path.read_text() == "changed"


@pytest.mark.parametrize(
    "line", ['{"at": 5, "remove": 1, "put": []}', "{", "[]", '{"at": 0, "remove": 1, "put": [{}]}']
)
def test_damage_is_told_with_its_line(tmp_path, line):
    path = tmp_path / "o.conllu"
    journal = opened(path, BLOCKS)
    journal.close()
    with open(journal.path, "a") as file:
        file.write(line + "\n" + json.dumps({"at": 0, "remove": 0, "put": []}) + "\n")
    with pytest.raises(SpectralError, match=r"journal:6: .*S667|S667.*journal:6"):
        opened(path)
    assert path.read_text() == "".join(BLOCKS)
    with pytest.raises(SpectralError, match="S667"):
        journal.path.write_text("")
        opened(path)


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "o.conllu"
    journal = opened(path, BLOCKS)
    items, size = journal.items, journal.path.stat().st_size

    def no_space(handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", no_space)
        with pytest.raises(SpectralError, match=r"S004.*No space"):
            journal.append(Change(0, 1, ()), sync=True)
    assert journal.items == items and journal.path.stat().st_size == size
    journal.append(Change(0, 1, ()), sync=True)
    journal.close()
    assert len(opened_and_closed(path)) == 2
