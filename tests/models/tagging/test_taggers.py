"""The neural tagger and products of taggers: gradients, enumeration, files; nothing depends on chance."""

from itertools import pairwise

import numpy
import pytest
from thinc.api import set_dropout_rate

from gradients import check_gradients
from spacy_spectral.base.errors import SpectralError
from spacy_spectral.base.files import pack, unpack
from spacy_spectral.models.biaffine.estimate import parameters, seeded
from spacy_spectral.models.eigenwords.vectors import WordVectors
from spacy_spectral.models.linear.tagger import TaggerRecipe
from spacy_spectral.models.linear.tagger_training import Corpus, TaggedSentence
from spacy_spectral.models.tagging.interface import log_softmax
from spacy_spectral.models.tagging.neural import (
    Lexicon,
    NeuralTagger,
    NeuralTaggerRecipe,
    Outputs,
    TagNetwork,
)
from spacy_spectral.models.tagging.product import (
    ProductTagger,
    ProductTaggerRecipe,
    build_product_tagger,
    fit_weights,
)
from tagger_data import make_sentences

TRAIN, DEV = make_sentences(300, seed=1), make_sentences(80, seed=2)
SMALL = {"embed_size": 8, "mix_size": 8, "scan_size": 8, "scan_depth": 1, "batch_size": 100}
NEURAL = NeuralTaggerRecipe(**SMALL, epochs=8, rate=0.02, dropout=0.1)


class Vectors(WordVectors):
    """Something known of two words."""

    def __init__(self):
        super().__init__(["the", "run"], numpy.array([[1, 0, 0], [0, 0.6, 0.8]], dtype="float16"))


@pytest.fixture(scope="module")
def neural():
    return NEURAL.fit(TRAIN, vectors=Vectors())


@pytest.fixture(scope="module")
def product():
    return ProductTaggerRecipe({"linear": TaggerRecipe(epochs=2), "neural": NEURAL}).fit(
        TRAIN, vectors=Vectors(), dev=DEV
    )


def words_of(sentences):
    return [sentence.words for sentence in sentences]


def same(one, other):
    return all(numpy.array_equal(a, b) for a, b in zip(one, other, strict=True))


def accuracy(tagger, sentences):
    tagging = tagger.tag(words_of(sentences))
    gold = [pair for s in sentences for pair in zip(s.tags, s.pos, strict=True)]
    morphs = [morph for s in sentences for morph in s.morphs]
    right = [tagger.tag_classes[c] == g for c, g in zip(tagging.classes, gold, strict=True)]
    right_morph = [tagger.morphs[c] == g for c, g in zip(tagging.morphs, morphs, strict=True)]
    return numpy.mean(right), numpy.mean(right_morph)


@pytest.mark.parametrize("is_mixed", [False, True])
def test_gradients_of_every_parameter(is_mixed):
    # of some tokens nothing is known, of others the tag or the analysis
    first, second = TRAIN[0], TRAIN[1]
    sentences = [
        first._replace(tags=["", *first.tags[1:]], pos=["", *first.pos[1:]]),
        second._replace(morphs=[None, *second.morphs[1:]]),
        *TRAIN[2:6],
    ]
    if is_mixed:
        sentences[::2] = [own._replace(source="other", weight=0.3) for own in sentences[::2]]
    corpus = Corpus.encode(sentences)
    lexicon = Lexicon.fit(corpus, None, Vectors())
    outputs = Outputs(len(corpus.tag_classes), corpus.morphs)
    with seeded(1):
        network = TagNetwork.make(NeuralTaggerRecipe(**SMALL), lexicon, outputs)
        for value in parameters(network.layers).values():  # nothing is zero: nothing is hidden
            value += numpy.random.normal(0, 0.3, value.shape).astype("float32")
    for layer in network.layers:
        set_dropout_rate(layer, 0.0)
    inputs = lexicon(corpus.types)
    weights = corpus.per_token(corpus.weights) if is_mixed else None
    wanted = outputs.wanted(corpus.tag_gold, corpus.morph_gold)
    assert (wanted < 0).any(axis=0).all()

    def loss():
        rows = corpus.words.astype("int64")
        return network.step(inputs, rows, corpus.starts, wanted, weights)[0]

    check_gradients(network.layers, loss, unmoved={"summed_embeddings": lexicon.firsts})


