"""Training of the log-linear parser as a whole, and what comes out: files, odd input, long sentences."""

from dataclasses import replace

import numpy as np
import pytest

from brute_force import is_single_root_projective
from loglinear_data import (
    LABELS,
    SMALL,
    TAGS,
    WORDS,
    all_arcs,
    hide,
    long_sentence,
    random_tree,
    toy_corpus,
)
from memory import peak_memory
from spacy_spectral.base.files import pack, unpack
from spacy_spectral.models.loglinear.encode import COLUMNS, Encoder
from spacy_spectral.models.loglinear.estimate import Annotated, Settings, fit
from spacy_spectral.models.loglinear.model import LogLinearModel
from spacy_spectral.trees import _eisner as eisner_trees
from spacy_spectral.trees.interface import Temperature


def test_learns_a_toy_language(toy_model):
    test = toy_corpus(1, 100)
    parses = toy_model.parse(test.sentences)
    assert (parses.heads == test.heads).mean() > 0.98
    assert (parses.labels == test.labels).mean() > 0.98
    head_probs, label_probs = parses.probs()
    assert len(head_probs) == len(label_probs) == len(test.heads)
    assert 0.9 < head_probs.mean() <= 1.0001
    assert parses.label_probs.sum(axis=1) == pytest.approx(1, abs=1e-4)
    assert (parses.label_probs.max(axis=1) == label_probs).all()
    totals = np.add.reduceat(parses.arcs.probs, parses.arcs.starts[:-1])
    assert totals == pytest.approx(1, abs=1e-4)
    assert np.isfinite(parses.log_probs).all() and (parses.log_probs <= 1e-6).all()
    matrix = parses.marginals(3)
    assert matrix[:, 1:].sum(axis=0) == pytest.approx(1, abs=1e-4)
    assert matrix[0].sum() == pytest.approx(1, abs=1e-4)


def test_training_is_deterministic_whatever_the_threads(toy_model):
    again = fit(toy_corpus(0, 200), tags=TAGS, labels=LABELS, settings=SMALL)
    threads = Settings(**{**vars(SMALL), "n_threads": 2})
    threaded = fit(toy_corpus(0, 200), tags=TAGS, labels=LABELS, settings=threads)
    assert again.to_bytes() == toy_model.to_bytes() == threaded.to_bytes()


def test_parsing_may_prune_more_than_training(toy_model):
    settings = replace(SMALL, parse_threshold=0.5)
    sharper = fit(toy_corpus(0, 200), tags=TAGS, labels=LABELS, settings=settings)
    assert replace(sharper, pruner=toy_model.pruner).to_bytes() == toy_model.to_bytes()
    data = toy_corpus(2, 30).sentences
    one, other = (set(kept_arcs(model, data)) for model in (sharper, toy_model))
    assert one < other


def kept_arcs(model, data):
    arcs = model.prepare(data)[1]
    modifiers = np.repeat(np.arange(len(data.tags)), np.diff(arcs.starts))
    return zip(modifiers.tolist(), arcs.heads.tolist(), strict=True)


def test_result_does_not_depend_on_batching(toy_model):
    data = toy_corpus(2, 30).sentences
    together = toy_model.parse(data)
    alone = [toy_model.parse(data.part(i, i + 1)) for i in range(len(data))]
    assert together.heads.tolist() == [h for parse in alone for h in parse.heads]
    assert together.arcs.probs.tolist() == [p for parse in alone for p in parse.arcs.probs]
    empty = toy_model.parse(Encoder(TAGS)([[], ["dog"], []], [[], ["N"], []]))
    assert empty.heads.tolist() == [0] and empty.labels.tolist() == [0]


def test_loss_is_never_negative_and_falls():
    losses = []
    fit(toy_corpus(0, 120), tags=TAGS, labels=LABELS, settings=SMALL, dev=toy_corpus(1, 20),
        progress=losses.append)  # fmt: skip
    assert [epoch.epoch for epoch in losses] == [1, 2]
    assert losses[0].loss > losses[1].loss > 0
    assert losses[1].las > 0.95


def test_trains_on_partial_annotation(toy_model):
    train = toy_corpus(0, 200)
    rng = np.random.default_rng(3)
    train.heads, train.labels = hide(rng, train.heads, train.labels)
    train.labels[train.heads < 0] = -1
    model = fit(train, tags=TAGS, labels=LABELS, settings=SMALL)
    test = toy_corpus(1, 100)
    assert (model.parse(test.sentences).heads == test.heads).mean() > 0.9


