"""Lemmas: edit scripts against their definition, what is learnt, damaged files."""

import re
from concurrent.futures import ThreadPoolExecutor
from random import Random

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.strings import hash_string

from spacy_spectral.base.files import pack, unpack
from spacy_spectral.models.linear import lemmatizer
from spacy_spectral.models.linear.analyses import LemmaTable, lookup_key, read_analyses
from spacy_spectral.models.linear.edits import Keep, Put, Replace, Script, find_script
from spacy_spectral.models.linear.lemmatizer import LemmaModel, LemmatizerRecipe, Reading

WORDS = st.text(alphabet="abcABCİıßæ-'", min_size=1, max_size=12) | st.text(min_size=1, max_size=6)


@settings(max_examples=300)
@given(WORDS, WORDS)
def test_a_script_makes_the_lemma_of_its_form(form, lemma):
    script = find_script(form, lemma)
    assert script.apply(form) == lemma
    assert Script.from_str(script.to_str()) == script


@given(WORDS, WORDS, WORDS)
def test_a_script_gives_something_or_nothing_for_other_forms(form, lemma, other):
    found = find_script(form, lemma).apply(other)
    assert found is None or found


def test_scripts_fit_other_words_of_the_same_kind():
    assert find_script("dogs", "dog").apply("cats") == "cat"
    assert find_script("Dogs", "dog").apply("cats") == "cat"
    assert find_script("The", "the") == find_script("of", "of") == Script("lower", None)
    assert find_script("Bush", "Bush").apply("Cheney") == "Cheney"
    assert find_script("LONDON", "London").apply("PARIS") == "Paris"
    assert find_script("aufgemacht", "aufmachen").apply("aufgelegt") == "auflegen"
    assert find_script("dogs", "dog").apply("cat") is None
    assert find_script("dogs", "dog").apply("s") is None
    assert find_script("İzini", "iz").apply("İşini") == "iş"
    assert find_script("went", "go") == Script("lower", Replace("went", "go"))
    assert find_script("dogs", "dog").tree == Keep(0, 1, None, Replace("s", ""))


def test_what_is_replaced_may_be_left_open():
    script = find_script("gelecektim", "gel").loosened()
    assert script.tree == Keep(0, 7, None, Put(""))
    assert script.apply("bilmeyecek") == "bil"
    assert script.apply("gelecek") is None
    assert find_script("kitabından", "kitap").loosened().apply("şarabından") == "şarap"
    assert Script.from_str(script.to_str()) == script == script.loosened()
    assert find_script("'s", "be").loosened() == find_script("'s", "be")


def test_endings_that_are_new_are_cut_off():
    """Most scripts are met once, and the lemma is known by other forms."""
    rng = Random(2)
    stems = [
        "".join(rng.choice("bdgklmnprstv") + rng.choice("aeiou") for _ in range(2))
        for _ in range(60)
    ]
    endings = sorted(
        {"".join(rng.choice("xyz") for _ in range(rng.randint(2, 6))) for _ in range(300)}
    )
    pairs = [
        (Reading(rng.choice(stems) + ending, "V", "VERB", f"E={len(ending)}"), "")
        for ending in endings
    ]
    pairs = [(r, r.form.rstrip("xyz")) for r, _ in pairs]
    bare = [(Reading(stem, "V", "VERB", ""), stem) for stem in stems]
    model = LemmatizerRecipe().fit(pairs[::2] + bare)
    found = model.lemmatize([r for r, _ in pairs[1::2]])
    right = sum(lemma == own for lemma, (_, own) in zip(found, pairs[1::2], strict=True))
    assert right > 0.9 * len(found)


