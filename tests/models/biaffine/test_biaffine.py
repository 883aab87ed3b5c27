"""The biaffine model: its loss and gradients against definitions, and its training in spaCy's loop."""

import pickle

import numpy
import pytest
import spacy
import srsly
from parse_checks import check_batches_and_processes, parse_of
from spacy.cli._util import app
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed, minibatch
from thinc.api import Adam
from typer.testing import CliRunner

from brute_force import marginals, projective_trees
from pipelines import hash_embed
from spacy_spectral.cli.evaluate import evaluate
from spacy_spectral.pipeline.parser import StepwiseLearner
from spacy_spectral.trees.interface import NEUTRAL
from spacy_spectral.trees.posterior import allowed_arcs, arc_posterior, tree_loss
from spacy_spectral.trees.pseudoprojective import Inventory
from spacy_spectral.trees.sentences import MISSING

EMBED = hash_embed(48)
LISTENER = {"@architectures": "spacy.Tok2VecListener.v1", "width": 48, "upstream": "*"}


def model_config(tok2vec=EMBED, **settings):
    sizes = {"scan_size": 48, "arc_size": 48, "label_size": 48, **settings}
    return {"@architectures": "spacy-spectral.Biaffine.v1", "tok2vec": tok2vec, **sizes}


def make(*, listener=False, model=None, **settings):
    nlp = spacy.blank("en")
    if listener:
        nlp.add_pipe("tok2vec", config={"model": EMBED})
    tok2vec = LISTENER if listener else EMBED
    config = {"model": model_config(tok2vec, **(model or {})), **settings}
    nlp.add_pipe("spectral_parser", config=config)
    return nlp


def train(nlp, examples, *, epochs, batch_size=32, seed=0, initialize=True, rate=0.005):
    """Loss of every epoch."""
    fix_random_seed(seed)
    if initialize:
        nlp.initialize(lambda: examples)
    optimizer = Adam(rate)
    history = []
    for _ in range(epochs):
        losses = {}
        for batch in minibatch(examples, batch_size):
            nlp.update(batch, sgd=optimizer, losses=losses, drop=0.1)
        history.append(losses["spectral_parser"])
    return history


@pytest.fixture(scope="module")
def trained(examples):
    """A tok2vec and a parser that listens to it. Tests must not change it."""
    nlp = make(listener=True, store=["head_prob", "dep_prob", "parse_logprob"])
    history = train(nlp, examples(nlp, annotations=["sents"]), epochs=7)
    assert history == sorted(history, reverse=True)
    return nlp


@pytest.fixture
def docs(trained, examples):
    return [eg.predicted for eg in examples(trained, "dev", annotations=["sents"])]


def random_scores(n, *, scale=2.0, seed=0):
    return numpy.random.default_rng(seed).normal(scale=scale, size=(n + 1, n + 1))


def tree_scores(scores, trees):
    return numpy.array([sum(scores[h, m] for m, h in enumerate(tree, start=1)) for tree in trees])


def log_sum(values):
    return values.max() + numpy.log(numpy.exp(values - values.max()).sum())


# -- the loss


@pytest.mark.parametrize("scale", [2.0, 60.0])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_loss_and_gradient_by_enumeration(n, scale):
    scores = random_scores(n, scale=scale, seed=n)
    trees = projective_trees(n)
    values = tree_scores(scores, trees)
    log_z = log_sum(values)
    assert numpy.isclose(arc_posterior(scores).log_partition, log_z)
    rng = numpy.random.default_rng(n)
    for missing in (0.0, 0.4, 1.0):
        heads = numpy.array(trees[rng.integers(len(trees))], dtype="int32")
        heads[rng.random(n) < missing] = MISSING
        agree = [
            all(h in (MISSING, other) for h, other in zip(heads, tree, strict=True))
            for tree in trees
        ]
        agree = numpy.array(agree)
        loss, gradient = tree_loss(scores, heads)
        assert numpy.isclose(loss, log_z - log_sum(values[agree]), atol=1e-9)
        assert loss >= -1e-9
        everything = marginals(numpy.exp(values - log_z), trees)
        agreeing = numpy.where(agree, values - log_sum(values[agree]), -numpy.inf)
        among = marginals(numpy.exp(agreeing), trees)
        numpy.testing.assert_allclose(gradient, everything - among, atol=1e-9)


