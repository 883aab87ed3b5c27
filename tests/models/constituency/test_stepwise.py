"""The network of spans over a tok2vec: gradients and sums against definitions, training in spaCy's loop."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from textwrap import dedent

import numpy
import pytest
import spacy
import srsly
from spacy.cli._util import app
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed, load_config, minibatch
from thinc.api import Adam, set_dropout_rate
from typer.testing import CliRunner

import spacy_spectral.cli  # noqa: F401 (adds the commands)
from constituency_toy import TREES, binary_brackets
from device import DeviceArray, moved
from gradients import check_gradients, nodes_of
from pipelines import hash_embed
from spacy_spectral.models.constituency import model as parser_model
from spacy_spectral.models.constituency.architecture import stepwise_layers
from spacy_spectral.models.constituency.model import ConstituencyModel
from spacy_spectral.models.constituency.neural import Layers, States, all_spans, predicted
from spacy_spectral.models.constituency.statistics import joined
from spacy_spectral.models.constituency.trees import constituents
from spacy_spectral.pipeline.constituency import _batch, _sentences, _teaching
from spacy_spectral.pipeline.constituents import gold_docs, stored_trees

EMBED = hash_embed(48)
LISTENER = {"@architectures": "spacy.Tok2VecListener.v1", "width": 48, "upstream": "*"}
TINY = {"scan_size": 6, "scan_depth": 1, "span_size": 5}
TEXT = "The old dog saw a man in the garden ."


def make(*, listener=False, model=None, **settings):
    nlp = spacy.blank("en")
    if listener:
        nlp.add_pipe("tok2vec", config={"model": EMBED})
    own = {
        "tok2vec": LISTENER if listener else EMBED,
        "scan_size": 48,
        "scan_depth": 1,
        "span_size": 48,
    }
    own |= {"@architectures": "spacy-spectral.NeuralSpan.v2", **(model or {})}
    nlp.add_pipe("spectral_constituency", config={"model": own, **settings})
    return nlp


def read(nlp, path, n_sents=1):
    """Examples whose predicted documents have words and sentences."""
    return [Example(bare(doc), doc) for doc in gold_docs(path, nlp.vocab, n_sents=n_sents)]


def bare(doc):
    words, starts = [token.text for token in doc], [token.is_sent_start for token in doc]
    return Doc(doc.vocab, words=words, sent_starts=starts)


def toy(nlp, tmp_path, text=TREES):
    (tmp_path / "toy.ptb").write_text(text, encoding="utf8")
    return read(nlp, tmp_path / "toy.ptb")


def train(nlp, examples, *, epochs, seed=0, initialize=True, rate=0.005, drop=0.1):
    """Loss of every epoch."""
    fix_random_seed(seed)
    if initialize:
        nlp.initialize(lambda: examples)
    optimizer = Adam(rate)
    history = []
    for _ in range(epochs):
        losses = {}
        for batch in minibatch(examples, 32):
            nlp.update(batch, sgd=optimizer, losses=losses, drop=drop)
        history.append(losses["spectral_constituency"])
    return history


@pytest.fixture(scope="module")
def trained(brackets):
    """A tok2vec and a parser that listens to it. Tests must not change it."""
    nlp = make(listener=True, nbest=2)
    history = train(nlp, read(nlp, brackets["train"]), epochs=7)
    assert history == sorted(history, reverse=True)
    return nlp


@pytest.fixture
def docs(trained, brackets):
    return [eg.predicted for eg in read(trained, brackets["dev"], 3)]


def doc_of(nlp, text=TEXT):
    return Doc(nlp.vocab, words=text.split())


def found(doc):
    return repr(stored_trees(doc))


def score(nlp, path):
    return nlp.evaluate(read(nlp, path))["bracket_f"]


def pipe_of(nlp):
    return nlp.get_pipe("spectral_constituency")


def gold_batch(nlp, examples):
    """What `update` learns from: sentences, and the nodes of their trees."""
    teaching = [list(_teaching(eg)) for eg in examples]
    nodes = pipe_of(nlp).learnt.grammar.nodes([tree for own in teaching for _, tree in own])
    sentences = [[(tokens, tree.words) for tokens, tree in own] for own in teaching]
    return _batch([eg.predicted for eg in examples], sentences), joined(nodes)


# -- the arithmetic


def test_gradients_of_every_parameter(tmp_path):
    nlp = make(model=TINY)
    examples = toy(nlp, tmp_path)
    fix_random_seed(1)
    nlp.initialize(lambda: examples)
    model = pipe_of(nlp).model
    batch, nodes = gold_batch(nlp, examples)
    set_dropout_rate(model, 0.0)
    layers = nodes_of([model])
    for node in layers:  # nothing is zero: nothing is hidden
        for name in node.param_names:
            value = node.get_param(name)
            if value.dtype == "float32":
                value += numpy.random.normal(0, 0.3, value.shape).astype("float32")
    known = {"sentence_vectors", "gated_scan", "span_scores"}
    assert {node.name for node in layers} > known
    expected = check_gradients(
        [model],
        lambda: stepwise_layers(model).step(batch, batch.tokens.starts, nodes),
        only=known,
        step=2e-3,
    )
    # and what goes back into the tok2vec
    assert any(
        numpy.abs(expected[node.id, name]).max() > 0
        for node in model.get_ref("tok2vec").walk()
        for name in node.param_names
    )


def test_marginals_by_enumeration(tmp_path, monkeypatch):
    """All trees that the rules allow, with the scores of the layers, and nothing pruned."""
    for name in ("ITEM", "ITEM_AGAIN", "EDGE_AGAIN"):
        monkeypatch.setattr(parser_model, name, 0.0)
    nlp = make(model=TINY)
    train(nlp, toy(nlp, tmp_path), epochs=40, rate=0.01)
    pipe = pipe_of(nlp)
    grammar = pipe.learnt.grammar
    doc = doc_of(nlp, "the cat sleeps")
    ((tree,),) = pipe.predict([doc])
    (states,) = pipe._beside(doc, _sentences(doc))
    n, spans = len(doc), all_spans(states.vectors, states.starts.astype("int32"))
    words, phrases = predicted(states.layer, spans)
    cells = [(i, i + width) for width in range(1, n + 1) for i in range(n - width + 1)]
    score = {cell: words[i] if i < n else phrases[i - n] for i, cell in enumerate(cells)}
    rules = {tuple(rule) for rule in grammar.rules[grammar.seen > 0].tolist()}
    totals, has = [], []
    for brackets in binary_brackets(0, n):
        inner = [cell for cell in brackets if cell[1] - cell[0] > 1]
        splits = [
            next((i, k, j) for k in range(i + 1, j) if {(i, k), (k, j)} <= set(brackets))
            for i, j in inner
        ]
        for symbols in product(*(range(len(score[cell])) for cell in brackets)):
            local = dict(zip(brackets, symbols, strict=True))
            own = {c: y + (grammar.n_words if c in inner else 0) for c, y in local.items()}
            if all((own[i, j], own[i, k], own[k, j]) in rules for i, k, j in splits):
                totals.append(float(sum(score[c][y] for c, y in local.items())))
                named = [(c, grammar.symbols[y]) for c, y in own.items()]
                has.append({(label, *c) for c, symbol in named for label in constituents(symbol)})
    probs = numpy.exp(numpy.array(totals) - numpy.logaddexp.reduce(totals))
    assert len(tree.parsed.nodes) > 1
    for node in tree.parsed.nodes:
        total = sum(p for p, own in zip(probs, has, strict=True) if node[:3] in own)
        assert node.prob == pytest.approx(total if node.label != "ROOT" else 1.0, abs=1e-5)
    (nbest,) = pipe.nbest_trees(doc, 20)
    best = numpy.sort(probs)[::-1][: len(nbest)]
    numpy.testing.assert_allclose([numpy.exp(own.log_prob) for own in nbest], best, atol=1e-6)


def test_probabilities_are_those_of_the_most_probable_trees(trained):
    doc = doc_of(trained, "the dog saw a man .")
    for _, pipe in trained.pipeline:
        pipe(doc)
    (trees,) = pipe_of(trained).nbest_trees(doc, 100_000)
    assert 10 < len(trees) < 100_000
    probs = numpy.exp([tree.log_prob for tree in trees])
    assert probs.sum() == pytest.approx(1.0, abs=1e-6)
    for node in stored_trees(doc)[0].parsed.nodes:
        has = [node[:3] in {own[:3] for own in tree.nodes} for tree in trees]
        assert node.prob == pytest.approx(probs[has].sum(), abs=1e-5)


def test_on_a_device(tmp_path):
    """Arrays stay where Thinc's ops put them."""
    nlp = make(model=TINY)
    examples = toy(nlp, tmp_path)
    train(nlp, examples, epochs=5, drop=0.0)
    model, learnt = pipe_of(nlp).model, pipe_of(nlp).learnt
    batch, nodes = gold_batch(nlp, examples)
    here, there = (Layers(*own.layers) for own in (model.copy(), moved(model)))
    losses = [layers.step(batch, batch.tokens.starts, nodes) for layers in (here, there)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    names = ("sentence_vectors", "gated_scan", "span_scores")
    own = [
        [node for layer in layers for node in layer.walk() if node.name in names]
        for layers in (here, there)
    ]
    assert len(own[0]) == 3
    for host, device in zip(*own, strict=True):
        for name in host.param_names:
            gradient = device.get_grad(name)
            assert isinstance(gradient, DeviceArray)
            numpy.testing.assert_allclose(gradient.host, host.get_grad(name), rtol=1e-3, atol=1e-4)
    words, starts = batch.tokens.words, batch.tokens.starts.astype("int64")
    parsed = []
    for layers in (here, there):
        states = States(layers.scores, layers.encoder.predict(batch), starts)
        assert isinstance(states.vectors.data, DeviceArray) == (layers is there)
        parts = [states.at(slice(a, b)) for a, b in batch.tokens.bounds()]
        parsed.append(learnt.parse(words, starts, beside=States.joined(parts), k=2))
        # pieces of sentences
        pieces = states.cut(starts, numpy.unique([*starts.tolist(), 2, 11]))
        parsed[-1] += (len(pieces.read().items(0.01)[0]),)
    for one, other in zip(parsed[0][0], parsed[1][0], strict=True):
        assert [node[:3] for node in one.nodes] == [node[:3] for node in other.nodes]
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)
    assert parsed[0][2] == parsed[1][2]