def test_fixed_heads(toy_model):
    test = toy_corpus(4, 40)
    rng = np.random.default_rng(4)
    wanted = np.full(len(test.heads), -1, dtype=np.int32)
    for first, last in zip(test.sentences.starts[:-1], test.sentences.starts[1:], strict=True):
        if last - first <= 6:
            m = int(rng.integers(0, last - first))
            wanted[first + m] = random_tree(rng, int(last - first))[m]
    fixed = wanted >= 0
    assert fixed.sum() > 10
    parses = toy_model.parse(test.sentences, constraints=wanted)
    assert (parses.heads[fixed] == wanted[fixed]).all()
    assert parses.probs()[0][fixed] == pytest.approx(1, abs=1e-5)
    for first, last in zip(test.sentences.starts[:-1], test.sentences.starts[1:], strict=True):
        assert is_single_root_projective(parses.heads[first:last].tolist())
    one = Encoder(TAGS)([["the", "dog", "ran"]], [["D", "N", "V"]])
    with pytest.raises(ValueError, match="S403"):
        toy_model.parse(one, constraints=np.asarray([0, 0, -1]))
    with pytest.raises(ValueError, match="S405"):
        toy_model.parse(one, constraints=np.asarray([7, -1, -1]))


def test_fixed_heads_do_not_change_other_sentences(toy_model):
    test = toy_corpus(4, 40)
    starts = test.sentences.starts
    wanted = np.full(len(test.heads), -1, dtype=np.int32)
    wanted[0] = test.heads[0]
    alone = toy_model.parse(test.sentences)
    together = toy_model.parse(test.sentences, constraints=wanted)
    for name in ("heads", "labels", "label_probs"):
        assert (getattr(together, name) == getattr(alone, name))[starts[1] :].all()
    assert together.log_probs[1:].tolist() == alone.log_probs[1:].tolist()
    for sentence in range(1, len(starts) - 1):
        assert (together.marginals(sentence) == alone.marginals(sentence)).all()


def test_fixed_heads_of_a_long_sentence(toy_model):
    rng = np.random.default_rng(5)
    n = 400
    tags = [TAGS[i] for i in rng.integers(0, 4, n)]
    one = Encoder(TAGS)([[WORDS[tag][0] for tag in tags]], [tags])
    wanted = np.full(n, -1, dtype=np.int32)
    wanted[[0, 100, 300]] = 390, 200, 210
    parses = toy_model.parse(one, constraints=wanted)
    assert parses.heads[[0, 100, 300]].tolist() == [390, 200, 210]
    assert eisner_trees.is_projective_tree(parses.heads)
    assert len(parses.arcs.heads) < n * (toy_model.pruner.most + 3)
    assert parses.probs()[0][wanted >= 0] == pytest.approx(1, abs=1e-5)
    wanted[[10, 20]] = 0
    with pytest.raises(ValueError, match="S403"):
        toy_model.parse(one, constraints=wanted)


@pytest.mark.parametrize(
    "setting, value",
    [("epochs", 0), ("batch_size", 0), ("prune_most", 0), ("prune_most", 1000), ("n_threads", 0)],
)
def test_bad_settings_are_named(setting, value):
    with pytest.raises(ValueError, match=rf"\[S408\].*{setting}.*{value}"):
        Settings(**{setting: value})


@pytest.mark.parametrize("same", [False, True])
def test_very_long_sentences(toy_model, same):
    """Their totals are beyond the doubles, so charts must be rescaled, by whatever they grow."""
    sentence = long_sentence(1000, same)
    parses = toy_model.parse(sentence)
    assert eisner_trees.is_projective_tree(parses.heads)
    assert np.isfinite(parses.log_probs).all()
    assert parses.marginals(0)[:, 1:].sum(axis=0) == pytest.approx(1, abs=1e-4)
    heads, _, logs = parses.forests.k_best(0, 4)
    assert len({tree.tobytes() for tree in heads}) == 4
    assert (np.diff(logs) <= 0).all() and logs[0] >= parses.log_probs[0]
    # every token makes the same number of moves, so this adds the same to all trees
    for shift in (-0.75, -0.25, 0.25, 0.75):
        shifted = replace(toy_model, moves=toy_model.moves + np.float32(shift), _engine=None)
        again = shifted.parse(sentence)
        assert again.log_probs == pytest.approx(parses.log_probs, abs=1e-2)
        assert again.arcs.probs == pytest.approx(parses.arcs.probs, abs=1e-4)


