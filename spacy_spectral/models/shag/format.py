"""The file of a grammar. The kernels do not check bounds: all that they rely on is declared here."""

from typing import Any

from ...base.fields import Array, Bool, Float, Format, Int, Record, Str, Strings
from ...trees.interface import TEMPERATURE
from ...trees.lengths import N_BINS
from ...trees.pseudoprojective import plain
from .estimate import ESTIMATORS
from .labels import FIELDS as LABELS
from .lexical import FIELDS as LEXICAL
from .lexical import LEXICAL_MODELS
from .model import FIELDS as AUTOMATA

FORMAT = Format(
    "shag grammar",
    1,
    settings=Record(
        automata=Record(
            estimator=Str(choices=ESTIMATORS),
            states=Int(low=1),
            smoothing=Float(above=0),
            rank_tolerance=Float(),
            ridge=Float(),
            em_iterations=Int(low=1),
            em_tolerance=Float(),
            seed=Int(),
        ),
        lengths=Bool(),
        lexical=Str(choices=LEXICAL_MODELS, optional=True),
        only_lexical=Bool(),
        min_symbol_count=Int(low=1),
        max_symbols=Int(low=1, optional=True),
        max_length=Int(low=2, high=1 << 30),
    ),
    symbols=Strings("names", unique=True),
    automata=AUTOMATA,
    fallback=AUTOMATA,
    # probabilities that are divided by
    frequency=Array("float64", "names+1", low=1e-100, high=1.0),
    lengths=Array("float64", "names+1", 2, "names+1", N_BINS, low=1e-100, high=1.0, optional=True),
    lexical=LEXICAL,
    labels=LABELS,
    temperature=TEMPERATURE,
)


def require_sound(read: dict[str, Any]) -> None:
    """What kernels and the parts of a grammar take for granted of each other."""
    for name in ("automata", "fallback"):
        tables = {part: read[name][part] for part in ("start", "stop", "operators")}
        states = tables["start"].shape[-1]
        FORMAT.require(states and states % 4 == 0, f"{name}.start", f"has {states} states")
        for part, table in tables.items():
            sound = not read[name]["non_negative"] or (table >= 0).all()
            FORMAT.require(sound, f"{name}.{part}", "has negative values")
    FORMAT.require(read["fallback"]["non_negative"], "fallback.non_negative", "is False")
    settings, lexical, labels = read["settings"], read["lexical"], read["labels"]
    has_lengths = read["lengths"] is not None
    FORMAT.require(has_lengths == settings["lengths"], "lengths", "is not as the settings have it")
    kind = None if lexical is None else lexical["kind"]
    FORMAT.require(kind == settings["lexical"], "lexical", "is not as the settings have it")
    FORMAT.require(kind or not settings["only_lexical"], "lexical", "is needed by the settings")
    n_symbols = len(read["symbols"]) + 1
    counted = [("labels.model", labels["model"], max(len(labels["labels"]), 1))]
    if lexical is not None:
        sound = (lexical["symbol_class"] < LEXICAL_MODELS[lexical["kind"]]).all()
        FORMAT.require(sound, "lexical.symbol_class", "has unknown classes")
        counted.append(("lexical.tag_model", lexical["tag_model"], n_symbols + 1))
        counted.append(("lexical.word_model", lexical["word_model"], len(lexical["words"]) + 1))
    for name, model, n_outcomes in counted:
        sound = model["n_outcomes"] == n_outcomes
        FORMAT.require(sound, f"{name}.n_outcomes", f"is {model['n_outcomes']}, not {n_outcomes}")
    whole = set(map(plain, labels["labels"])) <= set(labels["labels"])
    FORMAT.require(whole, "labels.labels", "has decorated labels without their plain forms")
