"""The tagger without spaCy: kernels against plain Python, training, jack-knifing, files."""

import math
import random
from collections import Counter

import numpy
import pytest
import srsly
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_spectral.base._linear import SLOT, number_keys
from spacy_spectral.base.files import pack, unpack
from spacy_spectral.models.linear import tagger as tagger_module
from spacy_spectral.models.linear._classifier import LEARNER, feature_keys, train_epoch
from spacy_spectral.models.linear._strings import form_attributes
from spacy_spectral.models.linear.analyses import Analysis
from spacy_spectral.models.linear.classifier import PREFIX, SUFFIX
from spacy_spectral.models.linear.stems import Stems, find_stem, longest_stem
from spacy_spectral.models.linear.tagger import TaggerModel, TaggerRecipe, jackknife
from spacy_spectral.models.linear.tagger_training import (
    Corpus,
    Preparation,
    TaggedSentence,
    dictionary_attributes,
    held_out_attributes,
    morph_templates,
    tag_templates,
)
from tagger_data import make_sentences

TRAIN, DEV = make_sentences(400, seed=1), make_sentences(100, seed=2)


@pytest.fixture(scope="module")
def tagger():
    return TaggerRecipe().fit(TRAIN)


def accuracy(tagger, sentences):
    tagging = tagger.tag([s.words for s in sentences])
    gold = [pair for s in sentences for pair in zip(s.tags, s.pos, strict=True)]
    morphs = [morph for s in sentences for morph in s.morphs]
    right = [tagger.tag_classes[c] == g for c, g in zip(tagging.classes, gold, strict=True)]
    right_morph = [tagger.morphs[c] == g for c, g in zip(tagging.morphs, morphs, strict=True)]
    return sum(right) / len(gold), sum(right_morph) / len(gold)


@pytest.mark.parametrize("settings", [{"epochs": 0}, {"seed": -1}])
def test_settings_that_nothing_can_be_learnt_with(settings):
    with pytest.raises(ValueError, match=f"S312.*{next(iter(settings))} = "):
        TaggerRecipe(**settings).fit(TRAIN[:5])


# ---------------------------------------------------------------- attributes and keys


@given(st.lists(st.text(alphabet="abAB1-.İß", min_size=1, max_size=8), min_size=2, max_size=6))
def test_attributes_agree_exactly_where_the_strings_do(words):
    attributes = form_attributes(words)
    for a, row_a in zip(words, attributes, strict=True):
        for b, row_b in zip(words, attributes, strict=True):
            assert (row_a[0] == row_b[0]) == (a == b)
            assert (row_a[1] == row_b[1]) == (a.lower() == b.lower())
            for n in range(1, 6):
                for column, cut in ((PREFIX[n - 1], slice(n)), (SUFFIX[n - 1], slice(-n, None))):
                    long_a, long_b = len(a.lower()) > n, len(b.lower()) > n
                    assert bool(row_a[column]) == long_a
                    if long_a and long_b:
                        same = a.lower()[cut] == b.lower()[cut]
                        assert (row_a[column] == row_b[column]) == same


@pytest.mark.parametrize(
    ("one", "other", "collapsed", "full"),
    [("Cat", "Doggy", True, False), ("Cat", "Dog", True, True), ("CAT", "Cat", False, False),
     ("12", "34", True, True), ("12", "1234", True, False), ("a-b", "a.b", False, False)],
)  # fmt: skip
def test_shapes(one, other, collapsed, full):
    a, b = form_attributes([one, other])
    assert (a[2] == b[2]) == collapsed
    assert (a[3] == b[3]) == full


def test_keys_are_numbered_by_first_occurrence():
    keys = numpy.random.default_rng(0).integers(0, 3000, 20_000, dtype="uint64")
    ids, distinct = number_keys(keys)
    expected, first = numpy.unique(keys[keys > 0], return_index=True)
    numpy.testing.assert_array_equal(distinct, expected[numpy.argsort(first)])
    numpy.testing.assert_array_equal(distinct[ids[keys > 0]], keys[keys > 0])
    assert (ids[keys == 0] == -1).all()