@pytest.mark.parametrize("wanted, used", [(1000, None), (8, 8)])
def test_small_treebanks_make_small_batches(monkeypatch, wanted, used):
    sizes = []
    make_step = TagNetwork.step

    def step(network, words, rows, *rest):
        sizes.append(len(rows))
        return make_step(network, words, rows, *rest)

    monkeypatch.setattr(TagNetwork, "step", step)
    NeuralTaggerRecipe(**SMALL | {"batch_size": wanted}, epochs=1).fit(TRAIN)
    n_tokens = sum(len(sentence.words) for sentence in TRAIN)
    assert sum(sizes) == n_tokens
    # sentences are not cut: batches are about as large
    assert numpy.mean(sizes) == pytest.approx(used or n_tokens / 64, rel=0.3)


def test_it_learns_what_the_context_tells(neural):
    tags, morphs = accuracy(neural, DEV)
    assert tags > 0.95
    assert morphs > 0.9


def test_analyses_are_the_products_of_their_values(neural):
    words = neural.words(DEV[0].words)
    opinion = neural.opinion(words, numpy.array([0, len(DEV[0].words)], dtype="int32"))
    edges = neural.network.outputs.edges
    logs = neural.network.outputs.log_probs(opinion.scores)
    for first, end in pairwise(edges):
        assert numpy.exp(logs[:, first:end]).sum(axis=1) == pytest.approx(1, abs=1e-5)
    attributes = sorted(
        {part.split("=")[0] for m in neural.morphs for part in m.split("|") if part}
    )
    assert len(edges) == len(attributes) + 2
    scores, wanted = opinion.analyses(numpy.zeros(len(words.rows), dtype="int32")), []
    for morph in neural.morphs:
        own = dict(part.split("=") for part in morph.split("|") if part)
        total = numpy.zeros(len(words.rows))
        for first, name in zip(edges[1:], attributes, strict=False):
            known = [dict(p.split("=") for p in m.split("|") if p) for m in neural.morphs]
            values = sorted({"", *(k.get(name, "") for k in known)})
            total += logs[:, first + values.index(own.get(name, ""))]
        wanted.append(total)
    # but for a constant of each token
    difference = scores - numpy.stack(wanted, axis=1)
    assert difference == pytest.approx(numpy.repeat(difference[:, :1], len(wanted), 1), abs=1e-4)


def test_product_by_enumeration(product):
    """Classes, tags with their probabilities, and analyses, from what each expert says, one by one."""
    words, top = DEV[0].words, 4
    starts = numpy.array([0, len(words)], dtype="int32")
    known, tagging = product.words(words), product.tag([words], top=top)
    opinions = product.opinion(known, starts).opinions
    by_class = [opinion.classes() for opinion in opinions]
    by_morph = [opinion.analyses(tagging.classes) for opinion in opinions]
    labels = [fine or coarse for fine, coarse in product.tag_classes]
    for i in range(len(words)):
        weights = {
            c: numpy.exp(sum(w * own[i, c] for w, own in zip(product.class_weights, by_class)))  # noqa: B905
            for c in range(len(labels))
        }
        assert tagging.classes[i] == max(weights, key=weights.get)
        total = sum(weights.values())
        probs = {
            tag: sum(w for c, w in weights.items() if labels[c] == tag) / total
            for tag in product.tags
        }
        best = sorted(probs, key=probs.get, reverse=True)[:top]
        assert [product.tags[t] for t in tagging.tags[i]] == best
        assert tagging.probs[i] == pytest.approx([probs[tag] for tag in best], abs=1e-5)
        gold = [pair for s in TRAIN for pair in zip(s.tags, s.pos, strict=True)]
        morphs = [m for s in TRAIN for m in s.morphs]
        pair = product.tag_classes[tagging.classes[i]]
        seen = {product.morphs.index(m) for p, m in zip(gold, morphs, strict=True) if p == pair}
        scores = {
            m: sum(w * own[i, m] for w, own in zip(product.morph_weights, by_morph))  # noqa: B905
            for m in seen
        }
        assert tagging.morphs[i] == max(scores, key=scores.get)


