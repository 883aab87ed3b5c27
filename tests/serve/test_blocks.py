"""Sentences of CoNLL-U as they are written: what is not changed stays as it is."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spacy_spectral.base.errors import SpectralError
from spacy_spectral.serve import blocks
from spacy_spectral.treebank.conllu import Sentence, scan_conllu

MULTIWORD = """# newdoc id = a
# sent_id = s1
# text = Il va au marché.
1	Il	il	PRON	PRS	Case=Nom	2	nsubj	2:nsubj|0:x	Extra=1
2	va	aller	VERB	_	_	0	root	0:root	_
2.1	y	y	ADV	_	_	_	_	2:advmod	CopyOf=-1
3-4	au	_	_	_	_	_	_	_	_
3	à	à	ADP	_	_	5	case	5:case	_
4	le	le	DET	_	_	5	det	5:det	_
5	marché	marché	NOUN	_	_	2	obl	2:obl|2.1:obl	SpaceAfter=No
6	.	.	PUNCT	_	_	2	punct	2:punct	_

"""
word = st.text(
    st.characters(exclude_characters="\t\n\r#", exclude_categories=("Cs", "Cc", "Z")),
    min_size=1,
    max_size=6,
)


@st.composite
def files(draw):
    """Files with whatever may stand in them, and two kinds of line ends."""
    sentences = []
    for _ in range(draw(st.integers(1, 4))):
        words = draw(st.lists(word, min_size=1, max_size=6))
        n = len(words)
        lines = [f"# {draw(word)} = {draw(word)}" for _ in range(draw(st.integers(0, 2)))]
        if draw(st.booleans()):
            lines.append("# sent_id = " + draw(word))
        if draw(st.booleans()):
            lines.append("# text = " + " ".join(words))
        group = draw(st.integers(1, n - 1)) if n > 1 and draw(st.booleans()) else 0
        for i, form in enumerate(words, start=1):
            if i == group:
                lines.append("\t".join([f"{i}-{i + 1}", draw(word), *"_______", draw(word)]))
            head = i - 1 if draw(st.booleans()) or i == 1 else 1
            deps = draw(st.sampled_from(["_", f"{head}:x|{n}.1:y"]))
            label = "root" if head == 0 else draw(st.sampled_from(["obj", "nmod:of"]))
            tags = [draw(word), draw(st.sampled_from(["NOUN", "_"])), draw(word), "_"]
            lines.append(
                "\t".join([str(i), form, *tags, str(head), label, deps, "Misc=" + draw(word)])
            )
        if draw(st.booleans()):
            lines.append("\t".join([f"{n}.1", draw(word), *"______", "0:x", "_"]))
        sentences.append("\n".join(lines) + "\n" * draw(st.integers(2, 3)))
    text = "".join(sentences)
    text = text.rstrip("\n") + "\n" if draw(st.booleans()) else text
    text = draw(st.sampled_from(["", "\ufeff"])) + text
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def scanned(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("scan") / "a.conllu"
    path.write_bytes(text.encode("utf8"))
    return list(scan_conllu(path, trees=False))


def rows(text):
    """Lines with what each row is for others: form and lemma."""
    return [
        line.split("\t")
        for line in text.strip("\ufeff").replace("\r", "").split("\n")
        if "\t" in line
    ]


@given(files())
def test_blocks_joined_are_the_file(tmp_path_factory, text):
    found = blocks.split_blocks(text)
    assert "".join(found) == text
    items = scanned(text, tmp_path_factory)
    assert all(isinstance(item, Sentence) for item in items)
    assert [blocks.read_block(block)[0].words for block in found] == [item.words for item in items]


@given(files(), st.data())
def test_only_what_is_changed_changes(text, data):
    block = blocks.split_blocks(text)[0]
    n = len(blocks.values(block))
    own = data.draw(st.integers(1, n))
    name = data.draw(st.sampled_from(sorted(blocks.COLUMNS)))
    changed = blocks.with_values(block, {own: {name: "New"}})
    before, after = block.split("\n"), changed.split("\n")
    assert len(before) == len(after)
    different = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert len(different) <= 1
    for a, b in different:
        assert a.removeprefix("\ufeff").startswith(f"{own}\t")
        cells = [(x, y) for x, y in zip(a.split("\t"), b.split("\t"), strict=True) if x != y]
        assert [y for _, y in cells] == ["New"]
    assert blocks.with_values(block, dict(enumerate(blocks.values(block), start=1))) == block


@given(files(), st.data())
def test_sentences_are_cut_and_joined(tmp_path_factory, text, data):
    block = blocks.split_blocks(text)[0]
    n = len(blocks.values(block))
    assume(n > 1)
    at = data.draw(st.integers(2, n))
    try:
        first, second = blocks.split_sentence(block, at)
    except SpectralError as error:
        assert error.code == "S660"
        return
    items = scanned(first + second, tmp_path_factory)
    assert all(isinstance(item, Sentence) for item in items), items
    assert len(items) == 2
    assert [len(item) for item in items] == [at - 1, n - at + 1]
    joined = blocks.join_sentences(first, second)
    (item,) = scanned(joined, tmp_path_factory)
    old, new = rows(block), rows(joined)
    # all but heads is as it was
    assert [[row[0], *row[1:6], row[9]] for row in old] == [[r[0], *r[1:6], r[9]] for r in new]
    assert isinstance(item, Sentence)


@given(files(), st.data())
def test_words_are_cut_and_joined(tmp_path_factory, text, data):
    block = blocks.split_blocks(text)[0]
    sentence, _ = blocks.read_block(block)
    own = data.draw(st.integers(1, len(sentence)))
    form = sentence.words[own - 1]
    assume(len(form) > 1)
    cut = blocks.split_token(block, own, data.draw(st.integers(1, len(form) - 1)))
    (item,) = scanned(cut, tmp_path_factory)
    assert isinstance(item, Sentence), item
    assert item.text == sentence.text
    assert len(item) == len(sentence) + 1
    whole = blocks.join_tokens(cut, own)
    (again,) = scanned(whole, tmp_path_factory)
    assert again.words == sentence.words
    assert (again.heads, again.deps, again.after) == (sentence.heads, sentence.deps, sentence.after)
    kept = [row for row in rows(whole) if row[0] != str(own)]
    assert kept == [row for row in rows(block) if row[0] != str(own)]


def test_words_inside_of_multiword_tokens(tmp_path_factory):
    with pytest.raises(SpectralError, match="S660"):
        blocks.split_sentence(MULTIWORD, 4)
    first, second = blocks.split_sentence(MULTIWORD, 3)
    assert "# text = Il va\n" in first and "# newdoc id = a\n# sent_id = s1\n" in first
    assert second.startswith("# sent_id = s1-part2\n# text = au marché.\n1-2\tau\t")
    assert (
        "3\tmarché\tmarché\tNOUN\t_\t_\t_\t_\t_\tSpaceAfter=No\n" in second
    )  # its heads are outside
    joined = blocks.join_tokens(MULTIWORD, 3)
    assert "3\tau\t_\t_\t_\t_\t4\tcase\t4:case\t_\n4\tmarché" in joined and "3-4" not in joined
    with pytest.raises(SpectralError, match="S662"):
        blocks.join_tokens(MULTIWORD, 2)
    with pytest.raises(SpectralError, match="S662"):
        blocks.join_tokens(MULTIWORD, 4)
    (item,) = scanned(blocks.split_token(MULTIWORD, 2, 1), tmp_path_factory)
    assert item.multiword == [(3, 4, "au")]


def test_notes(tmp_path_factory):
    noted = blocks.with_note(MULTIWORD, "what\nis  this?")
    assert blocks.note_of(noted) == "what is this?" and blocks.note_of(MULTIWORD) == ""
    assert blocks.with_note(noted, "") == MULTIWORD
    assert len(scanned(noted, tmp_path_factory)) == 1


def test_problems_are_of_words():
    _, problems = blocks.read_block(MULTIWORD.replace("NOUN", "NAME"))
    assert [word for word, _ in problems] == [5]
    assert problems[0][1].startswith("[S016]")
