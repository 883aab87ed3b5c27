"""The floors of the package: a room imports only from floors below its own, and rooms make no ring."""

import ast
import json
import os
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import entry_points
from itertools import pairwise
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "spacy_spectral"
# from the ground up; what stands on the top level of the package is above all of them
FLOORS = ("base", "trees", "treebank", "forest", "models", "pipeline", "viz", "serve", "top", "cli")
FREE_OF_SPACY = ("trees", "forest", "models")
# they read and write spaCy's own vectors, lookups and .spacy files
KNOWS_SPACY = {"models.eigenwords"}
# modules that import each other, one of them inside a function or for types only; not to become more
MUTUAL = {
    ("cli.parse", "cli.parse_record"),
    ("pipeline.annotations", "pipeline.constituents"),  # when extensions are registered
    ("pipeline.tagger", "pipeline.training_data"),  # when tags are jack-knifed
    ("viz.automaton", "viz.drawing"),
}
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+c?import|c?import[ \t]+([\w.]+))", re.M)


@cache
def imported_modules(path: Path) -> set[str]:
    """Every module that a file imports anywhere, lazily or for types only, by its full name."""
    package = ("spacy_spectral", *path.relative_to(PACKAGE).parts[:-1])
    text = path.read_text("utf8")
    if path.suffix in (".pyx", ".pxd"):
        found = [(name or other, None) for name, other in _IMPORT.findall(text)]
    else:
        found = []
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                found += [(alias.name, None) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                name = "." * node.level + (node.module or "")
                found += [(name, alias.name) for alias in node.names]
    modules = set()
    for name, member in found:
        dots = len(name) - len(name.lstrip("."))
        parts = [*package[: len(package) - dots + 1]] if dots else []
        parts += [part for part in name.lstrip(".").split(".") if part]
        # `from .. import errors` imports a module, `from ..errors import Errors` does not
        target = PACKAGE.parent.joinpath(*parts, member or "")
        if member and (target.is_dir() or target.with_suffix(".py").exists()):
            parts.append(member)
        modules.add(".".join(parts))
    return modules


def room_of(module: str) -> str:
    """spacy_spectral.models.shag.grammar -> models.shag"""
    parts = module.split(".")[1:]
    if not parts or parts[0] not in FLOORS:
        return "top"
    return ".".join(parts[:2]) if parts[0] == "models" else parts[0]


def rooms() -> dict[str, set[str]]:
    """What each room imports from other rooms."""
    graph: dict[str, set[str]] = {}
    for path in files():
        own = room_of(
            ".".join(("spacy_spectral", *path.relative_to(PACKAGE).with_suffix("").parts))
        )
        modules = (
            name for name in imported_modules(path) if name.split(".")[0] == "spacy_spectral"
        )
        graph.setdefault(own, set()).update({room_of(name) for name in modules} - {own})
    return graph


def imports(*, of_packages: bool) -> dict[str, set[str]]:
    """What each module, or each package by all its own modules, imports from others: models.shag.grammar."""
    graph: dict[str, set[str]] = {}
    for path in files():
        package = path.parent.relative_to(PACKAGE.parent).parts
        own = package if of_packages or path.stem == "__init__" else (*package, path.stem)
        for name in imported_modules(path):
            parts = tuple(name.split("."))
            if of_packages and not PACKAGE.parent.joinpath(*parts).is_dir():
                parts = parts[:-1]
            if parts[:1] == ("spacy_spectral",) and parts != own:
                graph.setdefault(".".join(own[1:]), set()).add(".".join(parts[1:]))
    return graph


@cache
def files() -> list[Path]:
    suffixes = (".py", ".pyx", ".pxd")
    return sorted(path for path in PACKAGE.rglob("*") if path.suffix in suffixes)


def floor_of(room: str) -> int:
    return FLOORS.index(room.split(".")[0])


def test_rooms_import_only_from_below():
    upwards = [
        f"{room} -> {other}"
        for room, others in rooms().items()
        for other in others
        if floor_of(other) > floor_of(room)
    ]
    assert upwards == []


def find_ring(graph: dict[str, set[str]]) -> list[str]:
    """A path that ends where it began; empty if there is none."""
    done: set[str] = set()

    def walk(room: str, path: list[str]) -> list[str]:
        if room in path:
            return [*path[path.index(room) :], room]
        if room in done:
            return []
        for other in sorted(graph.get(room, ())):
            if ring := walk(other, [*path, room]):
                return ring
        done.add(room)
        return []

    for room in sorted(graph):
        if ring := walk(room, []):
            return ring
    return []


def test_there_is_no_ring_of_rooms():
    assert find_ring(rooms()) == []


def test_packages_do_not_import_each_other():
    graph = imports(of_packages=True)
    assert {"models.loglinear", "treebank.sample"} <= graph.keys()
    assert find_ring(graph) == []


def test_modules_do_not_import_each_other():
    graph = imports(of_packages=False)
    assert "base._arena" in graph["trees._eisner"]
    pairs = {(a, b) for a in graph for b in graph[a] if a < b and a in graph.get(b, ())}
    assert pairs == MUTUAL


@pytest.mark.parametrize("floor", FREE_OF_SPACY)
def test_models_know_nothing_of_spacy(floor):
    users = {
        str(path.relative_to(PACKAGE))
        for path in (PACKAGE / floor).rglob("*.py*")
        if path.suffix in (".py", ".pyx", ".pxd")
        and room_of(".".join(("x", *path.relative_to(PACKAGE).parts))) not in KNOWS_SPACY
        and any(name.split(".")[0] == "spacy" for name in imported_modules(path))
    }
    assert users == set()


def test_rings_are_found():
    assert find_ring({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert find_ring({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_imports_are_resolved():
    found = imported_modules(PACKAGE / "cli" / "evaluate.py")
    assert "spacy_spectral.base.files" in found  # inside a function
    assert "spacy_spectral.base._arena" in imported_modules(PACKAGE / "trees" / "_eisner.pyx")
    assert all(floor_of(a) < floor_of(b) for a, b in pairwise(FLOORS))


def own_entry_points(group: str) -> dict[str, str]:
    """The module that has each thing that the package registers."""
    found = entry_points(group=group)
    return {e.name: e.module for e in found if e.module.startswith("spacy_spectral.")}


# of the reranker's parser, too, other rooms are loaded
COMPONENTS = sorted(own_entry_points("spacy_factories").keys() - {"spectral_reranker"})
LOADED = """
import json, os, sys, spacy
nlp = spacy.blank("en")
for factory in sys.argv[1:]:
    if factory is sys.argv[-1] or os.fork() == 0:
        nlp.add_pipe(factory)
        name = nlp.get_pipe_config(factory).get("model", {}).get("@architectures")
        models = [name for name in sys.modules if name.startswith("spacy_spectral.models.")]
        found = sorted({".".join(name.split(".")[1:3]) for name in models})
        print(json.dumps([factory, name, found]))
        break
    os.wait()
"""


@pytest.fixture(scope="module")
def loaded():
    """Architecture and rooms of every component, each made in a process of its own."""
    runs = [COMPONENTS] if hasattr(os, "fork") else [[factory] for factory in COMPONENTS]
    lines = []
    for run in runs:
        command = [sys.executable, "-c", LOADED, *run]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        lines += map(json.loads, done.stdout.splitlines())
    return {factory: (architecture, found) for factory, architecture, found in lines}


@pytest.mark.parametrize("factory", COMPONENTS)
def test_components_load_the_room_of_their_model(factory, loaded):
    """A component imports its model's room when it is made, and nothing that this room does not import."""
    architecture, found = loaded[factory]
    known = own_entry_points("spacy_architectures")
    graph, allowed = rooms(), {room_of(known[architecture])} if architecture in known else set()
    while more := {r for a in allowed for r in graph[a] if r.startswith("models.")} - allowed:
        allowed |= more
    assert set(found) <= allowed
    assert found or factory == "eigenwords"
    if architecture == "spacy-spectral.SHAG.v1":
        assert found == ["models.shag"]


def sources(*floors: str) -> dict[str, str]:
    """The code of the package, or of some floors, by path."""
    paths = {path.relative_to(PACKAGE): path for path in files()}
    return {
        own.as_posix(): path.read_text("utf8")
        for own, path in paths.items()
        if not floors or own.parts[0] in floors
    }


# Data travels on documents or as an argument.
_HIDDEN = re.compile(r"threading import .*\blocal\b|threading\.local|\bweakref\b|\bcontextvars\b")


def test_nothing_is_handed_over_behind_the_back():
    assert {name for name, text in sources().items() if _HIDDEN.search(text)} == set()
    for text in ("from threading import Lock, local", "x = threading.local()", "import weakref"):
        assert _HIDDEN.search(text)


# A model implements its interface in full. What is asked here is of things that others have made.
KNOWN_ASKED = {
    "base/cache.py",  # whether the system has large pages
    "base/linalg.py",  # whether a matrix is sparse
    "cli/_app.py",  # labels of taggers, which need not be ours
    "logger.py",  # whether spaCy's components can be trained
    "pipeline/listeners.py",  # listeners, which need not be spaCy's own
}


def asks_by_name(text: str) -> bool:
    """Whether something is asked for that need not be there: hasattr, or getattr with a default."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and (node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) > 2))
        for node in ast.walk(ast.parse(text))
    )


def test_abilities_are_not_asked_for_by_name():
    python = {name: text for name, text in sources().items() if name.endswith(".py")}
    assert {name for name, text in python.items() if asks_by_name(text)} == KNOWN_ASKED
    kernels = {name: text for name, text in sources().items() if not name.endswith(".py")}
    assert {name for name, text in kernels.items() if "hasattr(" in text} == set()
    assert asks_by_name("f(hasattr(a, 'b'))") and asks_by_name("getattr(f(a), 'b', ())")
    assert not asks_by_name("getattr(a, 'b')")


# What functions write to belongs to a call or an object.
_CHANGES = {
    *("append", "add", "update", "setdefault", "pop", "popitem", "clear", "extend", "insert"),
    *("remove", "discard", "appendleft", "popleft", "sort", "reverse"),
}


def written_state(text: str) -> set[str]:
    """Names of a module that its functions write to."""
    tree = ast.parse(text)
    targets = [
        target
        for node in tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    written = set()
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        nodes = list(ast.walk(function))
        shared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        own = {node.arg for node in nodes if isinstance(node, ast.arg)}
        own |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        found = set(shared)
        for node in nodes:
            owner = None
            if isinstance(node, (ast.Subscript, ast.Attribute)):
                owner = node.value if isinstance(node.ctx, (ast.Store, ast.Del)) else None
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value if node.func.attr in _CHANGES else None
            if isinstance(owner, ast.Name):
                found.add(owner.id)
        written |= found - (own - shared)
    return written & names


def test_modules_have_no_state():
    python = {name: text for name, text in sources().items() if name.endswith(".py")}
    assert {f"{n}: {own}" for n, text in python.items() for own in written_state(text)} == set()
    head = "a = {}\nb = 0\n"
    assert written_state(f"{head}def f():\n    global b\n    b = 1\n    a[1] = 2") == {"a", "b"}
    assert written_state(f"{head}def f():\n    a.pop(1)\ndef g():\n    a = 1") == {"a"}
    assert written_state(f"{head}async def f():\n    b.c = 1") == {"b"}
    assert written_state(f"{head}def f(b):\n    a = {{}}\n    a[1] = b[1] = 2") == set()


def test_errors_are_of_one_class():
    """Errors with a code can be caught by their class, so nobody has to look at their text."""
    other = re.compile(r"\b(?!SpectralError|TreebankError)\w+Error\(\s*Errors\.S")
    assert [name for name, text in sources().items() if other.search(text)] == []
