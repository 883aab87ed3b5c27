"""CoNLL-U as the documents it was written from: paragraphs, white space, multiword tokens."""

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import DocBin
from spacy.training.converters import conllu_to_docs
from spacy.vocab import Vocab

from spacy_spectral.readers import Corpus
from spacy_spectral.treebank.conllu import Sentence, as_tokens, read_conllu
from spacy_spectral.treebank.documents import MULTIWORD, read_docs
from spacy_spectral.treebank.validate import tree_problems

# a document of two paragraphs, one of a single sentence, with a token to cut and one to merge
TEXT = """\
# newdoc id = one
# newpar id = one-1
# sent_id = 1
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\tVerbForm=Inf\t0\troot\t_\tSpaceAfter=No
4\t!\t!\tPUNCT\t.\t_\t3\tpunct\t_\t_

# sent_id = 2
1\tLe\tle\tDET\tD\tDefinite=Def\t2\tdet\t_\t_
2\tbord\tbord\tNOUN\tN\tGender=Masc\t0\troot\t_\t_
3-4\tdu\t_\t_\t_\t_\t_\t_\t_\t_
3\tde\tde\tADP\tP\t_\t5\tcase\t_\t_
4\tle\tle\tDET\tD\tDefinite=Def\t5\tdet\t_\t_
5\tlac\tlac\tNOUN\tN\tGender=Masc\t2\tnmod\t_\t_

# newpar
# sent_id = 3
1\tOui\toui\tINTJ\tI\t_\t0\troot\t_\tSpacesAfter=\\s\\n

# sent_id = 4
1\tNon\tnon\tINTJ\tI\t_\t0\troot\t_\t_

# newdoc
# sent_id = 5
1\tFin\tfin\tNOUN\tN\t_\t0\troot\t_\tSpacesBefore=\\t|SpacesAfter=\\n

"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "treebank.conllu"
    path.write_text(TEXT, encoding="utf8")
    return path


def read(path, **options):
    return list(read_docs(path, Vocab(), n_sents=0, syntactic_words=False, **options))


def test_text_is_as_it_was_written(path):
    one, two = read(path)
    assert one.text == "Don't go! Le bord du lac\n\nOui \nNon"
    assert two.text == "\tFin\n"
    assert [sent.text_with_ws for sent in one.sents] == [
        "Don't go! ", "Le bord du lac\n\n", "Oui \n", "Non",
    ]  # fmt: skip
    assert [sent.text for sent in two.sents] == ["\tFin\n"]


def test_white_space_has_no_annotation(path):
    for doc in read(path):
        for token in doc:
            if token.text.isspace():
                assert (token.tag_, token.pos_, token.lemma_, token.dep_) == ("", "", "", "")
                assert not token.has_morph()
            else:
                assert token.tag_ and token.pos_ and token.lemma_ and token.dep_


def test_multiword_tokens_are_cut_or_stay_whole(path):
    one, _ = read(path)
    assert [t.text for t in one][:9] == ["Do", "n't", "go", "!", "Le", "bord", "du", "lac", "\n\n"]
    assert [span.text for span in one.spans[MULTIWORD]] == ["Don't"]
    du, lac = one[6], one[7]
    assert (du.tag_, du.pos_, du.lemma_, str(du.morph)) == ("P_D", "ADP", "de le", "Definite=Def")
    assert (du.head, du.dep_) == (lac, "case")
    assert one[7].head.text == "bord"


def test_syntactic_words_as_they_are(path):
    docs = list(read_docs(path, Vocab(), n_sents=0))
    assert docs[0].text == "Don't go! Le bord dele lac\n\nOui \nNon"
    assert [t.text for t in docs[0]][6:8] == ["de", "le"]


def test_one_sentence_a_document_is_as_before(path):
    docs = list(read_docs(path, Vocab()))
    assert [len(doc) for doc in docs] == [4, 5, 2, 1, 3]


def test_case_of_the_text_wins():
    sentence = Sentence(
        words=["de", "l'"], after=["", " "], lemmas=["", ""], upos=["", ""], xpos=["", ""],
        feats=["", ""], heads=[1, 1], deps=["case", "root"], multiword=[(0, 1, "DEL'")],
    )  # fmt: skip
    assert as_tokens(sentence).words == ["DE", "L'"]


def test_same_merged_values_as_spacy_convert(path):
    (theirs,) = conllu_to_docs(TEXT, n_sents=9, merge_subtokens=True, no_print=True)
    ours = [token for doc in read(path) for token in doc]
    (du,) = [token for token in ours if token.text == "du"]
    (their_du,) = [token for token in theirs if token.text == "du"]
    for attribute in ("tag_", "lemma_", "pos_", "dep_"):
        assert getattr(du, attribute) == getattr(their_du, attribute)
    assert str(du.morph) == str(their_du.morph)
    assert du.head.text == their_du.head.text


@st.composite
def sentences(draw):
    """Any tree, any words merged."""
    n = draw(st.integers(1, 9))
    order = draw(st.permutations(range(n)))
    heads = [0] * n
    heads[order[0]] = order[0]
    for i in range(1, n):
        heads[order[i]] = order[draw(st.integers(0, i - 1))]
    spans, end = [], 0
    while end < n - 1:
        first = draw(st.integers(end, n - 2))
        last = draw(st.integers(first + 1, n - 1))
        if draw(st.booleans()):
            spans.append((first, last, "~"))
        end = last + 1
    values = [str(i) for i in range(n)]
    return Sentence(
        words=values, after=[" "] * n, lemmas=values, upos=["X"] * n, xpos=values,
        feats=[f"F={i}" for i in range(n)], heads=heads, deps=values, multiword=spans,
    )  # fmt: skip


@given(sentences())
def test_merged_words_are_trees_of_all_words(sentence):
    merged = as_tokens(sentence)
    assert tree_problems(merged.heads) == []
    assert len(merged) == len(sentence) - sum(last - first for first, last, _ in sentence.multiword)
    assert " ".join(merged.lemmas) == " ".join(sentence.lemmas)
    assert "_".join(merged.xpos).split("_") == sentence.xpos
    assert not merged.multiword
    # the arcs of words that stay are those of the sentence, up to what was merged
    groups = [lemma.split() for lemma in merged.lemmas]
    of_word = {word: token for token, group in enumerate(groups) for word in group}
    for token, group in enumerate(groups):
        if len(group) == 1:
            head = of_word[str(sentence.heads[int(group[0])])]
            assert merged.heads[token] == head


def test_corpus_reads_documents_for_every_kind_of_file(path, tmp_path):
    nlp = spacy.blank("fr")
    examples = list(Corpus(path)(nlp))
    assert [eg.x.text for eg in examples] == [eg.y.text for eg in examples]
    assert [len(list(eg.x.sents)) for eg in examples] == [4, 1]
    DocBin(docs=[eg.y for eg in examples]).to_disk(tmp_path / "treebank.spacy")
    again = list(Corpus(tmp_path / "treebank.spacy")(spacy.blank("fr")))
    for one, two in zip(examples, again, strict=True):
        assert one.y.text == two.y.text
        assert [t.tag_ for t in one.y] == [t.tag_ for t in two.y]
        assert [span.text for span in one.y.spans.get(MULTIWORD, [])] == [
            span.text for span in two.y.spans.get(MULTIWORD, [])
        ]
    assert len(list(Corpus(path, n_sents=1)(nlp))) == 5


def test_corpus_with_the_pipelines_own_tokens(path):
    nlp = spacy.blank("en")
    for eg in Corpus(path, annotations=[], gold_tokens=False)(nlp):
        assert [t.text for t in eg.x] == [t.text for t in nlp.tokenizer(eg.y.text)]
        assert not eg.x.has_annotation("SENT_START")
    with pytest.raises(ValueError, match="S601"):
        Corpus(path, gold_tokens=False)


def test_documents_without_trees(tmp_path):
    path = tmp_path / "tagged.conllu"
    path.write_text("1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_\n\n", encoding="utf8")
    with pytest.raises(ValueError, match="S024"):
        list(Corpus(path)(spacy.blank("en")))
    (example,) = Corpus(path, trees=False)(spacy.blank("en"))
    assert not example.y.has_annotation("DEP")
    DocBin(attrs=["TAG"], docs=[example.y]).to_disk(tmp_path / "tagged.spacy")
    with pytest.raises(ValueError, match="S030"):
        list(Corpus(tmp_path / "tagged.spacy")(spacy.blank("en")))
    (again,) = Corpus(tmp_path / "tagged.spacy", trees=False)(spacy.blank("en"))
    assert [t.tag_ for t in again.y] == ["VB"]


def test_what_is_no_white_space_is_none(tmp_path):
    path = tmp_path / "odd.conllu"
    row = "1\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t{}\n\n"
    path.write_text("".join(map(row.format, ["SpacesAfter=x", "SpacesAfter=\\q", "SpacesAfter="])))
    assert [sentence.after for sentence in read_conllu(path)] == [[" "]] * 3