@pytest.mark.parametrize("heads", [[2, 0, 2, 3, 3, 2], [MISSING, 0, MISSING, 3, 3, MISSING]])
def test_gradient_by_finite_differences(heads):
    heads = numpy.array(heads, dtype="int32")
    scores = random_scores(len(heads))
    _, gradient = tree_loss(scores, heads)
    for h, m in numpy.ndindex(*scores.shape):
        step = numpy.zeros_like(scores)
        step[h, m] = 1e-5
        slope = (tree_loss(scores + step, heads)[0] - tree_loss(scores - step, heads)[0]) / 2e-5
        assert numpy.isclose(slope, gradient[h, m], atol=1e-7)


def test_probabilities_given_very_unlikely_heads():
    n = 40
    scores = random_scores(n, scale=100.0)
    tree = arc_posterior(random_scores(n, seed=1)).heads
    fixed = numpy.where(numpy.arange(n) % 2, tree, MISSING).astype("int32")
    posterior = arc_posterior(scores, allowed=allowed_arcs(fixed))
    assert (posterior.heads == tree)[1::2].all()
    loss, gradient = tree_loss(scores, fixed)
    everything = arc_posterior(scores)
    assert everything.log_partition - posterior.log_partition == pytest.approx(loss)
    numpy.testing.assert_allclose(everything.marginals - posterior.marginals, gradient, atol=1e-9)


def test_impossible_heads_have_no_loss():
    for heads in ([0, 0, 1], [3, 4, 0, 3], [2, 1, MISSING]):
        heads = numpy.array(heads, dtype="int32")
        assert tree_loss(random_scores(len(heads)), heads) is None


def test_scores_out_of_bounds_still_give_a_tree():
    for bad in (numpy.nan, numpy.inf, -numpy.inf):
        posterior = arc_posterior(numpy.full((5, 5), bad))
        assert sorted(posterior.heads == 0) == [False, False, False, True]
        numpy.testing.assert_allclose(posterior.marginals[:, 1:].sum(axis=0), 1.0)


# -- the model


def test_gradients_of_every_parameter(examples):
    """Along the gradient of each parameter the loss must grow by its length."""
    nlp = make(listener=False)
    pipe = nlp.get_pipe("spectral_parser")
    some = examples(nlp, annotations=["sents"])[:8]
    train(nlp, some, epochs=3)  # away from the initial zeros
    steps = StepwiseLearner(pipe.model, name="parser")

    def loss():
        value = steps.step(some, pipe.read, drop=0.0)
        gradients = {}
        for node in pipe.model.walk():
            for name in node.param_names:
                if node.has_grad(name):
                    gradients[node.id, name] = node.get_grad(name).copy()
                    node.set_grad(name, numpy.zeros_like(gradients[node.id, name]))
        return value, gradients

    _, gradients = loss()
    checked = set()
    for node in pipe.model.walk():
        for name in node.param_names:
            gradient = gradients[node.id, name]
            length = float(numpy.sqrt((gradient.astype("float64") ** 2).sum()))
            assert length > 0, (node.name, name)
            original, step = node.get_param(name), 0.01 * gradient / length
            values = []
            for sign in (1, -1):
                node.set_param(name, original + sign * step)
                values.append(loss()[0])
            node.set_param(name, original)
            assert (values[0] - values[1]) / 0.02 == pytest.approx(length, rel=0.02), node.name
            checked.add(node.name)
    assert {"sentence_vectors", "gated_scan", "arc_scores", "label_scores"} <= checked


def test_depth_zero_and_bad_settings(examples):
    nlp = make(model={"scan_depth": 0})
    some = examples(nlp, annotations=["sents"])[:20]
    history = train(nlp, some, epochs=3)
    assert history[-1] < history[0]
    for settings in ({"scan_size": 7}, {"scan_depth": -1}, {"arc_size": 0}):
        with pytest.raises(ValueError, match=r"\[S440\]"):
            make(model=settings)
    with pytest.raises(ValueError, match=r"\[S441\] spacy-spectral\.Biaffine\.v1"):
        make(model={"max_length": 1})


def test_learns_to_parse(trained, examples):
    scores = trained.evaluate(examples(trained, "dev", annotations=["sents"]))
    assert scores["dep_uas"] > 0.8
    assert scores["dep_las"] > 0.65


def test_learns_a_few_sentences_by_heart(examples):
    nlp = make()
    some = examples(nlp, annotations=["sents"])[:6]
    train(nlp, some, epochs=40)
    assert nlp.evaluate(some)["dep_las"] == 1.0


def test_training_twice_gives_the_same_bytes(examples):
    models = []
    for _ in range(2):
        nlp = make(listener=True)
        train(nlp, examples(nlp, annotations=["sents"])[:40], epochs=1)
        models.append([pipe.model.to_bytes() for _, pipe in nlp.pipeline])
    assert models[0] == models[1]


