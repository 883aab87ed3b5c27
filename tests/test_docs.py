"""README and docs/ against the package: links, names, settings, commands, snippets."""

import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from importlib.metadata import distribution
from pathlib import Path

import pytest
import spacy
import srsly
import typer.main
from spacy.cli.train import train

from spacy_spectral.cli import spectral_cli

ROOT = Path(__file__).parents[1]
FILES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf8") for path in FILES}
SETTINGS, COMMANDS = PAGES["docs/settings.md"], PAGES["docs/commands.md"]

pages = pytest.mark.parametrize("page", PAGES)


def registered() -> dict[str, object]:
    """What the package adds to spaCy, by name; factories too."""
    return {
        entry_point.name: entry_point.load()
        for entry_point in distribution("spacy-spectral").entry_points
        if entry_point.group.startswith("spacy_") and entry_point.group != "spacy_cli"
    }


REGISTERED = registered()
FACTORIES = [name for name in REGISTERED if "." not in name]
FUNCTIONS = [name for name in REGISTERED if "." in name]


def code(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def sections(text: str) -> dict[str, str]:
    """The text below every heading that is a name in backticks."""
    parts = re.split(r"^#+ (.*)\n", text, flags=re.MULTILINE)
    named = zip(parts[1::2], parts[2::2], strict=True)
    return {heading.strip("`"): body for heading, body in named if heading.startswith("`")}


def rows(section: str) -> dict[str, str]:
    """Names and defaults in the tables of a section, without backticks; "" for none."""
    cells = re.findall(r"^\| (`.*?) \|(.*?)\|", section, flags=re.MULTILINE)
    return {name.replace("`", ""): default.strip().strip("`") for name, default in cells}


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def in_configs(value: object) -> object:
    """A default as docs show it: blocks by the name of what they are made by."""
    if isinstance(value, dict):
        (name,) = (v for k, v in value.items() if k.startswith("@"))
        return name
    return value


def documented(section: str) -> dict[str, object]:
    """Settings and defaults as docs/settings.md has them."""
    return {
        name: default
        if default == "required" or default.startswith(("spacy-spectral.", "spacy."))
        else json.loads(default)
        for name, default in rows(sections(SETTINGS)[section]).items()
    }


def parameters(function, *without: str) -> dict[str, object]:
    """Parameters and defaults as docs/settings.md should have them."""
    return {
        name: "required" if parameter.default is parameter.empty else parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in without
    }


def commands() -> dict[str, typer.main.TyperCommand]:
    """All commands by their names, those of groups as "group command"."""

    def walk(group, prefix):
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from walk(command, f"{prefix}{name} ")
            else:
                yield prefix + name, command

    return dict(walk(typer.main.get_command(spectral_cli), ""))


CLI = commands()


def options(command) -> dict[str, str]:
    """Options and defaults as docs/commands.md should have them."""
    found = {}
    for parameter in command.params:
        if parameter.param_type_name == "option":
            names = ", ".join(sorted(parameter.opts, key=len, reverse=True))
            is_empty = parameter.default is None or parameter.default is False
            default = "" if is_empty else str(parameter.default)
            found[names] = "required" if parameter.required else default
    return found


@pages
def test_links_resolve(page):
    links = re.findall(r"\]\(([^)]+)\)", PAGES[page])
    for link in links:
        if link.startswith("https://"):
            continue
        target, _, anchor = link.partition("#")
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), link
        if anchor:
            assert anchor in anchors(path.read_text(encoding="utf8")), link


def test_every_page_is_in_the_site():
    text = (ROOT / "docs/site/mkdocs.yml").read_text("utf8")
    nav = re.findall(r"^ +- (\w+\.md)$", text[text.index("\nnav:") :], flags=re.MULTILINE)
    made = {"index.md", "changes.md", "api.md"}  # by docs/site/hooks.py
    assert sorted(nav) == sorted(made | {Path(page).name for page in PAGES if "/" in page})


