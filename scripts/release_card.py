"""What people read about a released pipeline: its card, and the table of all."""

import re
from collections.abc import Iterable
from typing import Any

# measure of the CoNLL 2018 shared task, and its name for readers
_RAW = {
    "tokens": "tokens",
    "words": "words",
    "sentences": "sentences",
    "upos": "UPOS",
    "xpos": "XPOS",
    "ufeats": "features",
    "lemmas": "lemmas",
    "uas": "UAS",
    "las": "LAS",
    "clas": "CLAS",
    "mlas": "MLAS",
}
_IN_TABLE = ("words", "sentences", "upos", "ufeats", "lemmas", "uas", "las")
_SET = {"test": "the test set", "dev": "the development set"}
_COSTS = (
    *("", "licence", "commercial use", "words / CPU s", "training, CPU s", "wheel"),
    "arcs ≥ 0.9 / right",
)
_PAGE = """# Pipelines to install

`python -m spacy project run release` writes this page ([how](release.md)). Each pipeline is a wheel: it needs
the wheel of spacy-spectral, and no compiler. `fast` is `configs/pipeline.cfg`, `accurate` is
`configs/accurate.cfg`.

The scores are F1 from raw text by the measures of the CoNLL 2018 shared task, and LAS on gold tokens with
full labels. Where a treebank has no test set, scores are of its development set (`dev`), and a little
optimistic.

{accuracy}

Words per CPU second are measured on one core of the machine that made the pipeline. The last column has the
share of labelled arcs with a probability of at least 0.9, and how many of these are right.

{costs}
"""
_OPTIMISTIC = (
    "The treebank has no test set. The development set has also chosen when to stop and calibrated the "
    "probabilities, so the scores are a little optimistic."
)


def forbids_commerce(licence: str) -> bool:
    """Whether a licence is for non-commercial use only."""
    return bool(re.search(r"\bNC\b|non-?commercial|\bresearch\b", licence, flags=re.IGNORECASE))