def test_lemmas_are_of_gold_parts_of_speech():
    """A tagger that takes nouns for verbs does not make their lemmas lemmas of verbs."""
    gold = [
        (Reading("kalaxy", "N", "NOUN", ""), "kalax"),
        (Reading("kalayx", "V", "VERB", ""), "kala"),
    ]
    wrong = [(Reading("kalaxy", "V", "VERB", ""), "kalax")]
    for predicted, known in ((wrong, {"kala"}), ([], {"kala"})):
        model = LemmatizerRecipe().fit(gold, predicted=predicted)
        for own in (model, LemmaModel.from_bytes(model.to_bytes())):
            assert {lemma for lemma, pos in own._known_lemmas if pos == "VERB"} == known
            # what was seen is looked up all the same
            assert own.lemmatize([gold[0][0]]) == ["kalax"]
        if predicted:
            assert model.lemmatize([wrong[0][0]]) == ["kalax"]
    mixed = LemmatizerRecipe().fit(gold + wrong)
    assert ("kalax", "VERB") in mixed._known_lemmas


DEEP = '["k",0,1,' * 60 + "null" + ",null]" * 60
NO_SCRIPTS = ['["x",null]', '["lower",["k",1]]', '["lower",["r",1,2]]', "3", "{}", "x",
              '["lower",["k",-1,0,null,null]]', '["lower",["p",1]]', f'["lower",{DEEP}]']  # fmt: skip


@pytest.mark.parametrize("text", NO_SCRIPTS)
def test_what_is_no_script_is_refused(text):
    with pytest.raises((ValueError, TypeError)):
        Script.from_str(text)


def make_readings(n, *, seed):
    """Plurals in -ub, past in -ate, "run" irregular by tag, names keep their case."""
    rng = Random(seed)
    stems = ["kal", "mor", "tiv", "sun", "pel", "dra", "vok", "lim", "gor", "has", "bre", "yul"]
    result = []
    for _ in range(n):
        stem = rng.choice(stems) + rng.choice(["", "a", "in", "os"])
        kind = rng.randrange(5)
        if kind == 0:
            result.append((Reading(stem + "ub", "NNS", "NOUN", "Number=Plur"), stem))
        elif kind == 1:
            result.append((Reading(stem.title() + "ate", "VBD", "VERB", "Tense=Past"), stem))
        elif kind == 2:
            result.append((Reading(stem.title(), "NNP", "PROPN", ""), stem.title()))
        elif kind == 3:
            result.append((Reading("run", "VB", "VERB", ""), "ren"))
        else:
            result.append((Reading("run", "NN", "NOUN", "Number=Sing"), "run"))
    return result


MODEL = LemmatizerRecipe().fit(make_readings(400, seed=1))


def test_lemmas_of_new_words():
    new = {
        Reading("zorkub", "NNS", "NOUN", "Number=Plur"): "zork",
        Reading("Zorkate", "VBD", "VERB", "Tense=Past"): "zork",
        Reading("Zork", "NNP", "PROPN", ""): "Zork",
        Reading("run", "VB", "VERB", ""): "ren",
        Reading("run", "NN", "NOUN", "Number=Sing"): "run",
    }
    assert MODEL.lemmatize(list(new)) == list(new.values())
    assert MODEL.lemmatize([]) == []
    # the script of the first reading is one of its part of speech, too
    few = LemmatizerRecipe().fit(
        [
            (Reading(f"{stem}{end}", "NNS", "NOUN", ""), stem)
            for end in ("s", "ub")
            for stem in "abcd"
        ]
    )
    assert few.lemmatize([Reading("zorks", "NNS", "NOUN", "")]) == ["zork"]