def test_templates_are_sorted_by_what_they_look_at():
    makers = (tag_templates, morph_templates)
    for templates in (make(4, has_stems) for make in makers for has_stems in (False, True)):
        for cells, alone, dynamic in zip(
            templates.cells.reshape(-1, 3, 2).tolist(),
            templates.about_one_word(),
            templates.dynamic(),
            strict=True,
        ):
            cells = [cell for cell in cells if cell[1] >= 0]
            columns = [column for _, column in cells]
            assert dynamic == (templates.out_column in columns)
            assert alone == (
                len({offset for offset, _ in cells}) == 1 and max(columns) < templates.type_columns
            )
            # a decision can only look at decisions to its left
            assert all(o < 0 for o, column in cells if column == templates.out_column)


# ---------------------------------------------------------------- a lexicon


def test_a_lexicon_tells_of_new_forms():
    rng = random.Random(0)

    def word():
        return "".join(rng.choices("abcdefghij", k=6))

    lexicon = [Analysis(word(), "x", pos, f"Form={pos[0]}") for pos in ("NOUN", "VERB") * 200]
    rng.shuffle(lexicon)

    def sentence(words):
        columns = zip(*((w.form, w.pos[0], w.pos, w.morph) for w in words), strict=True)
        return TaggedSentence(*map(list, columns))

    treebank = [sentence(lexicon[i : i + 4]) for i in range(0, 300, 4)]
    new = sentence(lexicon[300:])
    assert accuracy(TaggerRecipe().fit(treebank), [new])[0] < 0.7
    tagger = TaggerRecipe().fit(treebank, lexicon=lexicon)
    again = TaggerModel.from_bytes(tagger.to_bytes())
    capitals = [new._replace(words=[w.title() for w in new.words])]
    for sentences in ([new], capitals):
        assert accuracy(tagger, sentences) == accuracy(again, sentences) == (1.0, 1.0)
    known = tagger.lexicon.known
    held_out = jackknife(treebank, folds=4, known=known)
    assert [held_out.labels[i] for i in held_out.tags[:, 0]] == [
        t for s in treebank for t in s.tags
    ]
    kind, version = TaggerModel.FORMAT.kind, TaggerModel.FORMAT.version
    for name in ("known", "known_entries", "stems", "stem_entries"):
        payload = unpack(kind, version, TaggerRecipe().fit(stemmed(60), lexicon=lexicon).to_bytes())
        del payload[name]
        with pytest.raises(ValueError, match="S005"):
            TaggerModel.from_bytes(pack(kind, version, payload))


# ---------------------------------------------------------------- stems


def stemmed(sentences):
    """A language that glues: each noun and verb in many forms, with their lemmas."""
    rng = random.Random(0)
    endings = {
        "NOUN": ["", "lar", "lardan", "un", "unda", "ım"],
        "VERB": ["ti", "tim", "mez", "mezler", "un"],
    }
    stems = {pos: [a + b + end for a in ("ka", "mo", "ti", "su", "pe") for b in "lrnks"]
             for pos, end in (("NOUN", "o"), ("VERB", "iz"))}  # fmt: skip
    result = []
    for _ in range(sentences):
        tokens = []
        for pos in rng.choices(["NOUN", "VERB"], k=4):
            lemma, i = rng.choice(stems[pos]), rng.randrange(len(endings[pos]))
            tokens.append((lemma + endings[pos][i], pos[0], pos, f"Form={pos[0]}{i}", lemma))
        result.append(TaggedSentence(*map(list, zip(*tokens, strict=True))))
    return result