# -- training


def test_learns_the_trees(trained, brackets):
    scores = trained.evaluate(read(trained, brackets["dev"]))
    assert scores["bracket_f"] > 0.75
    assert scores["bracket_tag_acc"] > 0.85
    assert set(scores["bracket_f_per_type"]) >= {"S", "NP", "VP", "PP"}


def test_learns_a_few_trees_by_heart(tmp_path):
    nlp = make(model={"scan_size": 16, "span_size": 16})
    examples = toy(nlp, tmp_path, 3 * TREES)  # chains that are rarer than three are cut
    train(nlp, examples, epochs=60, rate=0.01)
    scores = nlp.evaluate(examples)
    assert scores["bracket_exact"] == scores["bracket_tag_acc"] == 1.0


def test_training_twice_gives_the_same_bytes(brackets):
    models = []
    for _ in range(2):
        nlp = make(listener=True)
        train(nlp, read(nlp, brackets["train"])[:40], epochs=1)
        models.append([pipe.model.to_bytes() for _, pipe in nlp.pipeline])
    assert models[0] == models[1]


def test_gradients_reach_the_tok2vec_unless_it_is_frozen(brackets):
    nlp = make(listener=True)
    some = read(nlp, brackets["train"])[:20]
    tok2vec = nlp.get_pipe("tok2vec").model
    train(nlp, some, epochs=2)
    before = tok2vec.to_bytes()
    train(nlp, some, epochs=2, initialize=False)
    after = tok2vec.to_bytes()
    assert before != after
    own, losses = pipe_of(nlp).model.to_bytes(), {}
    nlp.update(some, sgd=Adam(0.01), losses=losses, exclude=["tok2vec"], annotates=["tok2vec"])
    assert losses["spectral_constituency"] > 0
    assert tok2vec.to_bytes() == after
    assert pipe_of(nlp).model.to_bytes() != own
    # frozen itself, it stays as it is; and there is nothing to rehearse
    own = pipe_of(nlp).model.to_bytes()
    nlp.update(some, sgd=Adam(0.01), exclude=["spectral_constituency"])
    nlp.rehearse(some, sgd=Adam(0.01))
    assert pipe_of(nlp).model.to_bytes() == own