def test_gradients_reach_the_tok2vec_unless_it_is_frozen(examples):
    nlp = make(listener=True)
    some = examples(nlp, annotations=["sents"])[:20]
    tok2vec = nlp.get_pipe("tok2vec").model
    train(nlp, some, epochs=1)
    before = tok2vec.to_bytes()
    train(nlp, some, epochs=1, initialize=False)
    after = tok2vec.to_bytes()
    assert before != after
    parser = nlp.get_pipe("spectral_parser").model.to_bytes()
    losses = {}
    nlp.update(some, sgd=Adam(0.01), losses=losses, exclude=["tok2vec"], annotates=["tok2vec"])
    assert losses["spectral_parser"] > 0
    assert tok2vec.to_bytes() == after
    assert nlp.get_pipe("spectral_parser").model.to_bytes() != parser


def test_a_listener_needs_a_tok2vec(trained, examples):
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_parser", config={"model": model_config(LISTENER)})
    with pytest.raises(ValueError, match=r"\[S443\].*tok2vec"):
        nlp.initialize(lambda: examples(nlp))
    doc = examples(trained, "dev")[0].predicted
    with trained.select_pipes(disable=["tok2vec"]), pytest.raises(ValueError, match=r"\[S443\]"):
        trained(doc)


def test_replaced_listeners_give_the_same_parses(trained, docs):
    expected = [parse_of(doc) for doc in trained.pipe([doc.copy() for doc in docs])]
    nlp = make(listener=True).from_bytes(trained.to_bytes())
    nlp.replace_listeners("tok2vec", "spectral_parser", ["model.tok2vec"])
    nlp.remove_pipe("tok2vec")
    assert [parse_of(doc) for doc in nlp.pipe(docs)] == expected


# -- the component


def test_batches_and_processes_give_the_same_parses(trained, docs):
    check_batches_and_processes(trained, docs)


def test_serialisation_keeps_parses(trained, docs, tmp_path):
    expected = [parse_of(trained(doc.copy())) for doc in docs[:10]]
    trained.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    copies = [
        loaded,
        make(listener=True).from_bytes(trained.to_bytes()),
        # spaCy's listeners can't be pickled between updates
        pickle.loads(pickle.dumps(loaded)),
    ]
    parser = trained.get_pipe("spectral_parser")
    for nlp in copies:
        assert [parse_of(nlp(doc.copy())) for doc in docs[:10]] == expected
        assert nlp.get_pipe("spectral_parser").label_data == parser.label_data
    (tmp_path / "spectral_parser" / "model").write_bytes(b"not a model")
    with pytest.raises(ValueError, match=r"\[S002\]"):
        spacy.load(tmp_path)


def test_probabilities(trained, docs):
    parser = trained.get_pipe("spectral_parser")
    for doc in trained.pipe(docs[:10]):
        for sent, rows, parses in zip(
            doc.sents, parser.marginals(doc), parser.nbest(doc, k=6), strict=True
        ):
            numpy.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-9)
            for token in sent:
                own = rows[token.i - sent.start, token.head.i - sent.start]
                assert token._.head_prob == pytest.approx(own, abs=1e-5)
                assert 0 < token._.dep_prob <= 1
            logs = [parse.logprob for parse in parses]
            assert logs == sorted(logs, reverse=True)
            assert len({tuple(parse.heads) for parse in parses}) == len(parses)
            best = next(p for p in parses if p.heads == [token.head.i for token in sent])
            assert best.logprob == pytest.approx(sent._.parse_logprob, abs=1e-4)
            assert best.deps == [token.dep_ for token in sent]
    heads, labels = parser.scored_parses(docs[:1])
    left_out = 1e-6 * len(docs[0])  # heads less likely than 1e-6 are not listed
    for i in range(len(docs[0])):
        total = sum(p for (m, _), p in heads[0].items() if m == i)
        assert total == pytest.approx(1.0, abs=left_out)
        assert sum(p for (m, _), p in labels[0].items() if m == i) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("n", [1, 2, 300])
def test_sentences_of_any_length(trained, n):
    doc = Doc(trained.vocab, words=(["dogs", "see", "cats", ","] * n)[:n])
    for token in doc:
        token.is_sent_start = token.i == 0
    trained(doc)
    assert sum(token.head == token for token in doc) == 1
    for token in doc:
        low, high = sorted((token.i, token.head.i))
        assert all(low <= doc[k].head.i <= high for k in range(low + 1, high))
        assert token.dep_