def test_stems():
    assert find_stem("kitabı", "kitap") == "kita"
    assert find_stem("evler", "ev") == find_stem("ev", "evler") == "ev"
    assert find_stem("a", "a") == find_stem("went", "go") == ""
    assert longest_stem("evlerden", {"ev": 1, "evle": 2}) == "evle"
    assert longest_stem("evlerden", {"ev": 1, "evle": 2}, 2) == "ev"
    assert longest_stem("evlerden", {"ev": 1, "evle": 2}, 1) == "evle"
    assert longest_stem("evlerden", {}) == ""


def test_stems_are_looked_at_where_most_are_known():
    treebank = stemmed(100)
    tagger = TaggerRecipe().fit(treebank)
    assert tagger.lexicon.stems is not None
    assert TaggerRecipe().fit([s._replace(lemmas=()) for s in treebank]).lexicon.stems is None
    alone = [s._replace(lemmas=s.words) for s in treebank]
    assert TaggerRecipe().fit(alone).lexicon.stems is None
    again = TaggerModel.from_bytes(tagger.to_bytes())
    new = [["kalolardanım", "kalizmezti", "sulounda", "sulizun"]]
    for model in (tagger, again):
        tagging = model.tag(new)
        assert [model.tag_classes[c][1] for c in tagging.classes] == ["NOUN", "VERB"] * 2
    assert again.to_bytes() == TaggerRecipe().fit(treebank).to_bytes()


def test_stems_of_training_are_those_of_other_blocks():
    corpus = Corpus.encode(stemmed(60))
    preparation = Preparation(corpus, None)
    lexicon, _ = preparation.fit_tags(corpus.tag_gold, epochs=1, seed=0)
    columns = preparation._columns.stems
    of_tokens = preparation._attributes[:, columns]
    words = [corpus.types[i].lower() for i in corpus.words]
    pairs = list(zip(words, corpus.lemmas, strict=True))
    for i in range(0, len(words), 7):
        others = [j for j in range(len(words)) if preparation._blocks[j] != preparation._blocks[i]]
        stems = {find_stem(*pairs[j]) for j in others}
        stem = longest_stem(words[i], dict.fromkeys(stems - {""}, 1))
        assert (of_tokens[i, 1] == 0) == (stem == "")
        if stem:
            kinds = Counter(corpus.tag_gold[j] for j in others if find_stem(*pairs[j]) == stem)
            best = sorted(kinds, key=lambda c: (-kinds[c], c))
            # a stem of the same parts of speech has the same attribute
            own = Stems([stem], lexicon.stems.entries[:1]).attributes([words[i]])
            assert (own[0, 1:] == of_tokens[i, 1:]).all()
            same = [
                e for s, e in zip(lexicon.stems.names, lexicon.stems.entries, strict=True)
                if stem_kinds(corpus, pairs, s) == best
            ]  # fmt: skip
            assert all(of_tokens[i, 0] == e for e in same)


def stem_kinds(corpus, pairs, stem):
    kinds = Counter(
        c for c, pair in zip(corpus.tag_gold, pairs, strict=True) if find_stem(*pair) == stem
    )
    return sorted(kinds, key=lambda c: (-kinds[c], c))


# ---------------------------------------------------------------- the tag dictionary


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 3), st.integers(0, 3)), min_size=1))
def test_held_out_dictionary_is_the_dictionary_of_the_other_blocks(tokens):
    keys, gold, blocks = (numpy.array(column) for column in zip(*tokens, strict=True))
    held_out = held_out_attributes(keys, gold, blocks, 4)
    for i, (key, _, block) in enumerate(tokens):
        masked = numpy.where(blocks == block, -1, gold)
        numpy.testing.assert_array_equal(
            held_out[i], dictionary_attributes(keys, masked, 5, 4)[key]
        )


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=40))
def test_dictionary_tells_words_apart_by_their_tags(tokens):
    keys, gold = (numpy.array(column) for column in zip(*tokens, strict=True))
    entries = dictionary_attributes(keys, gold, 5, 4)
    ranked = []
    for key in range(5):
        counts = Counter(tag for k, tag in tokens if k == key)
        ranked.append([tag for tag, _ in sorted(counts.items(), key=lambda c: (-c[1], c[0]))][:3])
    for a in range(5):
        assert (entries[a, 0] == 0) == (not ranked[a])
        for b in range(5):
            assert (entries[a, 0] == entries[b, 0]) == (ranked[a] == ranked[b])


