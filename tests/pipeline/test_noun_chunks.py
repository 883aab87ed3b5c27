"""Noun chunks of parses by Universal Dependencies."""

import pickle

import pytest
import spacy
from spacy.tokens import Doc

from spacy_spectral.pipeline.documents import UDNounChunks, use_ud_noun_chunks


@pytest.fixture
def vocab():
    vocab = spacy.blank("en").vocab
    use_ud_noun_chunks(vocab)
    return vocab


def make(vocab, text):
    """Words as form/part of speech/head (from 1)/label."""
    rows = [row.split("/") for row in text.split()]
    heads = [int(head) - 1 if head != "0" else i for i, (_, _, head, _) in enumerate(rows)]
    words, pos, _, deps = zip(*rows, strict=True)
    return Doc(vocab, words=words, pos=list(pos), heads=heads, deps=list(deps))


def chunks(doc):
    return [chunk.text for chunk in doc.noun_chunks]


CASES = {
    # adpositions are outside, possessors inside
    "In/ADP/4/case my/PRON/4/nmod:poss old/ADJ/4/amod house/NOUN/5/obl lives/VERB/0/root "
    "John/PROPN/8/nmod:poss 's/PART/6/case dog/NOUN/5/nsubj": ["my old house", "John 's dog"],
    # a predicate leaves out its subject and copula, and an adverb before it
    "He/PRON/5/nsubj is/AUX/5/cop probably/ADV/5/advmod a/DET/5/det doctor/NOUN/0/root": [
        "He",
        "a doctor",
    ],
    # degrees, commas and coordinated adjectives are inside
    "a/DET/5/det very/ADV/3/advmod big/ADJ/5/amod ,/PUNCT/5/punct wolf/NOUN/0/root": [
        "a very big , wolf"
    ],
    # names go on to the right, clauses and adpositional phrases do not
    "Mary/PROPN/0/root Ann/PROPN/1/flat Lee/PROPN/1/flat of/ADP/5/case Rome/PROPN/1/nmod": [
        "Mary Ann Lee",
        "Rome",
    ],
    # coordinated nouns are chunks of their own
    "dogs/NOUN/0/root and/CCONJ/4/cc the/DET/4/det cats/NOUN/1/conj": ["dogs", "the cats"],
    # adjectives after the noun, as long as nothing hangs on them
    "une/DET/2/det maison/NOUN/0/root très/ADV/4/advmod blanche/ADJ/2/amod": [
        "une maison très blanche"
    ],
    "people/NOUN/0/root happy/ADJ/1/amod with/ADP/4/case it/PRON/2/obl": ["people", "it"],
    # what has left the chunk does not come back, and nothing that stands in the way is swallowed
    "big/ADJ/4/amod he/PRON/4/nsubj a/DET/4/det dog/NOUN/0/root": ["he", "a dog"],
    "the/DET/3/det ran/VERB/0/root dog/NOUN/2/nsubj": ["dog"],
    # brackets, quotes and adpositions that a part of it brings along are outside
    "saw/VERB/0/root (/PUNCT/4/punct the/DET/4/det argv/NOUN/5/compound list/NOUN/1/obj": [
        "the argv list"
    ],
    "“/PUNCT/3/punct In/ADP/3/case five/NUM/4/nummod minutes/NOUN/0/root": ["five minutes"],
    "a/NOUN/4/compound )/PUNCT/1/punct Option/NOUN/4/compound one/NOUN/0/root": ["Option one"],
    "at/ADP/2/case least/ADJ/3/nmod two/NUM/4/nummod dogs/NOUN/0/root": ["at least two dogs"],
    '"/PUNCT/2/punct no/DET/4/det "/PUNCT/2/punct reason/NOUN/0/root': ['" no " reason'],
    # unless they are closed inside, and a genitive's apostrophe stays
    "(/PUNCT/2/punct old/ADJ/4/amod )/PUNCT/2/punct men/NOUN/0/root": ["( old ) men"],
    "the/DET/2/det boys/NOUN/4/nmod:poss '/PART/2/case books/NOUN/0/root": ["the boys ' books"],
    # it is there for nothing
    "It/PRON/2/expl rains/VERB/0/root": [],
}