def test_empty_documents_and_whitespace(trained):
    empty = Doc(trained.vocab)
    spaces = Doc(trained.vocab, words=[" ", "\n"], sent_starts=[1, -1])
    mixed = Doc(trained.vocab, words=[" ", "dogs", "\n", "bark"], sent_starts=[1, -1, -1, -1])
    assert len(trained(empty)) == 0
    list(trained.pipe([empty.copy(), spaces, mixed]))
    assert sum(token.head == token for token in mixed if not token.is_space) == 1
    assert trained.get_pipe("spectral_parser").marginals(mixed)[0].shape == (2, 2)
    losses = trained.get_pipe("spectral_parser").update([Example(empty, empty)])
    assert losses == {"spectral_parser": 0.0}


def test_long_training_sentences_are_left_out_with_a_warning(examples, caplog):
    nlp = make(model={"max_length": 5})
    some = examples(nlp, annotations=["sents"])[:10]
    with caplog.at_level("WARNING", logger="spacy"):
        train(nlp, some, epochs=1)
    assert "W440" in caplog.text


def test_fixed_heads_are_kept(trained, docs):
    parser = trained.get_pipe("spectral_parser")
    parser.constrain = True
    try:
        doc = next(doc.copy() for doc in docs if len(doc) > 5)
        doc[1].head, doc[1].dep_ = doc[len(doc) - 1], "dep"
        trained(doc)
    finally:
        parser.constrain = False
    assert doc[1].head.i == len(doc) - 1
    assert doc[1]._.head_prob == pytest.approx(1.0)


def test_boundaries_are_needed_but_no_tags(trained):
    with pytest.raises(ValueError, match=r"\[S110\]"):
        trained(Doc(trained.vocab, words=["No", "boundaries"]))


# -- what it is trained on


def test_partial_annotation_is_summed_out(examples, caplog):
    nlp = make()
    partial = []
    for i, eg in enumerate(examples(nlp, annotations=["sents"])[:150]):
        reference = eg.reference
        keep = numpy.random.default_rng(i).random(len(reference)) < 0.6
        gold = Doc(
            nlp.vocab,
            words=[t.text for t in reference],
            heads=[t.head.i if k else t.i for t, k in zip(reference, keep, strict=True)],
            deps=[t.dep_ if k else "" for t, k in zip(reference, keep, strict=True)],
            sent_starts=[t.is_sent_start for t in reference],
        )
        partial.append(Example(eg.predicted, gold))
    with caplog.at_level("WARNING", logger="spacy"):
        history = train(nlp, partial, epochs=6, batch_size=16)
    assert "W101" in caplog.text
    assert min(history) > 0
    assert nlp.evaluate(examples(nlp, "dev", annotations=["sents"]))["dep_uas"] > 0.6


def test_nothing_annotated_teaches_nothing(examples):
    nlp = make()
    some = examples(nlp, annotations=["sents"])[:5]
    train(nlp, some, epochs=1)
    parser = nlp.get_pipe("spectral_parser")
    bare = [Example(eg.predicted, eg.predicted.copy()) for eg in some]
    assert parser.update(bare) == {"spectral_parser": 0.0}
    for node in parser.model.walk():
        assert not any(node.get_grad(name).any() for name in node.grad_names)
    with pytest.raises(ValueError, match=r"\[S117\]"):
        make().initialize(lambda: bare)


def test_crossing_arcs_are_learnt_and_restored():
    nlp = make()
    words = ["A", "hearing", "is", "scheduled", "on", "the", "issue", "today", "."]
    heads = [1, 3, 3, 3, 6, 6, 1, 3, 3]
    deps = ["det", "nsubj", "aux", "ROOT", "case", "det", "nmod", "obl", "punct"]
    gold = Doc(nlp.vocab, words=words, heads=heads, deps=deps)
    bare = Doc(nlp.vocab, words=words, sent_starts=[1] + [-1] * 8)
    train(nlp, [Example(bare.copy(), gold)] * 12, epochs=25, batch_size=6)
    parser = nlp.get_pipe("spectral_parser")
    assert "nmod||nsubj" in parser.label_data
    assert "nmod||nsubj" not in parser.labels
    assert parse_of(nlp(bare.copy())) == list(zip(heads, deps, strict=True))
    # a head that is given is not moved, whatever the label says
    parser.constrain = True
    doc = bare.copy()
    doc[6].head, doc[6].dep_ = doc[3], "nmod"
    assert [tree.heads[6] for tree in parser.nbest(doc, k=3)[0]] == [3, 3, 3]
    doc = nlp(doc)
    assert (doc[6].head.i, doc[6].dep_) == (3, "nmod")