# ---------------------------------------------------------------- training and decoding


@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_first_step_follows_the_gradient(weight):
    """From zero weights the gradient is 1/n minus gold, times what the sentence counts, and AdaGrad's step
    is known."""
    attributes = numpy.zeros((1, 1), dtype="uint32")
    # the empty row, then one of three parts
    rows = numpy.zeros(5, dtype=LEARNER)
    rows["output"][1], rows["output"][2:], rows["slope"]["squares"] = 3, range(3), 1.0
    i32 = lambda *values: numpy.array(values, dtype="int32")  # noqa: E731
    no_templates = numpy.zeros((0, 6), dtype="int32")
    loss, right, decided = train_epoch(
        attributes, i32(0, 1), i32(0), i32(0, 1), numpy.ones(1, "uint32"), no_templates, i32(), 0,
        numpy.zeros(16, dtype=SLOT), rows,
        i32(0, 1, 2, 3), i32(0, 1, 2), 3, i32(0), i32(0, 3), i32(0, 1, 2),
        i32(1), numpy.zeros(1, "uint8"), numpy.full(1, weight, "float32"), 0.5, 0.01, 0.0, 0.25,
    )  # fmt: skip
    assert (right, decided) == (0, 1)
    assert loss == pytest.approx(math.log(3), rel=1e-6)
    gradient = weight * numpy.array([1 / 3, 1 / 3 - 1, 1 / 3])
    step = -0.5 * gradient / numpy.sqrt(1 + gradient**2)
    numpy.testing.assert_allclose(rows["weight"][2:], step, rtol=1e-5)
    numpy.testing.assert_allclose(rows["slope"]["drift"][2:], 0.25 * step, rtol=1e-5)


def test_probabilities_are_those_of_the_features(tagger):
    """Decoding sums words' scores once a word; here every feature is looked up at every token."""
    sentences = [s.words for s in DEV[:20]]
    tagging = tagger.tag(sentences, top=len(tagger.tags))
    words = [word for s in sentences for word in s]
    starts = numpy.cumsum([0, *map(len, sentences)], dtype="int32")
    classifier = tagger._tagger
    rows = {int(key): i for i, key in enumerate(classifier.keys)}
    attributes = tagger.lexicon.attributes(words)
    attributes = numpy.pad(attributes, ((0, 0), (0, 2)))
    attributes[:, classifier.templates.out_column] = tagging.classes + 2
    numbers = numpy.arange(len(classifier.templates.cells), dtype="int32")
    keys = feature_keys(attributes, starts, classifier.templates.cells, numbers)
    scheme = classifier.scheme
    for i, token_keys in enumerate(keys.tolist()):
        scores = Counter()
        for row in (rows[key] for key in token_keys if key in rows):
            for k in range(classifier.row_starts[row], classifier.row_starts[row + 1]):
                scores[int(classifier.row_parts[k])] += float(classifier.weights[k])
        exps = [
            math.exp(sum(scores[p] for p in scheme.class_parts[start:end].tolist()))
            for start, end in zip(scheme.part_starts[:-1], scheme.part_starts[1:], strict=True)
        ]
        expected = Counter()
        for (tag, _), value in zip(tagger.tag_classes, exps, strict=True):
            expected[tag] += value / sum(exps)
        found = {
            tagger.tags[t]: p
            for t, p in zip(tagging.tags[i], tagging.probs[i], strict=True)
            if t >= 0
        }
        assert max(expected, key=expected.get) == tagger.tags[tagging.tags[i, 0]]
        for tag, probability in expected.items():
            assert found.get(tag, 0.0) == pytest.approx(probability, abs=1e-5)