def test_the_site_builds_without_warnings(tmp_path):
    pytest.importorskip("material", reason="needs mkdocs-material")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    done = subprocess.run(
        [*command, str(tmp_path / "site"), "--config-file", "docs/site/mkdocs.yml"],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0 and not done.stdout, done.stdout
    index = (tmp_path / "site" / "search" / "search_index.js").read_text("utf8")
    assert "head_prob" in index  # found without a network
    for path in (tmp_path / "site").glob("*.html"):
        text = path.read_text("utf8")
        assert not re.findall(r'<(?:script|img|source|link)\b[^>]*(?:src|srcset)="http[^"]*"', text)
        assert not re.findall(r'<link\b[^>]*stylesheet[^>]*href="http[^"]*"', text)


def test_pictures_are_svg():
    shown = re.findall(r"!\[.*\]\((.*)\)", PAGES["README.md"])
    assert shown == ["docs/parse.svg", "docs/annotate.png"]  # the second is of a browser
    pictures = re.findall(r"!\[.*\]\((.*\.svg)\)", "".join(PAGES.values()))
    assert len(pictures) > 2
    for picture in pictures:
        picture = f"docs/{Path(picture).name}"
        assert ElementTree.parse(ROOT / picture).getroot().tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.svg")), ids=lambda path: path.name)
def test_pictures_can_be_read_on_a_dark_page(path):
    root = ElementTree.parse(path).getroot()
    shapes = [part for part in root if part.tag.rpartition("}")[2] not in ("style", "title")]
    assert shapes[0].tag.endswith("rect") and shapes[0].get("fill") in ("white", "#ffffff")
    size = [(shapes[0].get(side), root.get(side)) for side in ("width", "height")]
    assert all(own in ("100%", whole) for own, whole in size)


@pages
def test_names_exist(page):
    text = PAGES[page]
    for name in re.findall(r"spacy-spectral\.\w+\.v\d+", text):
        assert name in REGISTERED
    for name in re.findall(r"`(spectral_[a-z]+)`", text):
        assert name in FACTORIES
    for path in re.findall(r"\b(?:configs|scripts)/\w+\.\w+", text):
        assert (ROOT / path).is_file()
    workflows = srsly.read_yaml(ROOT / "project.yml")["workflows"]
    for name in re.findall(r"project run ([a-z]+)", text):
        assert name in workflows


def test_all_configs_are_described():
    _, _, section = PAGES["docs/gears.md"].partition("## All configs")
    table, _, _ = section.partition("\n## ")
    described = re.findall(r"`configs/(\w+\.cfg)`", table)
    assert sorted(described) == sorted(path.name for path in (ROOT / "configs").glob("*.cfg"))


def test_all_workflows_are_described():
    workflows = srsly.read_yaml(ROOT / "project.yml")["workflows"]
    _, _, section = PAGES["docs/training.md"].partition("## Workflows")
    table, _, _ = section.partition("```")
    assert rows(table).keys() == workflows.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_settings_of_functions(name):
    assert documented(name) == parameters(REGISTERED[name])


@pytest.mark.parametrize("name", FACTORIES)
def test_settings_of_factories(name):
    nlp = spacy.blank("en")
    expected = nlp.get_factory_meta(name).default_config
    assert documented(name) == {key: in_configs(value) for key, value in expected.items()}
    initialize = getattr(nlp.create_pipe(name), "initialize", None)
    if initialize is not None:
        section = f"[initialize.components.{name}]"
        assert documented(section) == parameters(initialize, "get_examples", "nlp")


def test_no_settings_of_what_does_not_exist():
    known = {*REGISTERED, *(f"[initialize.components.{name}]" for name in FACTORIES)}
    assert sections(SETTINGS).keys() <= known


@pytest.mark.parametrize("name", CLI)
def test_options_of_commands(name):
    assert rows(sections(COMMANDS)[name]) == options(CLI[name])


def test_no_commands_that_do_not_exist():
    assert sections(COMMANDS).keys() == CLI.keys()


@pages
def test_command_lines(page):
    """Commands and options of `spacy spectral` that pages show."""
    for block in code(PAGES[page], "bash"):
        for line in block.replace("\\\n", " ").splitlines():
            _, found, rest = line.partition("python -m spacy spectral ")
            if found:
                words = shlex.split(rest, comments=True)
                command = CLI.get(words[0]) or CLI[" ".join(words[:2])]
                known = {name for parameter in command.params for name in parameter.opts}
                assert {word for word in words if word.startswith("-")} <= known, line


@pages
def test_snippets_compile_and_import_what_exists(page):
    for snippet in code(PAGES[page], "python"):
        compile(snippet, page, "exec")
        for line in re.findall(r"^(?:from|import) spacy_spectral.*", snippet, re.MULTILINE):
            exec(line)


def test_snippet_of_readme_prints_what_it_says(sample, tmp_path, monkeypatch, capsys):
    """On a smaller treebank; numbers are those of the larger one."""
    paths = {f"paths.{split}": str(sample[split]) for split in ("train", "dev")}
    train(ROOT / "configs" / "pipeline.cfg", tmp_path / "training" / "pipeline", overrides=paths)
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    (snippet,) = code(PAGES["README.md"], "python")
    (said,) = code(PAGES["README.md"], "text")
    names = {}
    exec(compile(snippet, "README.md", "exec"), names)
    number = re.compile(r"[01]\.\d\d")
    printed = capsys.readouterr().out
    assert number.sub("", printed) == number.sub("", said)
    assert len(number.findall(printed)) == len(number.findall(said))
    assert len(names["parser"].nbest(names["doc"], k=5)[0]) == 5


def test_first_commands_are_as_promised():
    lines = [block.strip() for block in code(PAGES["README.md"], "bash")]
    assert lines[:2] == [
        "pip install -e . && python -m spacy project run all",
        'pip install -e ".[tests]" && python -m pytest',
    ]