def test_linear_expert_says_what_it_says_alone(product):
    linear = product.experts["linear"]
    alone = linear.tag(words_of(DEV), top=1)
    one = ProductTagger({"linear": linear}, numpy.ones(1), numpy.ones(1), product.seen)
    tagging = one.tag(words_of(DEV), top=1)
    assert (
        tagging.tags == alone.tags
    ).mean() > 0.99  # a tag can be likelier than its likeliest class
    assert tagging.probs == pytest.approx(alone.probs, abs=1e-3)
    agree = tagging.classes == alone.classes
    assert (tagging.morphs == alone.morphs)[agree].mean() > 0.99


def test_weights_make_what_is_right_likeliest(product):
    """Against a grid of exponents."""
    classes, morphs = fit_weights(product, DEV)
    assert numpy.array_equal(classes, product.class_weights)
    assert numpy.array_equal(morphs, product.morph_weights)
    words = product.words([word for s in DEV for word in s.words])
    starts = numpy.cumsum([0, *(len(s.words) for s in DEV)], dtype="int32")
    logs = [own.classes().astype("float64") for own in product.opinion(words, starts).opinions]
    pairs = [pair for s in DEV for pair in zip(s.tags, s.pos, strict=True)]
    gold = [product.tag_classes.index(pair) for pair in pairs]

    def loss(weights):
        total = sum(w * own for w, own in zip(weights, logs, strict=True))
        prior = 10.0 * ((numpy.array(weights) - 0.5) ** 2).sum()
        return prior - log_softmax(total)[numpy.arange(len(gold)), gold].sum()

    grid = [(a, b) for a in numpy.arange(0, 1.6, 0.1) for b in numpy.arange(0, 1.6, 0.1)]
    assert loss(classes) <= min(map(loss, grid)) + 0.05


def test_without_a_development_set_copies_are_held_out():
    recipe = ProductTaggerRecipe({"linear": TaggerRecipe(epochs=1), "neural": NEURAL})
    product = recipe.fit(TRAIN[:60])
    assert not numpy.array_equal(product.class_weights, [0.5, 0.5])
    assert same(
        product.experts["linear"].tag(words_of(DEV)),
        TaggerRecipe(epochs=1).fit(TRAIN[:60]).tag(words_of(DEV)),
    )


def test_given_tags_are_kept(product):
    sentences = words_of(DEV)
    words = product.words([word for s in sentences for word in s])
    starts = numpy.cumsum([0, *map(len, sentences)], dtype="int32")
    free = product.tag_words(words, starts)
    given = numpy.full(len(free.classes), -1, dtype="int32")
    assert same(product.tag_words(words, starts, given=given), free)
    given[::3] = numpy.arange(len(given[::3])) % len(product.tags)
    given[1] = -2
    tagging = product.tag_words(words, starts, given=given)
    for i, (tag, chosen) in enumerate(zip(given, tagging.classes, strict=True)):
        if tag >= 0:
            assert product.tag_classes[chosen][0] == product.tags[tag]
            assert tagging.morphs[i] < 0 or product.seen[chosen, tagging.morphs[i]]
        else:
            assert chosen == free.classes[i]


@pytest.mark.parametrize("kind", ["linear", "product"])
def test_tags_fit_parts_of_speech(product, kind):
    tagger = product if kind == "product" else product.experts[kind]
    sentences = words_of(DEV)
    words = tagger.words([word for s in sentences for word in s])
    starts = numpy.cumsum([0, *map(len, sentences)], dtype="int32")
    free = tagger.tag_words(words, starts)
    parts = numpy.full(len(free.classes), -1, dtype="int32")
    assert same(tagger.tag_words(words, starts, parts=parts), free)
    parts[::2] = numpy.arange(len(parts[::2])) % len(tagger.parts)
    found = tagger.tag_words(words, starts, parts=parts)
    chosen = [tagger.tag_classes[i][1] for i in found.classes]
    assert all(
        part < 0 or tagger.parts[part] == own for part, own in zip(parts, chosen, strict=True)
    )
    # what is asked for anyway changes nothing
    parts[:] = [tagger.parts.index(tagger.tag_classes[i][1]) for i in free.classes]
    same_parts = tagger.tag_words(words, starts, parts=parts)
    assert [tagger.tag_classes[i][1] for i in same_parts.classes] == [
        tagger.tag_classes[i][1] for i in free.classes
    ]


