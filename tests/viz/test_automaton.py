"""Automata drawn from models: true to the model, deterministic, well-formed."""

import re
import shutil
import subprocess
from itertools import combinations
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from spacy.cli._util import app
from typer.testing import CliRunner

import spacy_spectral.cli  # noqa: F401 (adds the commands)
from spacy_spectral.models.shag.estimate import ESTIMATORS, EstimatorSettings, SequenceSet, estimate
from spacy_spectral.models.shag.model import OperatorModel, SymbolTable
from spacy_spectral.readers import Corpus
from spacy_spectral.treebank.sample.draw import write_sample
from spacy_spectral.viz.automaton import (
    AutomatonEdge,
    AutomatonGraph,
    AutomatonState,
    head_automaton,
)
from spacy_spectral.viz.markup import format_probability

SVG = "{http://www.w3.org/2000/svg}"
# state -> symbol -> (next state, probability); what is missing to 1 is STOP
NOUN = {
    0: {"adj": (1, 0.3), "noun": (2, 0.1), "det": (3, 0.4)},
    1: {"adj": (1, 0.25), "det": (3, 0.6)},
    2: {"adj": (1, 0.5), "noun": (2, 0.2), "det": (3, 0.25)},
    3: {"prep": (3, 0.1)},
}
ALTERNATING = {0: {"a": (1, 0.7)}, 1: {"b": (0, 0.8)}}


def stop(dfa, state):
    return 1 - sum(probability for _, probability in dfa[state].values())


def operators_of(dfa, names):
    start = numpy.eye(len(dfa))[0]
    operators = numpy.zeros((len(names), len(dfa), len(dfa)))
    for state, transitions in dfa.items():
        for name, (target, probability) in transitions.items():
            operators[names.index(name), target, state] = probability
    return start, operators, numpy.array([stop(dfa, state) for state in dfa])


def grammar_with(automaton, names):
    """What `head_automaton` looks at of a grammar; the automaton is that of names[0], left."""
    start, operators, stops = automaton
    model = OperatorModel.zeros(len(names) + 1, len(start), non_negative=False)
    n = len(start)  # models are padded to a multiple of four states
    model.start[0, 0, :n], model.stop[0, 0, :n] = start, stops
    model.operators[0, 0, : len(names), :n, :n] = operators
    return SimpleNamespace(
        symbols=SymbolTable(names),
        automata=model,
        settings=SimpleNamespace(only_lexical=False, min_symbol_count=1, max_symbols=100),
    )


def symbols_of(dfa):
    return sorted({name for transitions in dfa.values() for name in transitions})


def transitions_of(graph):
    return {
        (edge.source, name): (edge.target, probability)
        for edge in graph.edges
        for name, probability in edge.symbols
    }


def assert_same_automaton(graph, dfa, tolerance=1e-9):
    """Walk both from the first state; every step must agree."""
    found = transitions_of(graph)
    partner, todo = {0: 0}, [0]
    for state in todo:
        mine = partner[state]
        assert graph.states[mine].stop == pytest.approx(stop(dfa, state), abs=tolerance)
        assert {name for source, name in found if source == mine} == set(dfa[state])
        for name, (target, probability) in dfa[state].items():
            assert found[mine, name][1] == pytest.approx(probability, abs=tolerance)
            if target not in partner:
                partner[target] = found[mine, name][0]
                todo.append(target)
            assert partner[target] == found[mine, name][0]
    assert len(graph.states) == len(set(partner.values())) == len(dfa)


@pytest.mark.parametrize("dfa", [NOUN, ALTERNATING])
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_a_deterministic_automaton_comes_back(dfa, seed):
    """In any basis: with another one, values are negative as in spectral models."""
    names = symbols_of(dfa)
    start, operators, stops = operators_of(dfa, names)
    if seed is not None:
        rng = numpy.random.default_rng(seed)
        basis = numpy.linalg.qr(rng.normal(size=(len(start),) * 2))[0] * rng.uniform(0.5, 2)
        inverse = numpy.linalg.inv(basis)
        start, operators, stops = basis @ start, basis @ operators @ inverse, stops @ inverse
        assert operators.min() < 0
    graph = head_automaton(grammar_with((start, operators, stops), names), names[0], "left")
    assert_same_automaton(graph, dfa)


def test_states_have_their_share_of_visits():
    names = symbols_of(NOUN)
    automaton = operators_of(NOUN, names)
    graph = head_automaton(
        grammar_with(automaton, names), names[0], "left", min_probability=1e-8, max_prefixes=20000
    )
    # expected visits: (I - A)^-1 start
    visits = numpy.linalg.solve(numpy.eye(4) - automaton[1].sum(axis=0), automaton[0])
    found = sorted(state.probability for state in graph.states)
    assert found == pytest.approx(sorted(visits / visits.sum()), abs=1e-5)