def test_learns_endings_agreement_and_context(tagger):
    tags, morphs = accuracy(tagger, DEV)
    assert tags > 0.99
    assert morphs > 0.99
    tagging = tagger.tag([["the", "run", "run", "."]])
    assert [tagger.tag_classes[c][1] for c in tagging.classes] == ["DET", "NOUN", "VERB", "PUNCT"]


def test_unknown_words_are_tagged_by_their_endings(tagger):
    words = ["the", "zzzish", "wubbub", "qqqqaten", "."]
    tagging = tagger.tag([words])
    assert [tagger.tag_classes[c][0] for c in tagging.classes] == ["DT", "JJ", "NNS", "VBP", "."]
    assert tagger.morphs[tagging.morphs[2]] == "Case=Nom|Number=Plur"


def test_training_is_byte_identical(tagger):
    assert TaggerRecipe().fit(TRAIN).to_bytes() == tagger.to_bytes()


def test_bytes_round_trip(tagger):
    again = TaggerModel.from_bytes(tagger.to_bytes())
    assert again.to_bytes() == tagger.to_bytes()
    sentences = [s.words for s in DEV]
    for a, b in zip(again.tag(sentences), tagger.tag(sentences), strict=True):
        numpy.testing.assert_array_equal(a, b)


def test_sentences_do_not_see_each_other_nor_the_cache(tagger, monkeypatch):
    sentences = [s.words for s in DEV] + [[], ["run"]]
    together = tagger.tag(sentences)
    monkeypatch.setattr(tagger_module, "_CACHE_SIZE", 7)
    small = TaggerModel.from_bytes(tagger.to_bytes())
    single = [small.tag([s]) for s in sentences]
    for i, values in enumerate(together):
        numpy.testing.assert_array_equal(values, numpy.concatenate([s[i] for s in single]))


def test_nothing_and_much(tagger):
    assert [len(values) for values in tagger.tag([])] == [0, 0, 0, 0]
    assert [len(values) for values in tagger.tag([[], []])] == [0, 0, 0, 0]
    long = [word for s in DEV for word in s.words] * 50
    assert (tagger.tag([long]).classes >= 0).all()


def test_top_gives_as_many_tags_as_there_are(tagger):
    tagging = tagger.tag([["the"]], top=50)
    assert tagging.tags.shape == (1, 50)
    found = tagging.tags[0][tagging.tags[0] >= 0]
    assert len(set(found.tolist())) == len(found) <= len(tagger.tags)
    assert tagging.probs.sum() == pytest.approx(1.0, abs=1e-5)
    assert (numpy.diff(tagging.probs[0]) <= 0).all()
    assert tagger.tag([["the"]], top=0).tags.shape == (1, 0)


def test_missing_annotation_is_not_learnt():
    rng = random.Random(3)
    partial = []
    for s in TRAIN:
        known = [rng.random() < 0.5 for _ in s.words]
        blank = [tag if k else "" for tag, k in zip(s.tags, known, strict=True)]
        morphs = [m if rng.random() < 0.5 else None for m in s.morphs]
        partial.append(TaggedSentence(s.words, blank, s.pos, morphs))
    partial_tagger = TaggerRecipe().fit(partial)
    assert "" not in partial_tagger.tags
    assert min(accuracy(partial_tagger, DEV)) > 0.95


@pytest.mark.parametrize("layer", ["tags", "pos"])
def test_one_layer_of_tags_is_enough(layer):
    sentences = [s._replace(**{layer: [""] * len(s.words)}) for s in TRAIN[:100]]
    tagger = TaggerRecipe().fit(sentences)
    assert set(tagger.tags) == {
        t for s in TRAIN[:100] for t in (s.pos if layer == "tags" else s.tags)
    }