def test_same_data_same_bytes(product):
    recipe = ProductTaggerRecipe({"linear": TaggerRecipe(epochs=2), "neural": NEURAL})
    assert recipe.fit(TRAIN, vectors=Vectors(), dev=DEV).to_bytes() == product.to_bytes()


@pytest.mark.parametrize("kind", ["neural", "product"])
def test_nothing_depends_on_the_batch(kind, request):
    tagger = request.getfixturevalue(kind)
    sentences = [*words_of(DEV), ["unseen", "Zorps", "!"], ["one"] * 5000, ["the"]]
    together = tagger.tag(sentences)
    alone = [tagger.tag([sentence]) for sentence in sentences]
    for i, column in enumerate(together):
        assert numpy.array_equal(column, numpy.concatenate([own[i] for own in alone]))
    assert [len(column) for column in tagger.tag([])] == [0, 0, 0, 0]


@pytest.mark.parametrize("kind", ["neural", "product"])
def test_bytes_there_and_back(kind, request):
    tagger = request.getfixturevalue(kind)
    again = type(tagger).from_bytes(tagger.to_bytes())
    assert again.to_bytes() == tagger.to_bytes()
    assert same(again.tag(words_of(DEV)), tagger.tag(words_of(DEV)))


def test_without_morphology_or_fine_tags():
    bare = [
        TaggedSentence(s.words, [""] * len(s.words), s.pos, [None] * len(s.words))
        for s in TRAIN[:30]
    ]
    product = ProductTaggerRecipe({"linear": TaggerRecipe(1), "neural": NEURAL}).fit(bare)
    tagging = product.tag(words_of(DEV))
    assert (tagging.morphs == -1).all()
    assert product.tags == sorted({pos for s in bare for pos in s.pos})


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("weights", lambda value: value[:-1]),
        ("weights", lambda value: value + numpy.float32(numpy.inf)),
        ("seen", lambda value: value[:, :-1]),
        ("tag_classes", lambda value: value[:-1]),
        ("morphs", lambda value: [*value[:-1], "Case"]),
        ("morphs", lambda value: [*value[:-1], value[0]]),
        ("settings", lambda value: value | {"scan_size": 5}),
        ("settings", lambda value: value | {"mix_size": 1 << 14}),
    ],
)
def test_what_does_not_fit_is_refused(neural, field, change):
    payload = unpack("neural tagger", 1, neural.to_bytes())
    payload[field] = change(payload[field])
    with pytest.raises(SpectralError, match="S005"):
        NeuralTagger.from_bytes(pack("neural tagger", 1, payload))


def test_products_of_unlike_taggers_are_refused(product):
    payload = unpack("product of taggers", 1, product.to_bytes())
    other = TaggerRecipe(1).fit(TRAIN[:3]).to_bytes()
    payload["experts"][0]["model"] = other
    with pytest.raises(SpectralError, match="S005"):
        ProductTagger.from_bytes(pack("product of taggers", 1, payload))


def test_settings_are_checked():
    with pytest.raises(SpectralError, match="S308"):
        NeuralTaggerRecipe(scan_size=3)
    with pytest.raises(SpectralError, match=r"S308.*seed = -1"):
        NeuralTaggerRecipe(seed=-1)
    with pytest.raises(SpectralError, match="S310"):
        build_product_tagger({})


# ---------------------------------------------------------------- several treebanks


def renamed(sentence):
    """A sentence as another treebank annotates it, which has another name for nouns."""
    tags = [
        "THING" if pos == "NOUN" else tag
        for tag, pos in zip(sentence.tags, sentence.pos, strict=True)
    ]
    return sentence._replace(tags=tags, source="other", weight=0.5, corpus=1)