def write_card(meta: dict[str, Any], entry: dict[str, Any], sentence: str) -> str:
    """Write the README of a pipeline.

    meta: The content of its meta.json.
    entry: How to make it again, as in a list of treebanks.
    """
    own, scores = meta["spacy_spectral"], meta["performance"]
    package = f"{meta['lang']}_{meta['name']}"
    parts = [f"# {package}", meta["description"]]
    if not own["commercial"]:
        sources = [
            f"{s['name']}: {s['license']}"
            for s in meta["sources"]
            if forbids_commerce(s["license"])
        ]
        parts.append(f"**Not for commercial use.** It was made from {'; '.join(sources)}.")
    wheel = f"{package}-{meta['version']}-py3-none-any.whl"
    parts += [
        "## Use it",
        _block(
            "bash",
            f"pip install spacy-spectral {wheel}",
            f'python -m spacy spectral nbest {package} "{sentence}"',
        ),
        _block(
            "python",
            "import spacy",
            "",
            f'nlp = spacy.load("{package}")',
            f"doc = nlp({sentence!r})",
            "for token in doc:",
            "    print(token, token.pos_, token.lemma_, token.dep_, token.head, token._.head_prob)",
        ),
        "## Accuracy",
        f"On {_SET[own['scored_on']]} of {own['treebank']}. "
        "From raw text: F1 by the measures of the CoNLL 2018 shared task, labels without subtypes. "
        "On gold tokens: predicted tags, all tokens, full labels.",
    ]
    if own["scored_on"] == "dev":
        parts.append(_OPTIMISTIC)
    parts.append(
        _table(
            ("from raw text", "%"),
            ((title, _percent(scores[f"raw_{key}"])) for key, title in _RAW.items()),
        )
    )
    parts.append(_table(("on gold tokens", "%"), _gold_rows(scores)))
    above = scores["gold_arcs"]["above"] if "gold_arcs" in scores else []
    if above:
        parts += [
            "How many labelled arcs have at least a probability, and how many of these are right:",
            _table(
                ("probability at least", *(f"{row['threshold']:g}" for row in above)),
                [
                    ("share of all arcs", *(_percent(row["share"]) for row in above)),
                    ("of them right", *(_percent(row["right"]) for row in above)),
                ],
            ),
        ]
    parts += [
        "## Speed and size",
        _table(
            ("", ""),
            [
                ("words per CPU second, from raw text", f"{scores['speed']:,.0f}"),
                ("training, CPU seconds", f"{own['training_cpu_seconds']:,.0f}"),
                ("size on the disk", f"{own['model_bytes'] / 1e6:.1f} MB"),
            ],
        ),
        "One core; the figures are of the machine that made the pipeline.",
        "## Sources",
        _table(
            ("source", "author", "licence"),
            ((_link(s), s.get("author", ""), s["license"]) for s in meta["sources"]),
        ),
        "## Make it again",
        f"From a clone of spacy-spectral {meta['version']}. Save this as `list.yml`:",
        _block("yaml", *_yaml(entry, own["gear"])),
        _block("bash", "python scripts/release.py list.yml"),
        f"It trains `{own['config']}` with seed {own['seed']}. The files of the model, without meta.json, "
        f"have the SHA-256 checksum `{own['sha256']}` in the end, each time.",
        "## Labels",
        *(
            f"**`{name}`**: {' '.join(f'`{label}`' for label in labels)}"
            for name, labels in meta["labels"].items()
            if labels
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _gold_rows(scores: dict[str, Any]) -> list[tuple[str, str]]:
    named = {
        "tag_acc": "tags",
        "lemma_acc": "lemmas",
        "uas": "UAS",
        "las": "LAS",
        "las_universal": "LAS, universal labels",
    }
    rows = [(title, _percent(scores.get(f"gold_{key}"))) for key, title in named.items()]
    if "gold_heads" in scores:
        rows.append(
            ("calibration error of heads", _percent(scores["gold_heads"]["calibration_error"]))
        )
    return rows


def _yaml(entry: dict[str, Any], gear: str) -> list[str]:
    """An entry of a list, without what is empty."""
    import srsly

    # names, not directories of the machine at hand
    own = entry | {"treebank": entry["treebank"].rstrip("/").rpartition("/")[2], "gears": [gear]}
    own["text"] = [path.rpartition("/")[2] for path in entry["text"]]
    return (
        srsly.yaml_dumps([{key: value for key, value in own.items() if value}])
        .rstrip()
        .splitlines()
    )


def write_table(metas: Iterable[dict[str, Any]], url: str) -> str:
    """Write the page of all pipelines.

    metas: The contents of their meta.json.
    url: Where the wheels are; empty if nowhere yet.
    """
    metas = sorted(metas, key=lambda meta: (meta["spacy_spectral"]["treebank"], meta["name"][::-1]))
    accuracy, costs = [], []
    for meta in metas:
        own, scores = meta["spacy_spectral"], meta["performance"]
        package = f"{meta['lang']}_{meta['name']}"
        wheel = f"{package}-{meta['version']}-py3-none-any.whl"
        link = f"[`{package}`]({url.rstrip('/')}/{wheel})" if url else f"`{package}`"
        measures = (_percent(scores[f"raw_{key}"]) for key in _IN_TABLE)
        accuracy.append((link, own["scored_on"], *measures, _percent(scores["gold_las"])))
        sure = next(
            (r for r in scores.get("gold_arcs", {}).get("above", []) if r["threshold"] == 0.9), None
        )
        costs.append(
            (
                link,
                meta["license"],
                "yes" if own["commercial"] else "no",
                f"{scores['speed']:,.0f}",
                f"{own['training_cpu_seconds']:,.0f}",
                f"{own['wheel_bytes'] / 1e6:.1f} MB",
                f"{_percent(sure['share'])} / {_percent(sure['right'])}" if sure else "-",
            )
        )
    return _PAGE.format(
        accuracy=_table(
            ("", "set", *(_RAW[key] for key in _IN_TABLE), "LAS, gold tokens"), accuracy
        ),
        costs=_table(_COSTS, costs),
    )


def _link(source: dict[str, str]) -> str:
    return f"[{source['name']}]({source['url']})" if source.get("url") else source["name"]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}"


def _block(language: str, *lines: str) -> str:
    return "\n".join([f"```{language}", *lines, "```"])


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" if i == 0 else "---:" for i in range(len(header))), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