@pytest.mark.parametrize("estimator", ["spectral", "em"])
def test_estimators_learn_to_alternate(estimator):
    """From (nearly) exact counts of the alternating automaton."""
    counts, weight = {}, 1e6
    for length in range(60):
        end = stop(ALTERNATING, length % 2)
        counts[(numpy.arange(length, dtype="int32") % 2).tobytes()] = weight * end
        weight *= 1 - end
    own = SequenceSet.from_counter(counts)
    empty = SequenceSet.from_counter({})
    root = SequenceSet.from_counter({numpy.zeros(1, dtype="int32").tobytes(): 1.0})
    sequences = [[own, empty], [empty, empty], [empty, empty], [empty, root]]
    chosen = EstimatorSettings(estimator=estimator, states=2, smoothing=1e-3, em_tolerance=1e-12)
    model = estimate(sequences, chosen)
    names = ["a", "b"]
    grammar = grammar_with((model.start[0, 0], model.operators[0, 0, :2], model.stop[0, 0]), names)
    assert_same_automaton(head_automaton(grammar, "a", "left"), ALTERNATING, tolerance=1e-3)


@settings(deadline=None, max_examples=60)
@given(
    arrays("float64", (3,), elements=st.floats(-1, 1)),
    arrays("float64", (4, 3, 3), elements=st.floats(-1, 1)),
    arrays("float64", (3,), elements=st.floats(-1, 1)),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.05, 0.5, 1.0]),
)
def test_odd_operators_give_a_proper_automaton(start, operators, stops, states, threshold):
    names = ["a", "<b>", "c & d", '"']
    grammar = grammar_with((start, operators, stops), names)
    graph = head_automaton(grammar, "a", "left", states=states, threshold=threshold)
    assert_proper(graph, states, threshold)
    assert_well_drawn(graph)


def assert_proper(graph, states, threshold):
    assert 1 <= len(graph.states) <= states
    transitions = [
        (edge.source, name, probability)
        for edge in graph.edges
        for name, probability in edge.symbols
    ]
    assert len({(source, name) for source, name, _ in transitions}) == len(transitions)
    assert all(probability >= threshold for _, _, probability in transitions)
    reached = {0} | {edge.target for edge in graph.edges if edge.source != edge.target}
    assert reached == set(range(len(graph.states)))
    for number, state in enumerate(graph.states):
        out = sum(probability for source, _, probability in transitions if source == number)
        assert out + state.stop + state.hidden == pytest.approx(1, abs=1e-9)


def assert_well_drawn(graph):
    """XML; no label or state covers another; nothing is outside of the picture."""
    root = ElementTree.fromstring(graph.to_svg())
    width, height = float(root.get("width")), float(root.get("height"))
    boxes = []
    for rect in root.iter(f"{SVG}rect"):
        if rect.get("x") is not None:
            x, y, w, h = (float(rect.get(key)) for key in ("x", "y", "width", "height"))
            boxes.append((x, y, x + w, y + h))
    for circle in root.iter(f"{SVG}circle"):
        x, y, r = (float(circle.get(key)) for key in ("cx", "cy", "r"))
        boxes.append((x - r, y - r, x + r, y + r))
    stops = sum(state.stop >= 0.005 for state in graph.states)
    between = sum(edge.source != edge.target for edge in graph.edges)
    assert len(boxes) == len(graph.states) + stops + between
    for left, top, right, bottom in boxes:
        assert left >= 0 and top >= 0 and right <= width and bottom <= height
    for a, b in combinations(boxes, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_drawings_of_any_graph(data):
    n = data.draw(st.integers(1, 8))
    pairs = data.draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=25))
    labels = st.lists(st.tuples(st.text("ANX<&.", min_size=1, max_size=6), st.floats(0, 1)))
    edges = tuple(
        AutomatonEdge(a, b, tuple(data.draw(labels)) or (("x", 0.5),)) for a, b in sorted(pairs)
    )
    states = tuple(
        AutomatonState(1 / n, data.draw(st.floats(0, 1)), 0.0, ((), ("a", "b"))) for _ in range(n)
    )
    graph = AutomatonGraph("NN", "left", states, edges)
    assert_well_drawn(graph)
    assert graph.to_svg() == graph.to_svg()


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory):
    """Small trained pipelines, one for each estimator."""
    path = tmp_path_factory.mktemp("sample")
    write_sample(path, train=400, dev=1, test=1)
    result = {}
    for estimator in ESTIMATORS:
        nlp = spacy.blank("en")
        model = {"@architectures": "spacy-spectral.SHAG.v1", "estimator": estimator}
        nlp.add_pipe("spectral_parser", config={"model": model})
        corpus = Corpus(path / "sample-train.conllu")
        nlp.initialize(lambda nlp=nlp, corpus=corpus: corpus(nlp))
        result[estimator] = nlp
    return result


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("direction", ["left", "right"])
def test_every_head_of_every_estimator(pipelines, estimator, direction):
    grammar = pipelines[estimator].get_pipe("spectral_parser").grammar
    for head in grammar.symbols.names[:-1]:
        graph = head_automaton(grammar, head, direction, threshold=0.03)
        assert_proper(graph, 6, 0.03)
        assert_well_drawn(graph)
        if estimator == "det":
            assert len(graph.states) == 1