OWN = [sentence._replace(source="own") for sentence in TRAIN]
BOTH = [*OWN, *map(renamed, TRAIN)]
SOURCE_RECIPES = {
    "linear": TaggerRecipe(epochs=2),
    "neural": NEURAL,
    "product": ProductTaggerRecipe({"linear": TaggerRecipe(epochs=2), "neural": NEURAL}),
}


@pytest.fixture(scope="module", params=SOURCE_RECIPES)
def of_both(request):
    return SOURCE_RECIPES[request.param].fit(BOTH)


def test_it_tags_like_the_treebank_that_is_named(of_both):
    assert of_both.sources == ["other", "own"]
    own, other = of_both.like("own"), of_both.like("other")
    as_other = [renamed(sentence) for sentence in DEV]
    assert accuracy(own, DEV)[0] > 0.93 and accuracy(other, as_other)[0] > 0.93
    assert own is of_both.like("own") and own.like("own") is own
    tags = {of_both.tags[t] for t in own.tag(words_of(DEV)).tags[:, 0]}
    assert "THING" not in tags and {"NN", "NNS"} & tags
    # what is not known to be of a treebank is tagged, too
    assert len(of_both.like(None).tag(words_of(DEV)).classes) == sum(map(len, words_of(DEV)))
    with pytest.raises(SpectralError, match=r"S644.*spectral_tagger.*'third'.*other, own"):
        of_both.like("third")


def test_given_tags_may_be_of_another_treebank(of_both):
    own, words = of_both.like("own"), DEV[0].words
    starts = numpy.array([0, len(words)], dtype="int32")
    given = numpy.full(len(words), of_both.tags.index("THING"), dtype="int32")
    tagging = own.tag_words(own.words(words), starts, 3, given)
    assert {of_both.tag_classes[c][0] for c in tagging.classes} == {"THING"}


def test_taggers_of_several_treebanks_are_saved(of_both):
    data = of_both.to_bytes()
    loaded = type(of_both).from_bytes(data)
    assert loaded.to_bytes() == data == of_both.like("own").to_bytes()
    assert same(loaded.like("own").tag(words_of(DEV)), of_both.like("own").tag(words_of(DEV)))


@pytest.mark.parametrize("change", [None, [], ["own"], ["own", "own"], ["a", "b", "c"], ["a", 1]])
@pytest.mark.parametrize("name", ["linear", "neural"])
def test_damaged_names_of_treebanks(name, change):
    recipe = TaggerRecipe(epochs=1) if name == "linear" else NeuralTaggerRecipe(**SMALL, epochs=1)
    model = recipe.fit(BOTH[:20] + BOTH[-20:])
    payload = model.to_payload() | {"sources": change}
    kind, version = type(model).FORMAT.kind, type(model).FORMAT.version
    with pytest.raises(SpectralError, match="S005"):
        type(model).from_bytes(pack(kind, version, payload))


def test_without_names_files_are_as_before(neural):
    for model in (neural, TaggerRecipe(epochs=1).fit(TRAIN)):
        payload = unpack(type(model).FORMAT.kind, type(model).FORMAT.version, model.to_bytes())
        assert "sources" not in payload


def test_every_corpus_has_a_part_in_every_block():
    corpus = Corpus.encode(BOTH)
    blocks = corpus.sentence_blocks(5)
    for number in (0, 1):
        own = blocks[corpus.corpora == number]
        assert (numpy.diff(own) >= 0).all() and set(own.tolist()) == set(range(5))
    assert numpy.array_equal(blocks[: len(TRAIN)], Corpus.encode(TRAIN).sentence_blocks(5))


def test_tags_are_those_of_the_treebank_when_parts_are_given(of_both):
    """Parts of speech that tags must fit."""
    own, words = of_both.like("own"), DEV[0].words
    starts = numpy.array([0, len(words)], dtype="int32")
    parts = numpy.full(len(words), of_both.parts.index("NOUN"), dtype="int32")
    tagging = own.tag_words(own.words(words), starts, 3, parts=parts)
    assert {of_both.tag_classes[c][1] for c in tagging.classes} == {"NOUN"}
