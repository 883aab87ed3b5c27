"""Reading treebanks: UD's rules, clear errors, and no surprise on mutated files."""

import os
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import spacy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin
from spacy.training.converters import conllu_to_docs
from spacy.training.corpus import Corpus as SpacyCorpus
from spacy.vocab import Vocab

from spacy_spectral.readers import Corpus
from spacy_spectral.treebank.check import check_treebanks, only_in_one_split
from spacy_spectral.treebank.conllu import (
    MISSING,
    TreebankError,
    is_projective,
    read_conllu,
    scan_conllu,
    tree_problems,
)
from spacy_spectral.treebank.documents import read_docs

SHARED = Path(os.environ.get("SPACY_SPECTRAL_SHARED", Path(__file__).parents[3] / "shared"))
EWT_DEV = SHARED / "treebanks" / "UD_English-EWT" / "en_ewt-ud-dev.conllu"

# the multiword token "vámonos al" of UD's format description, an empty node, a missing head
GOOD = """\
# sent_id = one
# text = vámonos al mar.
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tV\tMood=Imp|Number=Plur\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\tCase=Acc\t1\tobj\t_\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\tI\t_\t5\tcase\t_\t_
4\tel\tel\tDET\tD\t_\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\tN\t_\t1\tobl\t_\tSpaceAfter=No
5.1\tvamos\tir\tVERB\tV\t_\t_\t_\t1:conj\t_
6\t.\t.\tPUNCT\tF\t_\t1\tpunct\t_\t_

# sent_id = two
1\t_\t_\tSYM\tS\t_\t_\t_\t_\t_
2\tsea\t_\tNOUN\tN\t_\t0\troot\t_\t_

"""