def test_lemmas_of_training_are_preferred():
    # of "...inin", "in" is cut off as often as "inin" is
    stems = ["kal", "mor", "sun", "pel", "dra", "vok", "lim", "gor"]
    data = [(Reading(stem + "inin", "N", "NOUN", ""), stem) for stem in stems[:4]]
    data += [(Reading(stem + "inin", "N", "NOUN", ""), stem + "in") for stem in stems[4:]]
    data += [(Reading(lemma + "u", "N", "NOUN", ""), lemma) for lemma in ("zork", "hagin", "bren")]
    new = {"zorkinin": "zork", "haginin": "hagin", "breninin": "bren"}
    model = LemmatizerRecipe().fit(data)
    for again in (model, LemmaModel.from_bytes(model.to_bytes())):
        assert again.lemmatize([Reading(form, "N", "NOUN", "") for form in new]) == [*new.values()]
    # files of older versions do not have it
    kind, version = LemmaModel.FORMAT.kind, LemmaModel.FORMAT.version
    payload = unpack(kind, version, model.to_bytes())
    del payload["known_factor"]
    old = LemmaModel.from_bytes(pack(kind, version, payload))
    assert old.to_payload()["known_factor"] == 1.0


def test_a_lexicon_has_more_forms(tmp_path):
    path = tmp_path / "lexicon.tsv"
    path.write_text("zeugu\tzag\tNOUN\tNumber=Plur\r\n\nrun\tother\tVERB\t_\nzeugu\tnot\tNOUN\t_\n")
    data = make_readings(200, seed=2)
    model = LemmatizerRecipe().fit(data, lexicon=read_analyses(path))
    for again in (model, LemmaModel.from_bytes(model.to_bytes())):
        assert again.lemmatize(
            [
                Reading("zeugu", "NN", "NOUN", ""),
                Reading("Zeugu", "NN", "NOUN", ""),
                # the training data goes first
                Reading("run", "VB", "VERB", ""),
                # a lemma of the lexicon
                Reading("zagub", "NNS", "NOUN", "Number=Plur"),
            ]
        ) == ["zag", "zag", "ren", "zag"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [(b"a\tb\tNOUN", "3 columns"), (b"a\tb\tnoun\t_", "no part of speech 'noun'"),
     (b"\tb\tNOUN\t_", "form is ''"), (b"a\tb \tNOUN\t_", "lemma is 'b '"),
     (b"a\tb\tNOUN\tCase", "features are 'Case'"), (b"\xff\tb\tNOUN\t_", "UTF-8")],
)  # fmt: skip
def test_what_is_no_lexicon_is_refused(tmp_path, line, reason):
    path = tmp_path / "lexicon.tsv"
    path.write_bytes(b"a\tb\tNOUN\t_\n" + line + b"\n")
    with pytest.raises(ValueError, match=f"S306.*Line 2 of .*lexicon.tsv.*{reason}"):
        read_analyses(path)
    with pytest.raises(ValueError, match=r"S307.*none\.tsv"):
        read_analyses(tmp_path / "none.tsv")


def test_what_was_seen_is_never_wrong():
    data = [*make_readings(200, seed=2), (Reading("best", "JJS", "ADJ", ""), "good")]
    model = LemmatizerRecipe().fit(data)
    assert model.lemmatize([reading for reading, _ in data]) == [lemma for _, lemma in data]
    assert model._known["best", "ADJ"] == "good"
    assert len(model._exceptions) < 5


PAST, PASSIVE, PERFECT = "Tense=Past", "VerbForm=Part|Voice=Pass", "VerbForm=Part"


def test_lemmas_of_forms_in_other_readings():
    data = make_readings(200, seed=2)
    data += [(Reading("caught", "VBD", "VERB", PAST), "catch")] * 3
    data += [(Reading("caught", "VBN", "VERB", PASSIVE), "catch")] * 2
    data += [(Reading("caught", "VBN", "VERB", "Typo=Yes"), "cough")]
    data += [(Reading("kalwon", "NN", "NOUN", ""), "kalwon")]
    model = LemmatizerRecipe().fit(data)
    for again in (model, LemmaModel.from_bytes(model.to_bytes())):
        # the same part of speech, any part of speech, the same form without capitals
        assert again.lemmatize(
            [
                Reading("caught", "VBN", "VERB", PERFECT),
                Reading("caught", "JJ", "ADJ", ""),
                Reading("Caught", "VBN", "VERB", PERFECT),
                Reading("CAUGHT", "VBD", "VERB", PAST),
                # what was seen goes first; a name is not what it is in small letters
                Reading("caught", "VBN", "VERB", "Typo=Yes"),
                Reading("Caught", "NNP", "PROPN", ""),
            ]
        ) == ["catch", "catch", "catch", "catch", "cough", "Caught"]