def test_no_annotation_is_a_clear_error():
    nothing = [TaggedSentence(["a"], [""], [""], [None])]
    for fit in (TaggerRecipe().fit, lambda s: jackknife(s * 5)):
        with pytest.raises(ValueError, match="S301"):
            fit(nothing)
    with pytest.raises(ValueError, match="S301"):
        TaggerRecipe().fit([])
    with pytest.raises(ValueError, match="S304"):
        TaggerRecipe().fit([TaggedSentence(["a", "b"], ["X"], ["X"], [""])])


def test_no_morphology_is_no_morphology():
    sentences = [s._replace(morphs=[None] * len(s.words)) for s in TRAIN[:50]]
    tagger = TaggerRecipe().fit(sentences)
    assert tagger.morphs == []
    assert (tagger.tag([["the", "run"]]).morphs == -1).all()
    assert TaggerModel.from_bytes(tagger.to_bytes()).morphs == []


def test_labels_restrict_what_is_learnt():
    tagger = TaggerRecipe().fit(TRAIN[:50], labels=["DT", "NN"])
    assert set(tagger.tags) <= {"DT", "NN"}


# ---------------------------------------------------------------- jack-knifing


def test_jackknife_predicts_every_token():
    result = jackknife(TRAIN, folds=4)
    gold = [tag for s in TRAIN for tag in s.tags]
    predicted = [result.labels[t] for t in result.tags[:, 0]]
    assert sum(a == b for a, b in zip(gold, predicted, strict=True)) / len(gold) > 0.97
    assert [result.tag_classes[c][0] for c in result.classes] == predicted
    assert (result.tags[:, 0] != result.tags[:, 1]).all()
    numpy.testing.assert_array_equal(result.starts, Corpus.encode(TRAIN).starts)


def test_jackknife_does_not_see_the_tags_it_predicts():
    """Garbage as the gold tags of one fold must change nothing there, and something elsewhere."""
    folds = 4
    honest = jackknife(TRAIN, folds=folds)
    corpus = Corpus.encode(TRAIN)
    fold_of = corpus.sentence_blocks(folds)
    rng = random.Random(0)
    pairs = sorted({pair for s in TRAIN for pair in zip(s.tags, s.pos, strict=True)})
    garbled = []
    for s, fold in zip(TRAIN, fold_of, strict=True):
        if fold == 2:
            tags, pos = zip(*(rng.choice(pairs) for _ in s.words), strict=True)
            s = s._replace(tags=tags, pos=pos)
        garbled.append(s)
    result = jackknife(garbled, folds=folds)
    held_out = corpus.per_token(fold_of == 2)
    numpy.testing.assert_array_equal(result.tags[held_out], honest.tags[held_out])
    numpy.testing.assert_array_equal(result.probs[held_out], honest.probs[held_out])
    assert (result.probs[~held_out] != honest.probs[~held_out]).any()


def test_folds_are_contiguous_and_errors_clear():
    blocks = Corpus.encode(TRAIN).sentence_blocks(5)
    assert (numpy.diff(blocks) >= 0).all()
    assert set(blocks.tolist()) == set(range(5))
    for folds in (1, len(TRAIN) + 1):
        with pytest.raises(ValueError, match="S305"):
            jackknife(TRAIN, folds=folds)


# ---------------------------------------------------------------- damaged files


SMALL = TaggerRecipe(epochs=1).fit(TRAIN[:30]).to_bytes()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_bytes_are_a_clear_error(data):
    position = data.draw(st.integers(0, len(SMALL) - 1))
    if data.draw(st.booleans()):
        bad = SMALL[:position]
    else:
        flip = bytes([SMALL[position] ^ data.draw(st.integers(1, 255))])
        bad = SMALL[:position] + flip + SMALL[position + 1 :]
    with pytest.raises(ValueError, match=r"S00[23]"):
        TaggerModel.from_bytes(bad)


