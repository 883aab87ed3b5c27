"""Labels by number, and files that hold no inventory."""

import pytest

from spacy_spectral.base.files import pack
from spacy_spectral.trees.pseudoprojective import Inventory, plain


def test_round_trip():
    names = ["nmod", "nmod||obl", "obl"]
    assert Inventory.from_bytes(Inventory(names).to_bytes()).names == names


@pytest.mark.parametrize("names", [["nmod||obl", "obl"], "nmod", ["nmod", 1], None, {"nmod": 0}])
def test_what_is_no_inventory_is_refused(names):
    """A decorated label can only be restored where its plain one is known."""
    with pytest.raises(ValueError, match=r"\[S00"):
        Inventory.from_bytes(pack("label inventory", 1, names))


def test_another_version_is_refused():
    with pytest.raises(ValueError, match=r"\[S003\]"):
        Inventory.from_bytes(pack("label inventory", 2, ["nmod"]))


def test_plain_labels():
    assert [plain(label) for label in ("nmod||obl", "nmod", "")] == ["nmod", "nmod", ""]