def test_batches_without_trees(brackets, tmp_path):
    """They teach nothing; but the gradients of others that listen are not lost."""
    nlp = make(listener=True)
    tagger = {"@architectures": "spacy.Tagger.v2", "tok2vec": LISTENER}
    nlp.add_pipe("tagger", config={"model": tagger}, before="spectral_constituency")
    some = read(nlp, brackets["train"])[:20]
    train(nlp, some, epochs=1)
    bald = [Example(bare(eg.reference), bare(eg.reference)) for eg in some]
    for eg in bald:
        eg.reference[0].tag_ = "NN"
    tok2vec, own = (nlp.get_pipe(name).model for name in ("tok2vec", "spectral_constituency"))
    embed = next(node for node in tok2vec.walk() if node.name == "hashembed")
    tok2vec.finish_update(Adam(0.01))
    unchanged, losses = own.to_bytes(), nlp.update(bald, losses={}, drop=0.1, sgd=False)
    assert losses["spectral_constituency"] == 0.0 < losses["tagger"]
    assert numpy.abs(embed.get_grad("E")).max() > 0
    nlp.update(bald, sgd=Adam(0.01), drop=0.1)
    assert own.to_bytes() == unchanged
    # half of the sentences have a tree
    mixed = [*bald[:10], *some[10:]]
    assert nlp.update(mixed, sgd=Adam(0.01), losses={})["spectral_constituency"] > 0
    assert own.to_bytes() != unchanged
    assert nlp.update([], losses={}) == {}
    empty = Doc(nlp.vocab)
    assert nlp.update([Example(empty, empty.copy())], losses={})["spectral_constituency"] == 0.0


