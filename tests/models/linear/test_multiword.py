"""Which tokens are several words, and what these are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_spectral.models.linear.multiword import Analysed, MultiwordModel, MultiwordRecipe

DU, DES, LEQUEL = ("de", "le"), ("de", "les"), ("à", "lesquels")


def text(line):
    """A text in which tokens of several words are written with them: du=de+le."""
    pairs = [piece.partition("=")[::2] for piece in line.split()]
    words = [tuple(own.split("+")) if own else None for _, own in pairs]
    return Analysed([token for token, _ in pairs], words)


TEXTS = [
    *[text("le chat du=de+le roi")] * 4,
    *[text("Du=De+le roi au=à+le chat")] * 2,
    *[text("les chats des=de+les rois")] * 6,
    *[text("il voit des chats")] * 6,
    *[text("auxquels=à+lesquels auxquelles=à+lesquelles aux=à+les rois")],
]


@pytest.fixture(scope="module")
def model():
    return MultiwordRecipe(epochs=10).fit(TEXTS)


def found(model, line):
    return model.find(line.split())


def test_known_forms_are_looked_up(model):
    assert found(model, "le chat du roi") == {2: DU}
    assert found(model, "au au") == {0: ("à", "le"), 1: ("à", "le")}
    assert found(model, "le chat voit") == {} == found(model, "")


def test_capitals_as_in_the_treebank(model):
    assert found(model, "Du DU Au") == {0: ("De", "le"), 1: ("DE", "LE"), 2: ("À", "le")}
    small = MultiwordRecipe().fit([text("Du=de+le roi du=de+le roi")])
    assert found(small, "Du DU") == {0: DU, 1: DU}


def test_forms_that_are_both_are_told_apart_by_what_is_around(model):
    assert found(model, "les chats des rois") == {2: DES}
    assert found(model, "il voit des chats") == {}


def test_new_forms_by_scripts_that_forms_share(model):
    """All that begin with aux-: the script edits the beginning."""
    assert found(model, "auxquelques") == {0: ("à", "lesquelques")}
    assert found(model, "duxquels chat zut") == {}


def test_slips_are_no_candidates():
    slips = [*[text("du=de+le roi")] * 60, text("du roi")]
    model = MultiwordRecipe().fit(slips)
    assert found(model, "du du") == {0: DU, 1: DU}


def test_one_that_adds_to_everything_is_not_for_new_forms():
    plain = [text(f"mot{i} autre{i}") for i in range(200)]
    model = MultiwordRecipe().fit([*plain, text("luk=_+luk zuk=_+zuk")])
    assert found(model, "luk muk") == {0: ("_", "luk")}


def test_without_multiword_tokens_there_is_no_model():
    assert MultiwordRecipe().fit([text("le chat")]) is None
    assert MultiwordRecipe().fit([]) is None


def test_files_and_retraining(model):
    data = model.to_bytes()
    again = MultiwordModel.from_bytes(data)
    assert again.to_bytes() == data == MultiwordRecipe(epochs=10).fit(TEXTS).to_bytes()
    line = "Du chat des rois, il voit des chats auxquelques"
    assert found(again, line) == found(model, line)
    with pytest.raises(ValueError, match="S002"):
        MultiwordModel.from_bytes(data[:-3])


@pytest.mark.parametrize(
    "field, value",
    [
        ("scripts", ["x", "y"]),
        ("scripts", ["[]"] * 2),
        ("forms", ["du", "du"]),
        ("form_groups", None),
        ("capitals", 1),
        ("classifier", {}),
    ],
)
def test_damaged_fields_are_refused(model, field, value):
    payload = model.to_payload()
    damaged = MultiwordModel.FORMAT.pack(payload | {field: value})
    with pytest.raises(ValueError, match="S005"):
        MultiwordModel.from_bytes(damaged)


def test_groups_that_are_not_there_are_refused(model):
    payload = model.to_payload()
    payload["form_groups"] = payload["form_groups"] + 1000
    with pytest.raises(ValueError, match="form_groups"):
        MultiwordModel.from_bytes(MultiwordModel.FORMAT.pack(payload))


@given(st.lists(st.text(max_size=6), max_size=6))
def test_words_are_never_empty(model, tokens):
    tokens = [*tokens, "du", *(f"aux{token}" for token in tokens)]
    for place, words in model.find(tokens).items():
        assert 0 <= place < len(tokens) and len(words) > 1 and all(map(str.strip, words))