def mutate(payload, data):
    """Change one entry somewhere in the payload, or its type or its length."""
    where = payload
    while True:
        name = data.draw(st.sampled_from(sorted(where)))
        if not isinstance(where[name], dict):
            break
        where = where[name]
    value = where[name]
    if isinstance(value, numpy.ndarray) and value.size and data.draw(st.integers(0, 3)):
        value = value.copy()
        index = data.draw(st.integers(0, value.size - 1))
        if value.dtype.kind == "f":
            value.flat[index] = data.draw(st.sampled_from([math.nan, math.inf, -math.inf, 1e30]))
        else:
            info = numpy.iinfo(value.dtype)
            value.flat[index] = data.draw(st.integers(int(info.min), int(info.max)))
    else:
        value = data.draw(
            st.sampled_from(
                [None, [], 3, "x", b"x", numpy.zeros(0), numpy.zeros(5, "int32"), [1, 2]]
            )
        )
    where[name] = value


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_contents_never_crash(data):
    """Contents that passed the checksum are checked again: a clear error, or a model that runs."""
    payload = unpack("tagger", 1, SMALL)
    mutate(payload, data)
    try:
        damaged = TaggerModel.from_bytes(pack("tagger", 1, payload))
    except ValueError as error:
        assert "[S00" in str(error)
    else:
        tagging = damaged.tag([s.words for s in DEV[:5]])
        assert numpy.isfinite(tagging.probs).all()


def test_payload_of_another_kind_is_a_clear_error():
    for payload in (None, [], {}, {"words": 1}, srsly.msgpack_dumps({})):
        with pytest.raises(ValueError, match="S005"):
            TaggerModel.from_bytes(pack("tagger", 1, payload))


# ---------------------------------------------------------------- a real treebank


def read_conllu(path, limit):
    sentences, rows = [], []
    with path.open(encoding="utf8") as file:
        for line in file:
            fields = line.rstrip("\n").split("\t")
            if len(fields) == 10 and fields[0].isdigit():
                feats = "" if fields[5] == "_" else fields[5]
                rows.append((fields[1], fields[4], fields[3], feats))
            elif not line.strip() and rows:
                sentences.append(TaggedSentence(*map(list, zip(*rows, strict=True))))
                rows = []
                if len(sentences) == limit:
                    break
    return sentences


@pytest.mark.parametrize(
    ("name", "tags_at_least", "morphs_at_least"),
    [("UD_English-EWT/en_ewt", 0.90, 0.91), ("UD_Turkish-IMST/tr_imst", 0.86, 0.74)],
)
def test_part_of_a_treebank(shared, name, tags_at_least, morphs_at_least):
    train, dev = (shared / "treebanks" / f"{name}-ud-{part}.conllu" for part in ("train", "dev"))
    tags, morphs = accuracy(TaggerRecipe().fit(read_conllu(train, 2000)), read_conllu(dev, 1000))
    assert tags > tags_at_least
    assert morphs > morphs_at_least


def test_treebanks_may_have_tags_of_other_kinds():
    """Fine tags alone in one, both kinds in the other: each is learnt from, and silver sentences never keep
    gold ones from it."""
    words = ["the", "cat", "sat"]
    plain = TaggedSentence(words, ["DT", "NN", "VBD"], [""] * 3, [None] * 3, source="mine")
    both = TaggedSentence(
        words, ["D", "N", "V"], ["DET", "NOUN", "VERB"], [""] * 3, source="other", corpus=1
    )
    for gold, silver in ((plain, both), (both, plain)):
        sentences = [gold._replace(corpus=0)] * 5 + [silver._replace(corpus=1)] * 5
        model = TaggerRecipe(2).fit(sentences)
        for own in (gold, silver):
            classes = model.like(own.source).tag([words]).classes
            found = [model.tag_classes[i] for i in classes]
            assert found == list(zip(own.tags, own.pos, strict=True))
        # without names, sentences that are like none of the gold ones teach nothing
        corpus = Corpus.encode([own._replace(source="") for own in sentences])
        assert (corpus.tag_gold[:15] >= 0).all() and (corpus.tag_gold[15:] == -1).all()