def test_a_document_with_some_trees(tmp_path):
    """Only those sentences teach that have one."""
    nlp = make(model=TINY)
    (one,) = toy(nlp, tmp_path, TREES.strip().split("\n")[0])
    nlp.initialize(lambda: [one])
    longer = Doc.from_docs([one.reference, Doc(nlp.vocab, words=["no", "tree"])])
    assert len(stored_trees(longer)) == 1
    losses = nlp.update([Example(bare(longer), longer)], losses={})
    assert losses["spectral_constituency"] > 0


def test_other_tokens_and_labels(tmp_path, caplog):
    """Trees teach where words are tokens and symbols are known."""
    nlp = make(model=TINY)
    examples = toy(nlp, tmp_path)
    other = examples[1].reference
    glued = Example(Doc(nlp.vocab, words=["the", "catsleeps", "."], spaces=[True, False, False]),
        Doc.from_docs([other])
    )  # fmt: skip
    nlp.initialize(lambda: [*examples, glued])
    assert "W700" in caplog.text and "1 of 7" in caplog.text
    assert nlp.update([glued], losses={})["spectral_constituency"] == 0.0
    spaced = Doc(
        nlp.vocab, words=["the", " ", "cat", "sleeps", "."], spaces=[True, False, True, True, False]
    )
    assert nlp.update([Example(spaced, other)], losses={})["spectral_constituency"] > 0
    new = toy(nlp, tmp_path, "(ROOT (S (NEW (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))\n" + TREES)
    known = nlp.update(examples, losses={}, sgd=False)["spectral_constituency"]
    assert nlp.update(new, losses={}, sgd=False)["spectral_constituency"] == pytest.approx(known)
    assert 0 < nlp.evaluate(new)["bracket_tag_acc"] <= 1


def test_treebanks_of_any_size(tmp_path):
    for text in ("(ROOT (NN dog))", "(X (Y a) (Y b) (Y c) (Y d))", "(S (NP (NN a)))"):
        nlp = make(model=TINY)
        train(nlp, toy(nlp, tmp_path, text), epochs=2)
        for words in ("dog", "a b c d e f"):
            (tree,) = stored_trees(nlp(doc_of(nlp, words)))
            assert len(tree.parsed.tags) == len(words.split())
    nlp = make(model=TINY)
    with pytest.raises(ValueError, match="E109"):
        nlp("not trained")
    doc = nlp.make_doc("no tree")
    with pytest.raises(ValueError, match="S703"):
        nlp.initialize(lambda: [Example(doc, doc.copy())])
    with pytest.raises((ValueError, TypeError)):
        nlp.initialize(list)
    with pytest.raises(ValueError, match="S703"):
        nlp.initialize()


