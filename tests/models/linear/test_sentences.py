"""Sentences: how texts lie on the page, what is learnt, damaged files."""

import re
from itertools import pairwise
from random import Random

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_spectral.base.files import pack, unpack
from spacy_spectral.models.linear.senter import (
    EMPTY_LINE,
    FULL_LINE,
    SHORT_LINE,
    SPACE,
    Layout,
    Passage,
    SenterModel,
    SenterRecipe,
    Types,
    _is_end,
    _look,
    count_line_ends,
)

STEMS = ["kal", "mor", "tive", "sun", "pel", "dra", "vok", "lim"]


def read_layout(text):
    """Words and layout of a text whose words are its chunks."""
    words, gaps, line_ends, end = [], [], [], 0
    for match in re.finditer(r"\S+", text):
        words.append(match[0])
        gaps.append(match.start() - end if words[1:] else 0)
        line_ends.append(count_line_ends(text[end : match.start()]) if words[1:] else 0)
        end = match.end()
    return words, Layout(
        *(numpy.array(c, dtype="int64") for c in (list(map(len, words)), gaps, line_ends))
    )


def classes(text):
    words, layout = read_layout(text)
    return layout.classes(numpy.array([0, len(words)], dtype="int32")).tolist()[1:]


def test_line_ends_of_full_lines_are_told_apart():
    assert classes("a b\n\nc") == [SPACE, EMPTY_LINE]
    wrapped = "aaa bbb ccc\nddd eee ff\nggg hhh iii\nj"
    assert classes(wrapped) == [
        SPACE,
        SPACE,
        FULL_LINE,
        SPACE,
        SPACE,
        FULL_LINE,
        SPACE,
        SPACE,
        FULL_LINE,
    ]
    headline = "aaa bbb ccc ddd\nx\nccc ddd eee fff"
    assert classes(headline)[3] == FULL_LINE and classes(headline)[4] == SHORT_LINE
    paragraphs = "\n".join(["word " * 40 + "x"] * 3)
    assert set(classes(paragraphs)) == {SPACE, SHORT_LINE}
    assert (
        count_line_ends("\r\n") == 1
        and count_line_ends("\u2028") == 1
        and count_line_ends(" ") == 0
    )


def test_texts_do_not_see_each_other():
    texts = ["a b\nc", "", "d\n\ne f", "g"]
    parts = [read_layout(text)[1] for text in texts]
    together = Layout(
        *(
            numpy.concatenate([getattr(p, n) for p in parts])
            for n in ("lengths", "gaps", "line_ends")
        )
    )
    bounds = numpy.cumsum([0, *map(len, parts)], dtype="int32")
    expected = [p.classes(numpy.array([0, len(p)], dtype="int32")) for p in parts]
    numpy.testing.assert_array_equal(together.classes(bounds), numpy.concatenate(expected))


@given(
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=60),
    st.integers(0, 99),
)
def test_other_layouts_keep_words_and_spaces(rows, seed):
    lengths, gaps = (numpy.array(column, dtype="int64") for column in zip(*rows, strict=True))
    layout = Layout(lengths, gaps, numpy.zeros(len(rows), dtype="int64"))
    paragraphs = numpy.array([Random(seed).random() < 0.2 for _ in rows])
    other = layout.laid_out(paragraphs, Random(seed))
    numpy.testing.assert_array_equal(other.lengths, lengths)
    assert (other.line_ends[1:][paragraphs[1:]] > 0).all()
    assert ((other.gaps > 0) >= (other.line_ends > 0))[1:].all()
    # no line end where there is no space, but for paragraphs
    assert (other.line_ends[1:][(gaps[1:] == 0) & ~paragraphs[1:]] == 0).all()


def make_passages(n, *, seed, paragraphs=True):
    """Sentences start with a capital after a full stop; "X." is an abbreviation; headlines have no stop."""
    rng = Random(seed)
    passages = []
    for _ in range(n):
        rows = []  # word, white space, line ends, start
        for i in range(rng.randint(2, 6)):
            new = 2 if paragraphs and rng.random() < 0.3 and i else 0
            rows.append((rng.choice(STEMS).title(), max(1, new), new, 1))
            for _ in range(rng.randint(2, 6)):
                rows.append((rng.choice([*STEMS, "Xq."]), 1, 0, 0))
            if not (paragraphs and rng.random() < 0.2):
                rows.append((".", 0, 0, 0))
        words, gaps, ends, starts = map(list, zip(*rows, strict=True))
        gaps[0] = ends[0] = 0
        columns = (numpy.array(c, dtype="int64") for c in (list(map(len, words)), gaps, ends))
        passages.append(Passage(words, Layout(*columns), numpy.array(starts, dtype="int32")))
    return passages


def predict(model, passages):
    words = [word for passage in passages for word in passage.words]
    numbers = {}
    rows = numpy.array([numbers.setdefault(w, len(numbers) + 1) for w in words], dtype="int32")
    parts = [passage.layout for passage in passages]
    layout = Layout(
        *(
            numpy.concatenate([getattr(p, n) for p in parts])
            for n in ("lengths", "gaps", "line_ends")
        )
    )
    bounds = numpy.cumsum([0, *map(len, parts)], dtype="int32")
    return model.probabilities(list(numbers), rows, layout, bounds)