def test_round_trip_and_damage(toy_model):
    data = toy_model.to_bytes()
    again = LogLinearModel.from_bytes(data)
    assert again.to_bytes() == data
    test = toy_corpus(1, 20).sentences
    assert again.parse(test).arcs.probs.tolist() == toy_model.parse(test).arcs.probs.tolist()
    with pytest.raises(ValueError, match="S002"):
        LogLinearModel.from_bytes(data[:-5])
    for name, value in [
        ("label_classes", toy_model.label_classes + 50),
        ("allowed", toy_model.allowed[:, :1]),
        ("moves", toy_model.moves[:2]),
    ]:
        broken = LogLinearModel(**{**vars(toy_model), name: np.ascontiguousarray(value)})
        with pytest.raises(ValueError, match=f"S005.*'{name}'"):
            LogLinearModel.from_bytes(broken.to_bytes())
    # beyond what kernels have room for, or not in the order in which they read
    for part, name, damage in [
        ("table", "n_slots", lambda n: n - 1),
        ("table", "n_slots", lambda n: 1 << 40),
        ("table", "used", lambda used: used + np.uint32(1 << 30)),
        ("table", "used", lambda used: np.full_like(used, used[0])),
        ("table", "sizes", lambda sizes: sizes + np.uint16(1)),
        ("table", "outputs", lambda outputs: np.full_like(outputs, 60000)),
        ("table", "outputs", lambda outputs: outputs[::-1].copy()),
        ("table", "weights", lambda weights: weights[:-3]),
        ("table", "weights", lambda weights: np.full_like(weights, np.inf)),
        ("templates", "pairs", lambda pairs: pairs + np.array([0, 0, 2], dtype=np.int32)),
        ("pruner", "size", lambda size: 1 << 33),
        ("pruner", "size", lambda size: size - 1),
        ("pruner", "threshold", lambda threshold: None),
        ("pruner", "most", lambda most: 1 << 20),
    ]:
        payload = unpack("loglinear", 2, data)
        payload[part][name] = damage(payload[part][name])
        with pytest.raises(ValueError, match=f"S005.*'{part}"):
            LogLinearModel.from_bytes(pack("loglinear", 2, payload))
    for pairs in (np.tile([0, 0, 0], (65, 1)), np.array([[0, 0, 4]])):
        payload = unpack("loglinear", 2, data)
        payload["pruner"]["templates"]["pairs"] = pairs.astype(np.int32)
        with pytest.raises(ValueError, match=r"S005.*'pruner.templates.pairs'"):
            LogLinearModel.from_bytes(pack("loglinear", 2, payload))


@pytest.mark.parametrize(
    "part, left_out", [("siblings", "siblings"), ("windows", "unaries"), ("second_tag", None)]
)
def test_a_part_left_out(part, left_out):
    train, test = toy_corpus(0, 120), toy_corpus(1, 30)
    second = COLUMNS.index("second")
    for data in (train, test):
        data.sentences.columns[:, second] = data.sentences.columns[:, COLUMNS.index("tag")]
    settings = Settings(**{**vars(SMALL), part: False})
    model = fit(train, tags=TAGS, labels=LABELS, settings=settings)
    if left_out is not None:
        assert len(getattr(model.templates, left_out)) == 0
    assert (model.templates.composites[..., 1] == second).any() == (part != "second_tag")
    parses = model.parse(test.sentences)
    assert (parses.heads == test.heads).mean() > 0.95
    data = model.to_bytes()
    again = LogLinearModel.from_bytes(data)
    assert again.to_bytes() == data
    assert (again.parse(test.sentences).label_probs == parses.label_probs).all()


def test_other_arcs_than_those_of_the_pruner(toy_model):
    test = toy_corpus(1, 30)
    prepared, own = toy_model.prepare(test.sentences)
    parses = toy_model.parse(test.sentences)
    assert toy_model.infer(prepared, own).arcs.probs.tolist() == parses.arcs.probs.tolist()
    arcs = all_arcs(test.sentences.starts)
    assert (toy_model.infer(prepared, arcs).heads == test.heads).mean() > 0.98
    for bad in (arcs.heads + 1, arcs.heads[::-1], arcs.heads[:-1]):
        with pytest.raises(ValueError, match="S407"):
            toy_model.infer(prepared, arcs._replace(heads=np.ascontiguousarray(bad)))
    foreign = Encoder([*TAGS, "new"])([["x"]], [["new"]])
    with pytest.raises(ValueError, match="S406"):
        toy_model.parse(foreign)


def test_a_wider_choice_of_arcs_where_others_have_their_say(toy_model):
    """Arcs that the pruner finds unlikely, and would leave out, can be those of the product's tree."""
    pruner = replace(toy_model.pruner, threshold=0.3, most=5)
    model = replace(toy_model, pruner=pruner, _engine=None)
    sentences = toy_corpus(1, 30).sentences
    (_, few), (prepared, many) = model.prepare(sentences), model.prepare(sentences, wider=True)

    def arcs(found):
        modifiers = np.repeat(np.arange(len(sentences.tags)), np.diff(found.starts))
        return set(zip(modifiers.tolist(), found.heads.tolist(), strict=True))

    assert arcs(few) < arcs(many)
    added = sorted(arcs(many) - arcs(few))
    extra = np.zeros((len(many.heads), len(LABELS)), dtype="float32")
    m, h = added[0]
    place = int(many.starts[m]) + many.heads[many.starts[m] : many.starts[m + 1]].tolist().index(h)
    extra[place] = 100.0
    assert model.infer(prepared, many, extra=extra).heads[m] == h