@pytest.mark.parametrize("text", CASES)
def test_rule(vocab, text):
    assert chunks(make(vocab, text)) == CASES[text]


def test_other_labels_are_left_to_the_rule_of_the_language(vocab):
    text = "The/DET/2/det dog/NOUN/3/nsubj sees/VERB/0/ROOT cats/NOUN/3/dobj in/ADP/3/prep town/NOUN/5/pobj"
    plain = make(spacy.blank("en").vocab, text)
    assert chunks(make(vocab, text)) == chunks(plain) == ["The dog", "cats", "town"]
    same = text.replace("dobj", "obj").replace("5/pobj", "5/obl").replace("prep", "case")
    assert chunks(make(vocab, same)) == ["The dog", "cats", "town"]


def test_languages_without_a_rule_and_text_without_parts_of_speech():
    vocab = spacy.blank("xx").vocab
    use_ud_noun_chunks(vocab)
    assert chunks(make(vocab, "eski/ADJ/2/amod ev/NOUN/0/strange")) == ["eski ev"]
    doc = Doc(vocab, words=["eski", "ev"], heads=[1, 1], deps=["amod", "ROOT"])
    assert chunks(doc) == ["eski ev"]
    with pytest.raises(ValueError, match="E029"):
        chunks(Doc(vocab, words=["ev"]))


def test_spans_have_those_inside_of_them(vocab):
    doc = make(vocab, "the/DET/2/det dog/NOUN/3/nsubj saw/VERB/0/root a/DET/5/det cat/NOUN/3/obj")
    assert [chunk.text for chunk in doc[1:5].noun_chunks] == ["a cat"]
    assert list(UDNounChunks(None)(doc[3:5])) == [(3, 5, doc.vocab.strings["NP"])]


def test_once_and_pickled(vocab):
    rule = vocab.get_noun_chunks
    use_ud_noun_chunks(vocab)
    assert vocab.get_noun_chunks is rule
    again = pickle.loads(pickle.dumps(vocab)).get_noun_chunks
    assert isinstance(again, UDNounChunks)
    assert again.other is rule.other


def documents(examples, nlp):
    return [eg.predicted for eg in examples(nlp, "dev")[:8]]


def test_pipelines_saved_sourced_and_in_processes(trained, examples, tmp_path):
    expected = [chunks(doc) for doc in trained.pipe(documents(examples, trained))]
    assert sum(map(len, expected)) > 8
    trained.to_disk(tmp_path / "model")
    loaded = spacy.load(tmp_path / "model")
    found = loaded.pipe(documents(examples, loaded), n_process=2, batch_size=2)
    assert [chunks(doc) for doc in found] == expected
    other = spacy.blank("en")
    other.add_pipe("spectral_parser", source=trained)
    other.add_pipe("merge_noun_chunks")
    merged = list(other.pipe(documents(examples, other)))
    for doc, own in zip(merged, expected, strict=True):
        assert not set(own) - {token.text for token in doc}
    assert isinstance(other.vocab.get_noun_chunks, UDNounChunks)


def test_a_vocabulary_without_the_parser_is_left_alone(trained):
    assert not isinstance(spacy.blank("en").vocab.get_noun_chunks, UDNounChunks)


def test_white_space_is_at_no_end(vocab):
    """As `spectral_parser` leaves it: attached to a neighbour."""
    words = ["\n\n", "Mr.", "John", "\n", "Bennet", " ", "and", "Miss", "\n\n", "Mary", "Ann", "\n"]
    heads = [1, 4, 4, 2, 4, 4, 9, 9, 7, 4, 9, 10]
    deps = ["", "compound", "compound", "", "ROOT", "", "cc", "compound", "", "conj", "flat", ""]
    doc = Doc(vocab, words=words, spaces=[False] * 12, heads=heads, deps=deps)
    assert chunks(doc) == ["Mr.John\nBennet", "MaryAnn"]