def write(tmp_path, text, name="file.conllu"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf8"))
    return path


def row(id_, head, dep="dep", *, form="w", upos="X", feats="_"):
    return f"{id_}\t{form}\t{form}\t{upos}\tX\t{feats}\t{head}\t{dep}\t_\t_\n"


def test_words_multiword_tokens_and_empty_nodes(tmp_path):
    one, two = read_conllu(write(tmp_path, GOOD))
    assert one.words == ["vamos", "nos", "a", "el", "mar", "."]
    assert one.spaces == [False, True, False, True, False, True]
    assert one.text == "vámonos al mar."
    assert one.heads == [0, 0, 4, 4, 0, 0]
    assert one.multiword == [(0, 1, "vámonos"), (2, 3, "al")]
    assert (one.sent_id, two.sent_id) == ("one", "two")
    assert (one.line, two.line) == (3, 14)
    assert two.heads == [MISSING, 1]
    assert two.lemmas == ["_", ""]


@pytest.mark.parametrize("text", [GOOD.replace("\n", "\r\n"), "\ufeff" + GOOD, GOOD.rstrip("\n")])
def test_harmless_variants_of_the_format(tmp_path, text):
    expected = list(read_conllu(write(tmp_path, GOOD)))
    assert list(read_conllu(write(tmp_path, text, "variant.conllu"))) == expected


BAD = {
    "columns": ("1\tw\tw\n\n", 1, "S013"),
    "spaces instead of tabs": (row(1, 0).replace("\t", " ") + "\n", 1, "S013"),
    "id": (row(1, 0) + row(3, 1) + "\n", 2, "S014"),
    "id twice": (row(1, 0) + row(1, 1) + "\n", 2, "S014"),
    "id letters": (row("a", 0) + "\n", 1, "S014"),
    "range backwards": (row("2-1", "_", "_") + row(1, 0) + "\n", 1, "S014"),
    "range late": (row(1, 0) + row("1-2", "_", "_") + row(2, 1) + "\n", 2, "S014"),
    "empty node number": (row(1, 0) + row("1.2", "_", "_") + "\n", 2, "S014"),
    "no form": (row(1, 0, form=" ") + "\n", 1, "S015"),
    "upos": (row(1, 0, upos="NN") + "\n", 1, "S016"),
    "feats": (row(1, 0, feats="Case") + "\n", 1, "S017"),
    "head letters": (row(1, "x") + "\n", 1, "S018"),
    "head negative": (row(1, 0) + row(2, -1) + "\n", 2, "S018"),
    "head superscript": (row(1, "²") + "\n", 1, "S018"),
    "own head": (row(1, 0) + row(2, 2) + "\n", 2, "S019"),
    "range too long": (row("1-2", "_", "_") + row(1, 0) + "\n", 2, "S020"),
    "head too large": (row(1, 0) + row(2, 3) + "\n", 2, "S021"),
    "two roots": ("# c\n" + row(1, 0) + row(2, 0) + "\n", 3, "S022"),
    "head without label": (row(1, 0) + row(2, 1, "_") + "\n", 2, "S023"),
    "label without head": (row(1, 0) + row(2, "_") + "\n", 2, "S023"),
    "nothing annotated": (row(1, "_", "_") + "\n", 1, "S024"),
    "only an empty node": (row("0.1", "_", "_") + "\n", 1, "S025"),
    "cycle": (row(1, 0) + row(2, 3) + row(3, 2) + "\n", 2, "S026"),
    "no root": (row(1, 2) + row(2, 1) + "\n", 1, "S026"),
    "label of a lifted arc": (row(1, 0) + row(2, 1, "||x") + "\n", 2, "S411"),
    "label with a mark": (row(1, 0) + row(2, 1, "a||b") + "\n", 2, "S411"),
    "not utf-8": (row(1, 0).encode() + b"# caf\xe9\n", 2, "S011"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_name_file_line_and_remedy(tmp_path, name):
    text, line, code = BAD[name]
    path = write(tmp_path, text)
    with pytest.raises(TreebankError, match=rf"file\.conllu:{line}: \[{code}\] .*\(.*\)$"):
        list(read_conllu(path))
    assert isinstance(next(i for i in scan_conllu(path)), TreebankError)


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_empty_files(tmp_path, text):
    with pytest.raises(TreebankError, match="S012"):
        list(read_conllu(write(tmp_path, text)))


def test_missing_files_and_unknown_formats(tmp_path):
    vocab = Vocab()
    for name, code in [("no.conllu", "S010"), ("no.spacy", "S010"), ("no.txt", "S028")]:
        with pytest.raises(TreebankError, match=code):
            list(read_docs(tmp_path / name, vocab))
    with pytest.raises(TreebankError, match="S029"):
        list(read_docs(tmp_path, vocab))


def test_check_collects_every_problem_and_goes_on(tmp_path):
    bad = "".join(text for text, *_ in BAD.values() if isinstance(text, str))
    summaries = check_treebanks([write(tmp_path, bad + GOOD), tmp_path / "none.conllu"])
    codes = [code for text, _, code in BAD.values() if isinstance(text, str)]
    assert [str(p).split("[")[1][:4] for p in summaries[0].problems] == codes
    assert (summaries[0].sentences, summaries[0].tokens) == (2, 8)
    assert summaries[0].missing_heads == 1
    assert len(summaries[1].problems) == 1


def test_check_reports_tags_of_one_split_only(tmp_path):
    write(tmp_path, GOOD, "train.conllu")
    write(tmp_path, GOOD.replace("\tN\t", "\tn\t"), "dev.conllu")
    summaries = check_treebanks([tmp_path])
    assert {p.stem: c for p, c in only_in_one_split(summaries, "tags").items()} == {
        "train": {"N": 2},
        "dev": {"n": 2},
    }
    assert not only_in_one_split(summaries, "labels")


@pytest.mark.parametrize("n_sents", [1, 2, 0])
def test_docs_keep_sentences_with_missing_heads(tmp_path, n_sents):
    """Also through DocBin, where spaCy itself loses the boundary before a headless word."""
    vocab = Vocab()
    docs = list(read_docs(write(tmp_path, GOOD), vocab, n_sents=n_sents))
    assert len(docs) == (2 if n_sents == 1 else 1)
    path = tmp_path / "file.spacy"
    DocBin(docs=docs).to_disk(path)
    for read in (docs, list(read_docs(path, vocab))):
        sents = [sent for doc in read for sent in doc.sents]
        assert [len(sent) for sent in sents] == [6, 2]
        assert [token.dep_ for token in sents[1]] == ["", "ROOT"]
        assert [token.head.i - sents[0].start for token in sents[0]] == [0, 0, 4, 4, 0, 0]
        assert [token.tag_ for token in sents[0]][:2] == ["V", "PRON"]
        assert str(sents[0][0].morph) == "Mood=Imp|Number=Plur"


def make_doc(heads, deps=None):
    words = [f"w{i}" for i in range(len(heads))]
    return Doc(Vocab(), words=words, heads=heads, deps=deps or ["dep"] * len(heads))


@pytest.mark.parametrize(
    "heads, deps, where, code",
    [
        ([1, 2, 1], None, "doc 2, sentence 1", "S026"),
        ([0, 0, 3, 4, 3], None, "doc 2, sentence 1", "S026"),
        ([0, 1, 0], None, "doc 2, sentence 2", "S032"),  # interleaved trees
        ([0, 0], ["", ""], "doc 2", "S031"),
        ([0, 0], ["root", "a||b"], "doc 2, sentence 1", "S411"),
    ],
)
def test_docbin_errors_name_file_and_document(tmp_path, heads, deps, where, code):
    docs = [make_doc([0, 0]), make_doc(heads, deps)]
    path = tmp_path / "file.spacy"
    DocBin(docs=docs).to_disk(path)
    with pytest.raises(TreebankError, match=rf"file\.spacy:{where}: \[{code}\]"):
        list(read_docs(path, Vocab()))


def test_docbin_without_heads(tmp_path):
    path = tmp_path / "file.spacy"
    DocBin(attrs=["TAG"], docs=[make_doc([0, 0])]).to_disk(path)
    with pytest.raises(TreebankError, match="S030"):
        list(read_docs(path, Vocab()))
    DocBin().to_disk(path)
    with pytest.raises(TreebankError, match="S012"):
        list(read_docs(path, Vocab()))


@given(st.lists(st.integers(-1, 7), min_size=1, max_size=7))
def test_tree_problems_agree_with_following_the_heads(heads):
    n_words = len(heads)

    def reaches_an_end(i):
        for _ in range(n_words):
            if heads[i] in (i, MISSING):
                return True
            i = heads[i]
        return False

    in_range = all(head < n_words for head in heads)
    roots = [i for i, head in enumerate(heads) if head == i]
    valid = (
        in_range
        and any(head != MISSING for head in heads)
        and len(roots) <= 1
        and (roots or MISSING in heads)
        and all(map(reaches_an_end, range(n_words)))
    )
    assert (not tree_problems(heads)) == bool(valid)


@given(st.lists(st.integers(-1, 6), min_size=1, max_size=7))
def test_projectivity_agrees_with_comparing_all_arcs(heads):
    heads = [min(head, len(heads) - 1) for head in heads]
    arcs = [
        tuple(sorted((i, head))) if head != i else (-1, i)
        for i, head in enumerate(heads)
        if head != MISSING
    ]
    crossing = any(a < c < b < d for a, b in arcs for c, d in arcs)
    assert is_projective(heads) == (not crossing)


SPECIAL = ["\t", "\n", "_", "0", "-", ".", "1", "#", "\r", "\u2028", "\x00", "|", "=", "é", " "]


@st.composite
def mutated_lines(draw):
    lines = GOOD.split("\n")
    for _ in range(draw(st.integers(1, 4))):
        i = draw(st.integers(0, len(lines) - 1))
        action = draw(st.sampled_from(["delete", "insert", "swap", "column", "character"]))
        if action == "delete" and len(lines) > 1:
            del lines[i]
        elif action == "insert":
            lines.insert(
                i, draw(st.sampled_from([*lines, "", "\t" * 9, draw(st.text(max_size=9))]))
            )
        elif action == "swap":
            j = draw(st.integers(0, len(lines) - 1))
            lines[i], lines[j] = lines[j], lines[i]
        elif action == "column":
            columns = lines[i].split("\t")
            j = draw(st.integers(0, len(columns) - 1))
            values = st.sampled_from([*(str(n) for n in range(-1, 8)), "_", "", "1-3", "2.1", "x"])
            columns[j] = draw(values | st.text(max_size=3))
            lines[i] = "\t".join(columns)
        else:
            j = draw(st.integers(0, len(lines[i])))
            lines[i] = lines[i][:j] + draw(st.sampled_from(SPECIAL)) + lines[i][j + 1 :]
    return "\n".join(lines).encode("utf8", "surrogatepass")


@st.composite
def mutated_bytes(draw, data):
    data = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        i = draw(st.integers(0, len(data) - 1))
        action = draw(st.sampled_from(["flip", "delete", "insert", "cut"]))
        if action == "flip":
            data[i] ^= draw(st.integers(1, 255))
        elif action == "delete" and len(data) > 1:
            del data[i]
        elif action == "insert":
            data.insert(i, draw(st.integers(0, 255)))
        elif i:
            del data[i:]
    return bytes(data)


def assert_clear(path):
    """Every reader gives a TreebankError or valid documents, and all agree which it is."""
    nlp = SimpleNamespace(vocab=Vocab())
    failed = []
    for read in (
        lambda: list(read_docs(path, nlp.vocab)),
        lambda: list(read_docs(path, nlp.vocab, n_sents=0)),
        lambda: list(Corpus(path)(nlp)),
    ):
        try:
            for item in read():
                doc = item if isinstance(item, Doc) else item.reference
                for sent in doc.sents:
                    heads = [t.head.i - sent.start if t.dep else MISSING for t in sent]
                    assert [p for p in tree_problems(heads) if "S024" not in p[1]] == []
                    assert all(t.text and t.tag_ is not None and t.lemma_ is not None for t in sent)
            failed.append(False)
        except TreebankError:
            failed.append(True)
    assert len(set(failed)) == 1
    assert bool(check_treebanks([path])[0].problems) == failed[0]


FUZZ = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))


@FUZZ
@given(mutated_lines() | mutated_bytes(GOOD.encode("utf8")))
def test_mutated_conllu_gives_clear_errors_only(tmp_path, data):
    assert_clear(write(tmp_path, data))


def good_docbin(**settings):
    docs = [make_doc([1, 1, 1, 4, 4]), make_doc([0, 0])]
    for doc in docs:
        for token in doc:
            token.tag_, token.pos_, token.lemma_ = "T", "NOUN", "w"
    return DocBin(docs=docs, **settings)


@FUZZ
@given(mutated_bytes(good_docbin().to_bytes()))
def test_mutated_spacy_files_give_clear_errors_only(tmp_path, data):
    assert_clear(write(tmp_path, data, "file.spacy"))


@FUZZ
@given(st.data())
def test_mutated_content_of_spacy_files_gives_clear_errors_only(tmp_path, data):
    """Behind the checksum of the compression: any value of any token changed."""
    docbin = good_docbin()
    tokens = docbin.tokens[0]
    i = data.draw(st.integers(0, tokens.shape[0] - 1))
    j = data.draw(st.integers(0, tokens.shape[1] - 1))
    tokens[i, j] = data.draw(st.integers(0, 6) | st.integers(2**64 - 6, 2**64 - 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_clear(write(tmp_path, docbin.to_bytes(), "file.spacy"))


@pytest.mark.skipif(not EWT_DEV.exists(), reason="UD_English-EWT is not at hand")
def test_same_documents_as_spacy_convert(tmp_path):
    nlp = spacy.blank("en")
    converted = list(conllu_to_docs(EWT_DEV.read_text("utf8"), n_sents=10, no_print=True))
    ours = list(read_docs(EWT_DEV, nlp.vocab, n_sents=10))
    assert len(ours) == len(converted)
    for mine, theirs in zip(ours, converted, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert (a.text, a.tag_, a.pos_, str(a.morph)) == (b.text, b.tag_, b.pos_, str(b.morph))
            assert (a.head.i, a.dep_, a.is_sent_start) == (b.head.i, b.dep_, b.is_sent_start)
            assert a.lemma_ == b.lemma_ or (a.lemma_, b.lemma_) == ("", "_")
    path = tmp_path / "dev.spacy"
    DocBin(docs=converted, store_user_data=True).to_disk(path)
    assert sum(1 for doc in read_docs(path, nlp.vocab) for _ in doc.sents) == 2001
    assert sum(1 for _ in SpacyCorpus(path)(nlp)) == len(converted)