def test_what_others_find_hopeless_is_not_looked_at(toy_model):
    """But for the arcs that make sure of a tree, and where heads are fixed."""
    sentences = toy_corpus(1, 30).sentences
    prepared, arcs = toy_model.prepare(sentences)
    modifiers = np.repeat(np.arange(len(sentences.tags)), np.diff(arcs.starts))
    sentence = np.repeat(np.arange(len(sentences)), np.diff(sentences.starts))
    positions = modifiers - sentences.starts[sentence[modifiers]] + 1
    own = toy_model.infer(prepared, arcs)
    sure = (own.arcs.probs > 0.99) & (arcs.heads != positions - 1) & (arcs.heads > 0)
    bad = np.zeros(len(sure), dtype=bool)  # what the model likes best, one arc of a sentence
    bad[np.flatnonzero(sure)[np.unique(sentence[modifiers[sure]], return_index=True)[1]]] = True
    assert 10 < bad.sum() < len(bad)
    extra = np.zeros((len(arcs.heads), len(LABELS)), dtype="float32")
    extra[bad] = -14.0
    assert (toy_model.infer(prepared, arcs, extra=extra).arcs.probs[bad] > 0).any()
    extra[bad] = -16.0
    found = toy_model.infer(prepared, arcs, extra=extra)
    assert (found.arcs.probs[bad] == 0).all() and np.isfinite(found.log_probs).all()
    # what others find likely stays, however little this model counts
    extra[bad] = -2.0
    little = toy_model.with_temperature(Temperature(100.0, 100.0))
    assert (little.infer(prepared, arcs, extra=extra).arcs.probs[bad] > 0).all()
    # one of them is fixed
    place = int(np.flatnonzero(bad)[0])
    fixed = np.full(len(sentences.tags), -1, dtype="int32")
    fixed[modifiers[place]] = arcs.heads[place]
    prepared, allowed = toy_model.prepare(sentences, fixed)
    worse = np.zeros((len(allowed.heads), len(LABELS)), dtype="float32")
    worse[allowed.heads == arcs.heads[place]] = -16.0
    chosen = toy_model.infer(prepared, allowed, constraints=fixed, extra=worse)
    assert chosen.heads[modifiers[place]] == arcs.heads[place]


def test_sentences_that_teach_nothing_are_counted():
    train = toy_corpus(0, 40)
    starts = train.sentences.starts
    long = np.flatnonzero(np.diff(starts) >= 4)[:2]
    assert len(long) == 2
    for first in starts[long]:
        train.heads[first : first + 4] = 3, 4, -1, -1  # these two cross
    with pytest.warns(UserWarning, match=r"\[W401\].* 2 of 40 ") as caught:
        fit(train, tags=TAGS, labels=LABELS, settings=SMALL)
    assert len(caught) == 1


def test_memory_of_training_does_not_grow_with_the_batch():
    """400 sentences of 200 tokens at once: charts and gradients of one take 3 MB."""
    peak = peak_memory("""
        import numpy as np
        from spacy_spectral.models.loglinear.encode import Encoder
        from spacy_spectral.models.loglinear.estimate import Annotated, Settings, fit
        from spacy_spectral.models.loglinear._learn import Learner
        n, tags = 200, ["N", "V"]
        data = Encoder(tags)([["dog", "ran"] * (n // 2)], [tags * (n // 2)])
        heads = np.arange(n, dtype=np.int32)
        model = fit(
            Annotated(data, heads, np.zeros(n, dtype=np.int32)), tags=tags, labels=["x"],
            settings=Settings(epochs=1, n_blocks=1, min_blocks=1),
        )
        arcs = model.pruner(data, heads)
        Learner(model.engine(), 1.0).gradient(
            data.columns, data.starts, data.tags, arcs.starts, arcs.heads, heads,
            np.zeros(n, dtype=np.int32), np.zeros(400, dtype=np.int32),
        )
    """)
    assert peak < 400


def test_useless_training_data_is_named():
    train = toy_corpus(0, 5)
    nothing = Annotated(train.sentences, np.full_like(train.heads, -1), train.labels)
    with pytest.raises(ValueError, match="S401"):
        fit(nothing, tags=TAGS, labels=LABELS)
    train.heads[:] = 0
    with pytest.raises(ValueError, match="S402"):
        fit(train, tags=TAGS, labels=LABELS)
