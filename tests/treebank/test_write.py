"""CoNLL-U that is written is read again."""

import io

import pytest
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_spectral.treebank.check import check_treebanks
from spacy_spectral.treebank.conllu import as_tokens, read_conllu
from spacy_spectral.treebank.documents import MULTIWORD, read_docs, set_sentence_starts
from spacy_spectral.treebank.write import write_doc


def values(docs):
    return [
        [(t.text, t.whitespace_, t.tag_, t.pos_, str(t.morph), t.lemma_, t.dep_, t.head.i, t.is_sent_start)
         for t in doc]
        for doc in docs
    ]  # fmt: skip


def read(path):
    return list(read_docs(path, Vocab(), n_sents=0, syntactic_words=False))


def test_a_treebank_comes_back(sample, tmp_path):
    docs = read(sample["dev"])
    path = tmp_path / "again.conllu"
    path.write_text("".join(write_doc(doc, name=f"d{i}") for i, doc in enumerate(docs)), "utf8")
    assert values(read(path)) == values(docs)
    assert not check_treebanks([path])[0].problems


def test_white_space_and_multiword_tokens_come_back(tmp_path):
    words = ["\t", "Do", "n't", "go", "!", " \n", "No", "\n\n", "Yes", "\n\n\n", "x y", "\n"]
    spaces = [False, False, True, False, True, False, False, False, True, False, False, False]
    starts = [1, -1, -1, -1, -1, -1, 1, -1, 1, -1, 1, -1]
    doc = Doc(Vocab(), words=words, spaces=spaces, sent_starts=starts)
    doc.spans[MULTIWORD] = [doc[1:3]]
    path = tmp_path / "doc.conllu"
    path.write_text(write_doc(doc, name="d"), "utf8")
    (again,) = read_docs(path, Vocab(), n_sents=0, syntactic_words=False, trees=False)
    assert again.text == doc.text
    assert [span.text for span in again.spans[MULTIWORD]] == ["Don't"]
    text = path.read_text("utf8")
    assert "# newdoc id = d\n# sent_id = d-1\n# text = Don't go!\n" in text
    assert "# newpar\n# sent_id = d-3\n" in text


def test_an_empty_line_inside_of_a_sentence_comes_back(tmp_path):
    doc = Doc(Vocab(), words=["a", "\n\n", "b"], spaces=[False] * 3, sent_starts=[1, -1, -1])
    (tmp_path / "doc.conllu").write_text(write_doc(doc), "utf8")
    (again,) = read_docs(tmp_path / "doc.conllu", Vocab(), n_sents=0, trees=False)
    assert again.text == doc.text


def test_features_are_in_the_order_of_universal_dependencies():
    doc = Doc(Vocab(), words=["a"], morphs=["NumType=Ord|Number=Sing|NumForm=Word"])
    assert "\tNumber=Sing|NumForm=Word|NumType=Ord\t" in write_doc(doc)


def test_one_root_and_no_white_space_as_head():
    words, deps = ["a", "b", "\n", "c", "d"], ["det", "ROOT", "dep", "ROOT", "obj"]
    doc = Doc(Vocab(), words=words, heads=[1, 1, 1, 3, 2], deps=deps)
    set_sentence_starts(doc, [1, -1, -1, -1, -1])
    rows = [line.split("\t") for line in write_doc(doc).splitlines() if "\t" in line]
    assert [(row[1], row[6], row[7]) for row in rows] == [
        ("a", "2", "det"), ("b", "0", "root"), ("c", "2", "parataxis"), ("d", "2", "obj"),
    ]  # fmt: skip
    assert write_doc(Doc(Vocab())) == "" == write_doc(Doc(Vocab(), words=["\n"]))


def test_the_evaluation_of_the_shared_task_accepts_it(sample):
    udeval = pytest.importorskip("udtools.udeval")
    docs = read(sample["dev"])
    text = "".join(write_doc(doc, name=f"d{i}") for i, doc in enumerate(docs))
    one, two = (udeval.load_conllu(io.StringIO(text), "x", {}) for _ in range(2))
    assert udeval.evaluate(one, two)["LAS"].f1 == 1


def test_lines_that_were_read_come_back(sample, tmp_path):
    text = (
        "# newdoc\n# sent_id = 1\n# text = ab c\n# global = x\n"
        "0.1\t_\t_\t_\t_\t_\t_\t_\t_\t_\n1-2\tab\t_\t_\t_\t_\t_\t_\t_\tA=1|SpacesAfter=\\s\\s\n"
        "1\tx\tx\tNOUN\tN\t_\t0\troot\t0:root\tB=2|C\n1.1\ty\t_\t_\t_\t_\t_\t_\t1:dep\t_\n"
        "2\ty\ty\tNOUN\tN\tA=B\t1\tdep\t_\t_\n3\tc\tc\tNOUN\tN\t_\t1\tdep\t1:dep\tSpaceAfter=No\n\n"
    )
    path = tmp_path / "given.conllu"
    path.write_text(text, "utf8")
    given = list(read_conllu(path))
    (doc,) = read_docs(path, Vocab(), n_sents=0)
    assert write_doc(doc, given=given, enhanced=True) == text
    plain = write_doc(doc, given=given)
    assert "\n0.1" not in plain and ":" not in plain and "B=2|C\n" in plain
    # a token that is both words has what both have
    (tokens,) = read_docs(path, Vocab(), n_sents=0, syntactic_words=False)
    merged = write_doc(tokens, given=[as_tokens(given[0])], enhanced=True)
    rows = [line.split("\t") for line in merged.splitlines() if "\t" in line]
    assert [row[0] + row[8] + row[9] for row in rows] == [
        "1_A=1|SpacesAfter=\\s\\s|B=2|C", "2_SpaceAfter=No"
    ]  # fmt: skip