MODEL = SenterRecipe().fit(make_passages(150, seed=1))


def test_what_is_seen_of_words():
    assert [_is_end(word) for word in (".", "?!", ".)", "...", "Mr.")] == [True] * 5
    assert not any(map(_is_end, ["dog", "a", ")", "U.S"]))
    assert len({_look(word) for word in ("USA", "Dog", "dog", "12", "-")}) == 5
    assert _look("A") == _look("Dog")


def test_texts_of_one_word_and_texts_without_a_second_sentence():
    words, layout = read_layout("kal")
    one = numpy.array([1], dtype="int32")
    assert MODEL.probabilities(words, one, layout, numpy.array([0, 1], "int32")).tolist() == [1.0]
    words, layout = read_layout("kal mor")
    SenterRecipe(epochs=1).fit([Passage(words, layout, numpy.array([1, 0], dtype="int32"))])


def test_starts_of_new_texts():
    passages = make_passages(40, seed=2)
    probs = predict(MODEL, passages)
    gold = numpy.concatenate([passage.starts for passage in passages])
    after_stop = numpy.array([
        i == 0 or passage.words[i - 1] == "." or passage.layout.line_ends[i] > 0
        for passage in passages for i in range(len(passage.words))
    ])  # fmt: skip
    assert ((probs > 0.5) == gold)[after_stop | (gold == 0)].mean() > 0.98
    assert ((probs >= 0) & (probs <= 1)).all()


def test_texts_together_or_alone():
    passages = make_passages(8, seed=3)
    numpy.testing.assert_array_equal(
        predict(MODEL, passages), numpy.concatenate([predict(MODEL, [p]) for p in passages])
    )


def test_empty_lines_count_where_the_treebank_has_none():
    model = SenterRecipe().fit(make_passages(150, seed=4, paragraphs=False))
    words, layout = read_layout("Kal mor sun\n\nPel dra vok .")
    passage = Passage(words, layout, numpy.zeros(len(words), dtype="int32"))
    together = predict(model, [passage])
    passage.layout.line_ends[:] = 0
    passage.layout.gaps[3] = 1
    assert together[3] > max(0.5, predict(model, [passage])[3])


def test_what_is_not_known_teaches_nothing():
    passages = make_passages(60, seed=5)
    for passage in passages[::2]:
        passage.starts[1:] = -1
    probs = predict(SenterRecipe().fit(passages), make_passages(10, seed=6))
    assert (probs > 0.5).sum() > 20
    for bad in ([], [Passage([], Layout(*[numpy.zeros(0, "int64")] * 3), numpy.zeros(0, "int32"))], [
        Passage(["a"], Layout(*[numpy.zeros(1, "int64")] * 3), numpy.ones(1, "int32"))
    ]):  # fmt: skip
        with pytest.raises(ValueError, match="S605"):
            SenterRecipe().fit(bad)


def test_distances_against_plain_python():
    words = ["a", ".", "b", "c", "...", "d", "Xq.", "e"]
    types, rows = Types.of(words)
    layout = Layout(*[numpy.ones(len(words), "int64")] * 2, numpy.zeros(len(words), "int64"))
    for bounds in ([0, 8], [0, 3, 8]):
        described = types.describe(rows, layout, numpy.array(bounds, dtype="int32"))
        for begin, end in pairwise(bounds):
            for i in range(begin, end):
                last = [j for j in range(begin, i) if words[j] in (".", "...", "Xq.")]
                mark = described[last[-1], 0] if last else 1
                assert described[i, -2] == mark


def test_bytes():
    passages = make_passages(40, seed=7)
    data = SenterRecipe().fit(passages).to_bytes()
    assert SenterRecipe().fit(passages).to_bytes() == data
    assert SenterModel.from_bytes(data).to_bytes() == data


SMALL = SenterRecipe(epochs=2).fit(make_passages(10, seed=8)).to_bytes()


@settings(max_examples=100)
@given(st.data())
def test_damaged_contents_never_crash(data):
    payload = unpack("senter", 1, SMALL)
    name = data.draw(st.sampled_from(sorted(payload["starts"])))
    value = payload["starts"][name].copy()
    if data.draw(st.booleans()) and value.size:
        index = data.draw(st.integers(0, value.size - 1))
        limits = numpy.iinfo(value.dtype) if value.dtype.kind != "f" else None
        value[index] = (
            data.draw(st.sampled_from([numpy.nan, numpy.inf, 1e30]))
            if limits is None
            else data.draw(st.integers(int(limits.min), int(limits.max)))
        )
    else:
        value = data.draw(st.sampled_from([value[:-1], None, "x", value.astype("float64")]))
    payload["starts"][name] = value
    try:
        model = SenterModel.from_bytes(pack("senter", 1, payload))
    except ValueError as error:
        assert re.match(r"\[S00[245]\]", str(error))
    else:
        assert numpy.isfinite(predict(model, make_passages(3, seed=9))).all()
