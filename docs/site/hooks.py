"""What the site has beside the pages of docs/: README as its first page, changes, the Python reference."""

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
# what the plugin "offline" loads from another server, and where it is here
SHIM, OWN_SHIM = "https://unpkg.com/iframe-worker/shim", "iframe-worker.js"
# columns of numbers are narrow, and names of files stay in one line
STYLE = """<style>
.md-typeset table:not([class]) th, .md-typeset table:not([class]) td { min-width: 0; padding: 0.5em 0.8em; }
.md-typeset td[style*="right"] { white-space: nowrap; }
.md-typeset td code { word-break: normal; overflow-wrap: normal; }
</style>
"""
OUTSIDE = {"README.md": "index.md", "CHANGELOG.md": "changes.md"}
OBJECTS = {
    "Functions": ["spacy_spectral.to_table", "spacy_spectral.register_extensions"],
    "Drawing": ["spacy_spectral.displacy.render", "spacy_spectral.displacy.parse_deps"],
    "Reading treebanks": [
        "spacy_spectral.readers.Corpus",
        "spacy_spectral.treebank.documents.read_docs",
        "spacy_spectral.treebank.write.write_doc",
    ],
    "spectral_parser": [
        "spacy_spectral.pipeline.parser.SpectralParser",
        "spacy_spectral.pipeline.parser.SpectralParser.marginals",
        "spacy_spectral.pipeline.parser.SpectralParser.nbest",
        "spacy_spectral.pipeline.parser.SpectralParser.parse_with",
        "spacy_spectral.pipeline.parser.SpectralParser.scored_parses",
        "spacy_spectral.pipeline.parser.SpectralParser.initialize",
    ],
    "Other components": [
        "spacy_spectral.pipeline.tokenizer.SpectralTokenizer",
        "spacy_spectral.pipeline.tokenizer.SpectralTokenizer.add_special_case",
        "spacy_spectral.pipeline.senter.SpectralSenter",
        "spacy_spectral.pipeline.tagger.SpectralTagger",
        "spacy_spectral.pipeline.lemmatizer.SpectralLemmatizer",
        "spacy_spectral.pipeline.constituency.SpectralConstituency",
        "spacy_spectral.pipeline.constituency.SpectralConstituency.nbest_trees",
        "spacy_spectral.pipeline.reranker.SpectralReranker",
        "spacy_spectral.pipeline.reranker.SpectralReranker.parse_with",
        "spacy_spectral.pipeline.reranker.SpectralReranker.spectral_tree_score",
        "spacy_spectral.pipeline.refiner.SpectralRefiner",
        "spacy_spectral.pipeline.eigenwords.EigenwordSimilarity",
    ],
    "Scorers": [
        "spacy_spectral.scorers.score_ud",
        "spacy_spectral.scorers.score_calibration",
        "spacy_spectral.scorers.score_validity",
    ],
    "Forests": [
        "spacy_spectral.forest.text.read_forest",
        "spacy_spectral.forest.learn.fit",
    ],
}


def on_files(files: Files, config: Any) -> Files:
    """Add README, the changes and the reference."""
    for name, page in OUTSIDE.items():
        text = (ROOT / name).read_text("utf8")
        # README stands above docs/
        text = re.sub(r'(\]\(|srcset="|src=")docs/', r"\1", text)
        files.append(File.generated(config, page, content=text))
    shim = (Path(__file__).parent / OWN_SHIM).read_text("utf8")
    files.append(File.generated(config, OWN_SHIM, content=shim))
    files.append(File.generated(config, "api.md", content=reference()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links out of docs/ lead to the pages that are made of these files."""
    for name, page in OUTSIDE.items():
        markdown = re.sub(rf"\]\((?:\.\./)?{re.escape(name)}(#[^)]*)?\)", rf"]({page}\1)", markdown)
    return re.sub(r"\]\((?:\.\./)?LICENSE\)", "](changes.md)", markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Nothing is loaded from other servers; tables are narrow."""
    return output.replace(SHIM, OWN_SHIM).replace("</head>", f"{STYLE}</head>", 1)


def on_post_template(output_content: str, **_: Any) -> str:
    """The same for pages that are made of no text (404)."""
    return output_content.replace(SHIM, OWN_SHIM)


def reference() -> str:
    """RETURNS (str): The page of the reference, of what the docstrings say."""
    parts = [
        "# Python",
        "What you can call. Components are made by `nlp.add_pipe` or by a config, not by their classes; "
        "[Settings](settings.md) has their settings, [Pipelines](pipelines.md) what they write.",
    ]
    for title, names in OBJECTS.items():
        parts += [f"## {title}", *(described(name) for name in names)]
    return "\n\n".join(parts) + "\n"


def described(path: str) -> str:
    """RETURNS (str): A class or function: name, signature, docstring."""
    thing = resolve(path)
    name = path.removeprefix("spacy_spectral.")
    parts = name.split(".")
    shown = ".".join(parts[-2:]) if parts[-2:-1] and parts[-2][:1].isupper() else parts[-1]
    doc = inspect.cleandoc(thing.__doc__ or "")
    lines = [f"### {shown}", f"`{path}`"]
    if not inspect.isclass(thing):
        lines.append(f"```python\n{shown.rpartition('.')[2]}{signature(thing)}\n```")
    return "\n\n".join([*lines, as_markdown(doc)])


def resolve(path: str) -> Any:
    """RETURNS (Any): What a dotted name stands for."""
    parts = path.split(".")
    for i in range(len(parts), 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:i]))
        except ImportError:
            continue
        for part in parts[i:]:
            thing = (
                inspect.getattr_static(thing, part)
                if inspect.isclass(thing)
                else getattr(thing, part)
            )
        return thing
    raise ImportError(path)


def signature(thing: Any) -> str:
    """RETURNS (str): Parameters and types, a line each if they are many."""
    found = inspect.signature(thing)
    kept = [p for name, p in found.parameters.items() if name != "self"]
    text = str(found.replace(parameters=kept)).replace("'", "")
    text = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text)
    if len(text) < 80:
        return text
    inside, _, returned = text.rpartition(")")
    pieces = re.split(r", (?![^\[(]*[\])])", inside.removeprefix("("))
    return "(\n" + "".join(f"    {piece},\n" for piece in pieces) + f"){returned}"


def as_markdown(doc: str) -> str:
    """RETURNS (str): A docstring; its lines "name: ..." and "RETURNS: ..." as a list."""
    doc = re.sub(r"\*(?=\w)", r"\\*", doc)
    doc = re.sub(r"^([\w, ]+?)(?: \(([^)]*)\))?: (?=\S)", r"- **\1** \2: ", doc, flags=re.MULTILINE)
    doc = doc.replace("** :", "**:")
    return re.sub(r"(?<!\n)\n(- \*\*)", r"\n\n\1", doc, count=1)
