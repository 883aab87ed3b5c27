"""The lemmatizer as spaCy uses it."""

import pytest
import spacy
import srsly
from spacy.lookups import Lookups
from spacy.tokens import Doc
from spacy.training import Example

from pipelines import initialized
from spacy_spectral.pipeline import tagger as tagger_module
from spacy_spectral.readers import Corpus
from spacy_spectral.treebank.conllu import read_conllu


def train(sample, **config):
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_tagger")
    nlp.add_pipe("spectral_lemmatizer", config={"jackknife": "spectral_tagger", **config})
    return initialized(nlp, sample["train"])


@pytest.fixture(scope="module")
def nlp(sample):
    return train(sample)


def lemmas(docs):
    return [[token.lemma_ for token in doc] for doc in docs]


def test_lemmas_of_the_treebank(nlp, sample):
    examples = list(Corpus(sample["dev"], annotations=["sents"])(nlp))
    assert nlp.evaluate(examples)["lemma_acc"] > 0.97


def test_retraining_gives_the_same_bytes(nlp, sample):
    again, first = (own.get_pipe("spectral_lemmatizer").model for own in (train(sample), nlp))
    assert again.to_bytes() == first.to_bytes()


def test_a_lexicon_is_a_setting(sample, tmp_path):
    path = tmp_path / "lexicon.tsv"
    path.write_text(
        "".join(f"glorks\tglark\t{pos}\t_\n" for pos in ("NOUN", "VERB", "PROPN", "ADJ"))
    )
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_tagger")
    nlp.add_pipe("spectral_lemmatizer")
    for name in nlp.pipe_names:
        nlp.config["initialize"]["components"][name] = {"lexicon": str(path)}
    nlp = initialized(nlp, sample["train"])
    assert nlp("The glorks bark.")[1].lemma_ == "glark"


@pytest.mark.parametrize("where", ["file", "compressed", "lookups"])
def test_lookups_are_a_lexicon(sample, tmp_path, where):
    # it is right about the sample, so it is trusted
    table = {
        word: lemma
        for sentence in read_conllu(sample["train"])
        for word, lemma in zip(sentence.words, sentence.lemmas, strict=True)
    }
    table |= {"glorks": ["glark"], "case": "kase"}
    path = tmp_path / "lemmas.json"
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_lemmatizer")
    config = nlp.config["initialize"]
    if where == "lookups":
        lookups = Lookups()
        lookups.add_table("lemma_lookup", table)
        nlp.vocab.lookups = lookups
    else:
        path = path.with_suffix(".json.gz") if where == "compressed" else path
        (srsly.write_gzip_json if where == "compressed" else srsly.write_json)(path, table)
        config["components"]["spectral_lemmatizer"] = {"lexicon": str(path)}
    initialized(nlp, sample["train"])
    doc = Doc(nlp.vocab, words=["The", "glorks", "bark"], pos=["DET", "NOUN", "VERB"])
    assert nlp(doc)[1].lemma_ == "glark"
    assert nlp(Doc(nlp.vocab, words=["case"], pos=["NOUN"]))[0].lemma_ == "kase"


@pytest.mark.parametrize("text", ["[]", '{"a": 1}', '{"a": ["b", ""]}', "{"])
def test_lookups_are_checked(sample, tmp_path, text):
    path = tmp_path / "lemmas.json"
    path.write_text(text)
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_lemmatizer")
    nlp.config["initialize"]["components"]["spectral_lemmatizer"] = {"lexicon": str(path)}
    with pytest.raises(ValueError, match=r"S307|S311"):
        initialized(nlp, sample["dev"])


def test_given_lemmas_are_kept_unless_overwritten(nlp):
    for overwrite, expected in ((False, "mine"), (True, "the")):
        doc = nlp.make_doc("The dog barks.")
        doc[0].lemma_ = "mine"
        pipe = nlp.get_pipe("spectral_lemmatizer")
        pipe.overwrite = overwrite
        assert nlp(doc)[0].lemma_ == expected
    pipe.overwrite = False


def test_the_tagger_is_jackknifed_once_for_all_who_ask(sample, monkeypatch):
    calls = []

    def counted(*args, **options):
        calls.append(1)
        return original(*args, **options)

    original = tagger_module.jackknife
    monkeypatch.setattr(tagger_module, "jackknife", counted)
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_tagger")
    for name in ("one", "two"):
        nlp.add_pipe("spectral_lemmatizer", name=name, config={"jackknife": "spectral_tagger"})
    initialized(nlp, sample["dev"])
    assert len(calls) == 1
    other = Corpus(sample["test"], annotations=["sents"])
    nlp.get_pipe("one").initialize(lambda: other(nlp), nlp=nlp)
    assert len(calls) == 2


def test_tags_of_a_trained_tagger(nlp, sample):
    own = spacy.blank("en")
    own.add_pipe("spectral_tagger", source=nlp)
    own.add_pipe("spectral_lemmatizer", config={"annotate_with": ["spectral_tagger"]})
    corpus = Corpus(sample["dev"], annotations=["sents"])
    own.get_pipe("spectral_lemmatizer").initialize(lambda: corpus(own), nlp=own)
    assert own("The dogs bark.")[1].lemma_ == "dog"


def test_other_tokens_and_partial_annotation():
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_lemmatizer")
    words = ["dogs", "and", "cats", "."]
    reference = Doc(
        nlp.vocab, words=words, tags=["NNS", "CC", "NNS", "."], lemmas=["dog", "", "cat", "."]
    )
    predicted = Doc(nlp.vocab, words=["dogs", "and", "cats."], spaces=[True, True, False])
    nlp.initialize(lambda: [Example(predicted, reference)])
    doc = Doc(nlp.vocab, words=["dogs"], tags=["NNS"])
    assert nlp(doc)[0].lemma_ == "dog"


def test_clear_errors(sample):
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_lemmatizer")
    with pytest.raises(ValueError, match="S115"):
        nlp("text")
    with pytest.raises(ValueError, match="S606"):
        nlp.initialize()
    with pytest.raises(ValueError, match="S118"):
        nlp.get_pipe("spectral_lemmatizer").jackknife = "tagger"
        nlp.initialize(lambda: Corpus(sample["dev"], annotations=[])(nlp))


def test_spacy_knows_what_it_needs():
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_lemmatizer")
    problems = nlp.analyze_pipes()["problems"]["spectral_lemmatizer"]
    assert {"token.tag", "token.pos"} <= set(problems)
    nlp.add_pipe("spectral_tagger", first=True)
    assert not nlp.analyze_pipes()["problems"]["spectral_lemmatizer"]