def test_what_keeps_its_capital_is_learnt():
    stems = [a + b for a in ("kal", "mor", "tiv", "sun", "pel") for b in ("", "a", "in", "os")]
    data = []
    for i, stem in enumerate(stems):
        # names end in -'da where they are; one in five is a word that was tagged as a name
        name = stem.title()
        lemma = name if i % 5 else stem
        data += [(Reading(name, "NNP", "PROPN", ""), lemma)]
        data += [(Reading(f"{name}'da", "NNP", "PROPN", "Case=Loc"), lemma)]
        data += [(Reading(name, "NN", "NOUN", ""), stem), (Reading(stem, "NN", "NOUN", ""), stem)]
    model = LemmatizerRecipe().fit(data)
    for again in (model, LemmaModel.from_bytes(model.to_bytes())):
        # like "Kal", "Mora", "Tivin" and "Sunos", which were no names
        forms = [a + b for a in ("Yu", "Zo", "K", "T") for b in ("kal", "mora", "tivin", "sunos")]
        names = [Reading(form, "NNP", "PROPN", "") for form in forms]
        assert again.lemmatize(names) == forms
        # they are inflected all the same
        inflected = [Reading(f"{form}'da", "NNP", "PROPN", "Case=Loc") for form in forms]
        assert again.lemmatize(inflected) == forms
        nouns = [Reading(form, "NN", "NOUN", "") for form in forms]
        assert again.lemmatize(nouns) == [form.lower() for form in forms]


def test_files_of_before_give_what_they_gave():
    payload = unpack("lemmatizer", 1, MODEL.to_bytes())
    for name in ("known_forms", "known_parts", "form_known_parts", "known_lemmas", "capitals"):
        del payload[name]
    model = LemmaModel.from_bytes(pack("lemmatizer", 1, payload))
    readings = [
        Reading("zorkub", "NNS", "NOUN", "Number=Plur"),
        Reading("Zork", "NNP", "PROPN", ""),
    ]
    assert model.lemmatize(readings) == ["zork", "Zork"]
    assert not model._known and not model._capitals


def test_the_most_frequent_lemma_counts():
    reading = Reading("saw", "NN", "NOUN", "")
    model = LemmatizerRecipe().fit([(reading, "see"), (reading, "saw"), (reading, "saw")])
    assert model.lemmatize([reading]) == ["saw"]


@given(
    st.lists(st.builds(Reading, st.text(min_size=1), st.text(), st.text(), st.text()), max_size=5)
)
def test_any_reading_has_a_lemma(readings):
    assert all(MODEL.lemmatize(readings))


def test_company_cache_and_threads_change_nothing(monkeypatch):
    monkeypatch.setattr(lemmatizer, "_CACHE_SIZE", 30)
    model = LemmaModel.from_bytes(MODEL.to_bytes())
    readings = [reading for reading, _ in make_readings(300, seed=3)]
    expected = [MODEL.lemmatize([reading])[0] for reading in readings]
    batches = [readings[i : i + 17] for i in range(0, 300, 17)] * 3

    def recall(batch):
        keys = [hash(reading) for reading in batch]
        return model.recall(keys, lambda places: [batch[i] for i in places])

    with ThreadPoolExecutor(4) as pool:
        found = [lemma for batch in pool.map(recall, batches) for lemma in batch]
    assert found == expected * 3
    assert 0 < len(model._memory.known) <= 30
    key = next(iter(model._memory.known))
    assert model.recall([key], lambda places: 1 / 0) == [model._memory.known[key]]