def test_labels_can_be_given(trained, examples):
    labels = trained.get_pipe("spectral_parser").label_data
    nlp = make()
    nlp.config["training"]["max_epochs"] = -1
    read = examples(nlp, annotations=["sents"])
    with pytest.raises(ValueError, match=r"\[S442\]"):
        nlp.initialize(lambda: read)
    nlp.config["initialize"]["components"] = {"spectral_parser": {"labels": [*labels, "x||obj"]}}
    nlp.initialize(lambda: read[:2])
    parser = nlp.get_pipe("spectral_parser")
    assert parser.label_data == sorted([*labels, "x", "x||obj"])
    assert parser.model.get_ref("labels").get_dim("nO") == len(labels) + 2


@pytest.mark.parametrize("setting", [{"annotate_with": ["tagger"]}, {"jackknife": "tagger"}])
def test_settings_of_other_models_are_refused(setting, examples):
    with pytest.raises(ValueError, match=r"\[S444\]"):
        make(**setting)
    nlp = make()
    with pytest.raises(ValueError, match=r"\[S444\]"):
        nlp.get_pipe("spectral_parser").initialize(lambda: examples(nlp), clusters="vectors")


def test_untrained_parser_says_so():
    nlp = make()
    assert nlp.get_pipe("spectral_parser").labels == ()
    with pytest.raises(ValueError, match=r"\[S115\]"):
        nlp(Doc(nlp.vocab, words=["a"], sent_starts=[True]))


def test_inventory():
    labels = ["obj", "nmod||obj", "", "nmod||obj", "acl||obj", "obj"]
    inventory = Inventory.from_labels(labels, min_decorated=2)
    assert inventory.names == ["acl", "nmod", "nmod||obj", "obj"]
    assert inventory.encode(["acl||obj", "obj", "", "new"]).tolist() == [0, 3, MISSING, MISSING]
    assert Inventory.from_bytes(inventory.to_bytes()).names == inventory.names
    # 3 is an nmod of the obj 1; in the second tree its head was given
    starts, heads = numpy.array([0, 3, 6]), numpy.array([2, 0, 2] * 2, dtype="int32")
    labels = numpy.array([3, 0, 2] * 2, dtype="int32")
    final = inventory.restored(starts, heads, labels, numpy.array([-1] * 5 + [2], dtype="int32"))
    assert [column.tolist() for column in final] == [[2, 0, 1, 2, 0, 2], [3, 0, 1, 3, 0, 1]]
    assert inventory.restored(starts, heads, labels)[0].tolist() == [2, 0, 1] * 2
    with pytest.raises(ValueError, match=r"\[S00[25]\]"):
        Inventory.from_bytes(Inventory(["nmod||obj"]).to_bytes())


def test_calibrate_command(trained, sample, tmp_path):
    """Temperatures from a treebank make probabilities of its arcs truer, and are saved with the pipeline."""
    trained.to_disk(tmp_path / "model")
    done = CliRunner().invoke(
        app,
        [
            "spectral", "calibrate", str(tmp_path / "model"), str(sample["dev"]),
            "--output", str(tmp_path / "calibrated"), "--json", str(tmp_path / "halves.json"),
        ],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    *halves, both = srsly.read_json(tmp_path / "halves.json")
    assert len(halves) == 2
    for row in (*halves, both):
        assert row is both or row["temperature_heads"] != 1 != row["temperature_labels"]
        assert 0 <= row["las"] <= row["uas"] <= 1
        assert min(row["head_error"], row["arc_error"]) >= 0
    for name in ("uas", "las"):
        assert min(h[name] for h in halves) <= both[name] <= max(h[name] for h in halves)
    # twice as many tokens
    assert both["head_chance"] < min(half["head_chance"] for half in halves)
    calibrated = spacy.load(tmp_path / "calibrated")
    parser = calibrated.get_pipe("spectral_parser")
    assert parser.grammar.temperature != NEUTRAL
    assert trained.get_pipe("spectral_parser").grammar.temperature == NEUTRAL
    before, after = (evaluate(nlp, sample["dev"])[1] for nlp in (trained, calibrated))
    for name in ("heads", "arcs"):
        assert after[name].log_likelihood > before[name].log_likelihood
    for damaged in ([1.0, 1.0], [1.0, -1.0, 1.0], [1.0, float("nan"), 1.0], None):
        parser.model.attrs["temperature"] = damaged
        with pytest.raises(ValueError, match=r"\[S00.\].*temperature"):
            parser.check_loaded()