def test_det_and_first_are_shown_as_they_are(pipelines):
    """One state repeats its probabilities; two states tell the first modifier from the rest."""
    grammar = pipelines["det+f"].get_pipe("spectral_parser").grammar
    graph = head_automaton(grammar, "VBD", "right", threshold=0.0)
    head = int(grammar.symbols.encode(["VBD"])[0])
    operators = grammar.automata.operators[head, 1, :-1]
    assert len(graph.states) == 2
    found = transitions_of(graph)
    # the back-off symbol is left out, and all else is as the model has it
    total = operators.sum(axis=(0, 1)) + grammar.automata.stop[head, 1]
    for state in (0, 1):
        for i, name in enumerate(grammar.symbols.names[:-1]):
            target, probability = found.get((state, name), (1, 0.0))
            assert target == 1
            assert probability == pytest.approx(operators[i, 1, state] / total[state])


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
def test_graphviz_reads_dot():
    names = ['"', "\\", "<b>", ","]
    dfa = {0: dict.fromkeys(names, (1, 0.2)), 1: {}}
    graph = head_automaton(grammar_with(operators_of(dfa, names), names), '"', "left")
    result = subprocess.run(
        ["dot", "-Tplain"], input=graph.to_dot(), capture_output=True, text=True, check=True
    )
    assert not result.stderr
    nodes = {line.split()[1] for line in result.stdout.splitlines() if line.startswith("node")}
    assert nodes == {"START", "STOP", "0", "1"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, ".00"), (0.004, "<.01"), (0.005, ".01"), (0.42, ".42"), (0.994, ".99"), (0.996, "1")],
)
def test_format_probability(value, shown):
    assert format_probability(value) == shown


@pytest.fixture(scope="module")
def model(pipelines, tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    nlp = pipelines["spectral"]
    nlp.add_pipe("sentencizer", first=True)
    nlp.to_disk(path)
    return str(path)


def run(*arguments):
    result = CliRunner().invoke(app, ["spectral", "automaton", *map(str, arguments)])
    return result.exit_code, " ".join(re.sub(r"\x1b\[[0-9;]*m", "", result.output).split())


def test_command_writes_the_same_files_each_time(model, tmp_path):
    for suffix in (".svg", ".dot"):
        for name in ("one", "two"):
            output = tmp_path / "new" / f"{name}{suffix}"
            code, text = run(model, "--head", "NN", "--direction", "left", "--output", output)
            assert code == 0 and "states" in text
        first, second = sorted((tmp_path / "new").glob(f"*{suffix}"))
        assert first.read_bytes() == second.read_bytes()
    ElementTree.parse(tmp_path / "new" / "one.svg")
    assert (tmp_path / "new" / "one.dot").read_text().startswith("digraph")


def test_command_options(model, tmp_path):
    output = tmp_path / "a.svg"
    options = ("--head", "NN", "--direction", "left", "--output", output)
    assert "with 1 states" in run(model, *options, "--states", 1)[1]
    assert run(model, *options, "--threshold", 2)[0] != 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"--head": "QQ"}, r"S150.*'QQ'.*NN, "),
        ({"--direction": "up"}, r"S151.*left, right"),
        ({"--output": "a.png"}, r"\.svg or \.dot"),
        ({"--component": "parser"}, r"S154.*sentencizer, spectral_parser"),
        ({"--component": "sentencizer"}, r"S154.*'sentencizer'"),
    ],
)
def test_command_errors(model, tmp_path, changed, message):
    options = {"--head": "NN", "--direction": "left", "--output": "a.svg"} | changed
    options["--output"] = tmp_path / options["--output"]
    code, text = run(model, *(part for pair in options.items() for part in pair))
    assert code == 1
    assert re.search(message, text)
    assert not list(tmp_path.iterdir())


def test_command_without_a_pipeline(tmp_path):
    output = tmp_path / "a.svg"
    code, text = run("no_such_model", "--head", "NN", "--direction", "left", "--output", output)
    assert code == 1 and "no_such_model" in text