def test_bytes():
    readings = make_readings(100, seed=4)
    data = LemmatizerRecipe().fit(readings).to_bytes()
    assert LemmatizerRecipe().fit(readings).to_bytes() == data
    assert LemmaModel.from_bytes(data).to_bytes() == data
    with pytest.raises(ValueError, match="S606"):
        LemmatizerRecipe().fit([])
    one = LemmatizerRecipe().fit(readings[:1]).to_bytes()
    assert LemmaModel.from_bytes(one).lemmatize([readings[0][0]]) == [readings[0][1]]
    payload = unpack("lemmatizer", 1, one)
    payload["scripts"] *= 2
    with pytest.raises(ValueError, match=r"S005.*'scripts' has an entry twice"):
        LemmaModel.from_bytes(pack("lemmatizer", 1, payload))


SMALL = (
    LemmatizerRecipe(epochs=2)
    .fit([*make_readings(60, seed=5), (Reading("best", "JJS", "ADJ", ""), "good")])
    .to_bytes()
)
BAD = [None, "x", 3, [], [""], ["x", 3], {}, numpy.zeros(3, "int32"), ['["lower",["r","a",3]]']]


@settings(max_examples=200)
@given(st.data())
def test_damaged_contents_never_crash(data):
    payload = unpack("lemmatizer", 1, SMALL)
    where = payload if data.draw(st.booleans()) else payload["classifier"]
    name = data.draw(st.sampled_from(sorted(where)))
    value = where[name]
    if isinstance(value, numpy.ndarray) and value.size and data.draw(st.booleans()):
        value = value.copy()
        limits = numpy.iinfo(value.dtype) if value.dtype.kind in "iu" else None
        value[data.draw(st.integers(0, value.size - 1))] = (
            data.draw(st.sampled_from([numpy.nan, numpy.inf, 1e30]))
            if limits is None
            else data.draw(st.integers(int(limits.min), int(limits.max)))
        )
    else:
        value = BAD[data.draw(st.integers(0, len(BAD) - 1))]
    where[name] = value
    try:
        model = LemmaModel.from_bytes(pack("lemmatizer", 1, payload))
    except ValueError as error:
        assert re.match(r"\[S00[245]\]", str(error))
    else:
        assert all(model.lemmatize([reading for reading, _ in make_readings(9, seed=6)]))


@settings(max_examples=300)
@given(st.text(min_size=1, max_size=40))
def test_keys_are_the_hashes_of_spacy(form):
    assert lookup_key(form) == hash_string(form)


def test_a_table_is_trusted_as_far_as_it_is_right():
    rng = Random(5)
    stems = [
        "".join(rng.choice("bdgklmnprstv") + rng.choice("aeiou") for _ in range(3))
        for _ in range(300)
    ]
    # verbs have any ending that their lemma does not tell; the table is right about them, wrong about nouns
    pairs = [(Reading(stem + "x", "V", "VERB", ""), stem + rng.choice("fhjz")) for stem in stems]
    nouns = [(Reading(stem + "s", "N", "NOUN", ""), stem) for stem in stems]
    lemmas = {r.form: [lemma] for r, lemma in pairs} | {r.form: ["bad"] for r, _ in nouns}
    table = LemmaTable.of({lookup_key(form): own for form, own in lemmas.items()})
    assert table["no such form"] == [] and table[pairs[0][0].form] == [pairs[0][1]]
    train, test = pairs[:200] + nouns[:200], pairs[200:] + nouns[200:]
    readings, gold = [reading for reading, _ in test], [lemma for _, lemma in test]
    plain, looked_up = (LemmatizerRecipe().fit(train, table=own) for own in (None, table))
    assert plain.lemmatize(readings) != gold == looked_up.lemmatize(readings)
    # in small letters, too
    assert looked_up.lemmatize([readings[0]._replace(form=readings[0].form.title())]) == gold[:1]
    again = LemmaModel.from_bytes(looked_up.to_bytes())
    assert again.lemmatize(readings) == gold
    assert again.to_bytes() == looked_up.to_bytes()