def test_development_set_without_trees(trained):
    doc = doc_of(trained)
    assert trained.evaluate([Example(doc_of(trained), doc)])["bracket_f"] is None


def test_weights_that_are_averaged(brackets):
    nlp = make(listener=True)
    some = read(nlp, brackets["train"])[:20]
    train(nlp, some, epochs=1)
    optimizer = Adam(0.01, use_averages=True)
    nlp.update(some, sgd=optimizer)
    before = pipe_of(nlp).model.to_bytes()
    with nlp.use_params(optimizer.averages):
        assert pipe_of(nlp).model.to_bytes() != before
        nlp(doc_of(nlp))
    assert pipe_of(nlp).model.to_bytes() == before


def test_training_goes_on(trained, brackets, tmp_path):
    trained.to_disk(tmp_path)
    nlp = spacy.load(tmp_path)
    some = read(nlp, brackets["train"])[:40]
    optimizer = nlp.resume_training()
    losses = [nlp.update(some, sgd=optimizer, losses={}, drop=0.0) for _ in range(3)]
    history = [own["spectral_constituency"] for own in losses]
    assert history == sorted(history, reverse=True)
    assert score(nlp, brackets["dev"]) > 0.7


def test_settings_of_other_models_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\[S444\].*annotate_with"):
        make(annotate_with=["tagger"])
    nlp = make(model=TINY)
    examples = toy(nlp, tmp_path)
    for setting in ("clusters", "vectors", "dev_corpus"):
        with pytest.raises(ValueError, match=rf"\[S444\].*{setting}"):
            pipe_of(nlp).initialize(lambda: examples, nlp=nlp, **{setting: "x"})
    nlp.config["training"]["max_epochs"] = -1
    with pytest.raises(ValueError, match=r"\[S714\]"):
        pipe_of(nlp).initialize(lambda: examples, nlp=nlp)
    for bad in ({"scan_size": 3}, {"scan_depth": -1}, {"span_size": 0}):
        with pytest.raises(ValueError, match=r"\[S702\]"):
            make(model=bad)
    neural = {"@architectures": "spacy-spectral.NeuralSpan.v2", "tok2vec": EMBED}
    model = {"@architectures": "spacy-spectral.ConstituencyProduct.v1", "neural": neural}
    with pytest.raises(ValueError, match=r"\[S710\]"):
        spacy.blank("en").add_pipe("spectral_constituency", config={"model": model})
    # as over a transformer
    nlp = make(model={"scan_depth": 0})
    train(nlp, examples, epochs=1)
    assert len(stored_trees(nlp(doc_of(nlp)))) == 1


# -- the component


def test_a_listener_needs_a_tok2vec(trained, tmp_path):
    nlp = make(model={"tok2vec": LISTENER})
    with pytest.raises(ValueError, match=r"\[S443\].*tok2vec"):
        nlp.initialize(lambda: toy(nlp, tmp_path))
    with trained.select_pipes(disable=["tok2vec"]), pytest.raises(ValueError, match=r"\[S443\]"):
        trained(doc_of(trained))


def test_replaced_listeners_give_the_same_trees(trained, docs):
    expected = [found(doc) for doc in trained.pipe([doc.copy() for doc in docs])]
    nlp = make(listener=True, nbest=2).from_bytes(trained.to_bytes())
    nlp.replace_listeners("tok2vec", "spectral_constituency", ["model.tok2vec"])
    nlp.remove_pipe("tok2vec")
    assert [found(doc) for doc in nlp.pipe(docs)] == expected


def test_batches_threads_and_processes(trained, docs):
    expected = [found(trained(doc.copy())) for doc in docs]
    for options in ({"batch_size": 1}, {"batch_size": 7}, {"n_process": 2, "batch_size": 8}):
        own = trained.pipe([doc.copy() for doc in docs], **options)
        assert [found(doc) for doc in own] == expected
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda doc: found(trained(doc.copy())), docs)) == expected
    # parsing again changes nothing
    assert found(trained(trained(docs[0].copy()))) == expected[0]


SPAWN = """
    import multiprocessing, sys
    import spacy
    from spacy_spectral.pipeline.constituents import stored_trees

    if __name__ == "__main__":
        multiprocessing.set_start_method("spawn")
        nlp, texts = spacy.load(sys.argv[1]), sys.argv[2:]
        expected = [repr(stored_trees(nlp(text))) for text in texts]
        found = [repr(stored_trees(doc)) for doc in nlp.pipe(texts, n_process=2, batch_size=2)]
        assert found == expected and all(len(own) > 2 for own in found)
"""


def test_processes_that_are_spawned(trained, tmp_path):
    trained.to_disk(tmp_path / "model")
    script = tmp_path / "script.py"
    script.write_text(dedent(SPAWN))
    texts = ["The dog saw a man.", "She sleeps.", "A cat!", "The old man in the park."]
    command = [sys.executable, str(script), str(tmp_path / "model"), *texts]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_serialisation_keeps_trees(trained, docs, tmp_path):
    expected = [found(trained(doc.copy())) for doc in docs[:10]]
    trained.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    copies = [
        loaded,
        make(listener=True, nbest=2).from_bytes(trained.to_bytes()),
        # spaCy's listeners can't be pickled between updates
        pickle.loads(pickle.dumps(loaded)),
    ]
    for nlp in copies:
        assert [found(nlp(doc.copy())) for doc in docs[:10]] == expected
        assert pipe_of(nlp).labels == pipe_of(trained).labels
        assert pipe_of(nlp).to_bytes() == pipe_of(trained).to_bytes()
    # `spacy assemble` puts trained components together
    config = load_config(tmp_path / "config.cfg")
    config["components"] = {
        name: {"source": str(tmp_path)} for name in ("tok2vec", "spectral_constituency")
    }
    config.to_disk(tmp_path / "assembled.cfg")
    command = ["assemble", str(tmp_path / "assembled.cfg"), str(tmp_path / "assembled")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    other = spacy.load(tmp_path / "assembled")
    nlp = spacy.load(tmp_path)
    for text in ("The dog saw a man.", "She sleeps."):
        assert [own.parsed.nodes for own in stored_trees(other(text))] == [
            own.parsed.nodes for own in stored_trees(nlp(text))
        ]


def changed(nlp, change):
    """The bytes of a component that somebody has changed."""
    data = srsly.msgpack_loads(pipe_of(nlp).to_bytes(exclude=["vocab"]))
    model = srsly.msgpack_loads(data["model"])
    change(model)
    return srsly.msgpack_dumps(data | {"model": srsly.msgpack_dumps(model)})


def at(model, name):
    return model["params"][next(i for i, n in enumerate(model["nodes"]) if n["name"] == name)]


def test_damaged_files(tmp_path):
    nlp = make(model=TINY)
    train(nlp, toy(nlp, tmp_path), epochs=1)

    def scores(model):
        return at(model, "span_scores")

    def learnt(model):
        return next(attrs for attrs in model["attrs"] if "learnt" in attrs)

    def one_more(array):
        return numpy.concatenate([array, array[:1]])

    def foreign(data):
        payload = ConstituencyModel.from_bytes(data)
        payload.grammar.symbols = payload.grammar.symbols[:-1]
        return payload.to_bytes()

    def dims(model):
        node = next(n for n in model["nodes"] if n["name"] == "span_scores")
        node["dims"]["n_words"] += 1
        own = scores(model)
        own["V"], own["b"] = one_more(own["V"]), one_more(own["b"])

    changes = [
        lambda m: scores(m).update(V=one_more(scores(m)["V"])),
        lambda m: scores(m).update(W=scores(m)["W"][:, :-1]),
        lambda m: scores(m).update(E=scores(m)["E"] * numpy.float32("nan")),
        lambda m: scores(m).update(c=scores(m)["c"].astype("float64")),
        lambda m: scores(m).update(D=None),
        lambda m: at(m, "gated_scan").update(b=at(m, "gated_scan")["b"][:-1]),
        lambda m: at(m, "sentence_vectors").update(root=numpy.zeros(3, dtype="float32")),
        lambda m: learnt(m).update(learnt=b"not a parser"),
        lambda m: learnt(m).update(learnt=learnt(m)["learnt"][:-4]),
        dims,
    ]
    for change in changes:
        with pytest.raises(ValueError, match=r"\[S00\d\]"):
            make(model=TINY).get_pipe("spectral_constituency").from_bytes(changed(nlp, change))
    # nothing is read by pickle, and what is whole is read
    make(model=TINY).get_pipe("spectral_constituency").from_bytes(changed(nlp, lambda m: None))
    nlp.to_disk(tmp_path / "model")
    (tmp_path / "model" / "spectral_constituency" / "model").write_bytes(
        pickle.dumps(numpy.ones(3))
    )
    with pytest.raises(ValueError, match=r"\[S002\]"):
        spacy.load(tmp_path / "model")


def test_parsers_without_their_network(trained, constituency):
    """What another kind of model has learnt is refused."""
    for nlp, other in ((trained, constituency), (constituency, trained)):
        copy = spacy.blank("en", config=nlp.config).from_bytes(nlp.to_bytes())
        pipe_of(copy).learn(pipe_of(other).learnt)
        with pytest.raises(ValueError, match=r"\[S002\].*network"):
            pipe_of(copy).check_loaded()
    payload = pipe_of(constituency).learnt.to_payload() | {"outside": 1}
    with pytest.raises(ValueError, match=r"\[S005\].*outside"):
        ConstituencyModel.from_bytes(ConstituencyModel.FORMAT.pack(payload))


def test_sourced_into_another_pipeline(trained, docs):
    other = spacy.blank("en")
    other.vocab.strings.add("something")
    for name in trained.pipe_names:
        other.add_pipe(name, source=trained)
    assert other.vocab is not trained.vocab
    words = [[token.text for token in doc] for doc in docs[:5]]
    for own in words:
        one, two = (nlp(Doc(nlp.vocab, words=own)) for nlp in (trained, other))
        assert found(one) == found(two)
        assert two.spans["constituents"][0].label_


@pytest.mark.parametrize("text", ["", "  ", "dog", " the  dog \n sleeps ", "zorb " * 700])
def test_any_text(trained, text):
    """Sentence boundaries are not needed, white space is in no tree, and long sentences are cut."""
    doc = trained(text)
    tokens = [i for tree in stored_trees(doc) for i in tree.tokens]
    assert tokens == [token.i for token in doc if not token.is_space]
    for tree in stored_trees(doc):
        assert all(0 <= node.prob <= 1 for node in tree.parsed.nodes)


def test_tags_of_the_trees(trained, brackets):
    nlp = make(listener=True, nbest=2, set_tags=True).from_bytes(trained.to_bytes())
    doc = nlp(doc_of(nlp))
    assert [token.tag_ for token in doc][:2] == ["DT", "JJ"]
    (nbest,) = [own.nbest for own in stored_trees(doc)]
    assert len(nbest) == 2 and nbest[0].log_prob >= nbest[1].log_prob


def test_calibrate_command(trained, brackets, tmp_path):
    """One factor of the temperature from trees that it was not trained on, saved with the pipeline."""
    trained.to_disk(tmp_path / "model")
    options = ["--component", "spectral_constituency", "--output", str(tmp_path / "calibrated")]
    command = ["spectral", "calibrate", str(tmp_path / "model"), str(brackets["dev"]), *options]
    done = CliRunner().invoke(app, [*command, "--json", str(tmp_path / "halves.json")])
    assert done.exit_code == 0, done.output
    assert len(srsly.read_json(tmp_path / "halves.json")) == 3
    calibrated = spacy.load(tmp_path / "calibrated")
    assert pipe_of(calibrated).learnt.mixture.calibration != 1.0
    before, after = (stored_trees(nlp(doc_of(nlp)))[0].parsed for nlp in (trained, calibrated))
    assert [node[:3] for node in before.nodes] == [node[:3] for node in after.nodes]
    assert before.log_prob != after.log_prob
    for name in ("evaluate", "parse"):
        path = brackets["test"] if name == "evaluate" else tmp_path / "text.txt"
        (tmp_path / "text.txt").write_text("The dog saw a man.\n")
        options = [] if name == "evaluate" else ["--format", "brackets"]
        done = CliRunner().invoke(
            app, ["spectral", name, str(tmp_path / "calibrated"), str(path), *options]
        )
        assert done.exit_code == 0, done.output
