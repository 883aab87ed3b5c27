"""Annotating sentences: what is shown, what a person does, and what comes next.

A sentence has what its file says and what was fixed since (`journal.Item`); a pipeline fills in the rest
(`engine.Engine`). Every action is a change of some sentences, which the journal keeps and undo takes back.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from threading import RLock
from typing import Any

from ..base.errors import Errors, SpectralError
from ..treebank.conllu import FEATS, UPOS, Sentence
from ..trees.validity import violations
from . import blocks
from .engine import Analysis, Engine, Values
from .journal import ACCEPTED, OPEN, SKIPPED, Change, Item, Journal

ORDERS = ("errors", "document", "random")
_FREE = blocks.MISSING
_FIELDS = ("lemma", "upos", "xpos", "feats")
_LABEL = re.compile(r"[^\s|:]+(:[^\s|:]+)*")
_MOST_UNDO, _MOST_FOUND, _RECENT, _MOST_TEXT = 1000, 100, 20, 1000
_N_BEST = 5


class Session:
    """Sentences being annotated. All methods can be called by several threads."""

    def __init__(self, journal: Journal, engine: Engine) -> None:
        self.journal = journal
        self.engine = engine
        self.order = "errors"
        self.scores: Mapping[int, float] = {}
        self.learning = ""
        self._lock = RLock()
        self._undo: list[Change] = []
        self._redo: list[Change] = []
        self._actions: dict[str, Callable[[Item, dict[str, Any]], int | None]] = {
            "head": self._set_head,
            "label": self._set_label,
            "value": self._set_value,
            "release": self._release,
            "tree": self._set_tree,
            "split_token": self._split_token,
            "join_tokens": self._join_tokens,
            "split_sentence": self._split_sentence,
            "join_sentences": self._join_sentences,
            "note": self._note,
            "accept": self._accept,
            "skip": self._skip,
            "undo": lambda item, what: self._take_back(self._undo, self._redo),
            "redo": lambda item, what: self._take_back(self._redo, self._undo),
            "order": self._set_order,
        }

    # ---- what is asked

    def view(self, id_: int | None = None) -> dict[str, Any]:
        """What the page shows of a sentence, by default of the next one in order."""
        with self._lock:
            if id_ is None:
                id_ = self._next()
            items = self.journal.items
            return {
                "sentence": None if id_ is None else self._shown(self._place(id_)),
                "panel": self._panel(),
                "order": self.order,
                "undo": len(self._undo),
                "redo": len(self._redo),
                "total": len(items),
            }

    def act(self, what: dict[str, Any]) -> dict[str, Any]:
        """Do what a person wants: {"do": name, "sentence": id, ...}, and show what there is then."""
        with self._lock:
            name = what.get("do")
            if not isinstance(name, str) or name not in self._actions:
                raise _refused("do")
            item = self.journal.items[self._place(_number(what, "sentence"))]
            return self.view(self._actions[name](item, what))

    def choices(self, id_: int, word: int) -> dict[str, Any]:
        """Values of a word's columns by probability."""
        with self._lock:
            item = self.journal.items[self._place(id_)]
            sentence, fixed = _read(item)
            _require_word(word, len(sentence))
            found = self.engine.choices(sentence.words, sentence.spaces, fixed, word)
            return {name: [list(pair) for pair in own] for name, own in found.items()}

    def best_trees(self, id_: int) -> list[dict[str, Any]]:
        """The n best parses of a sentence with what is fixed."""
        with self._lock:
            sentence, fixed = _read(self.journal.items[self._place(id_)])
            # fixed labels are in all of them
            return [
                {
                    "heads": heads,
                    "labels": [
                        own["deprel"] if own["deprel"] != _FREE else label
                        for own, label in zip(fixed, labels, strict=True)
                    ],
                    "logprob": log_prob,
                }
                for heads, labels, log_prob in self.engine.best_trees(
                    sentence.words, sentence.spaces, fixed, _N_BEST
                )
            ]

    def search(self, query: str) -> list[dict[str, Any]]:
        """Sentences with a text, or with a word that has a value: `deprel=obj`, `upos=VERB`."""
        name, equals, value = query.strip().partition("=")
        is_value = bool(equals) and name in (*blocks.COLUMNS, "form", "note")
        found = []
        with self._lock:
            for place, item in enumerate(self.journal.items):
                sentence, _ = blocks.read_block(item.block)
                if not is_value:
                    fits = query.strip().lower() in sentence.text.lower()
                elif name == "note":
                    fits = value in blocks.note_of(item.block)
                elif name == "form":
                    fits = value in sentence.words
                else:
                    fits = any(own[name] == value for own in blocks.values(item.block))
                if fits:
                    found.append(
                        {
                            "id": item.id,
                            "place": place,
                            "text": sentence.text[:200],
                            "status": item.status,
                        }
                    )
                    if len(found) == _MOST_FOUND:
                        break
        return found

    def neighbour(self, id_: int, step: int) -> int:
        """The sentence before or after one in the file."""
        with self._lock:
            place = self._place(id_) + step
            return self.journal.items[min(max(place, 0), len(self.journal.items) - 1)].id

    # ---- what learners ask

    def annotated(self) -> tuple[str, int]:
        """What was annotated, as CoNLL-U: accepted sentences, and fixed arcs of others; and how many of the
        first there are."""
        with self._lock:
            items = list(self.journal.items)
        accepted = [item.block for item in items if item.status == ACCEPTED]
        partial = [
            _partial(item, self._analysis(item).words)
            for item in items
            if item.status != ACCEPTED and _has_heads(item)
        ]
        return "".join(_closed(block) for block in [*accepted, *partial]), len(accepted)

    def unfinished(self) -> tuple[str, list[int]]:
        """The sentences that are not accepted yet, as CoNLL-U, and their ids."""
        with self._lock:
            items = [item for item in self.journal.items if item.status != ACCEPTED]
        return "".join(_closed(item.block) for item in items), [item.id for item in items]

    def swap(self, engine: Engine | None, scores: Mapping[int, float]) -> None:
        """Go on with another pipeline, and with other expected errors."""
        with self._lock:
            self.engine = engine or self.engine
            self.scores = dict(scores)

    # ---- what is shown

    def _place(self, id_: int) -> int:
        for place, item in enumerate(self.journal.items):
            if item.id == id_:
                return place
        raise SpectralError(Errors.S670)

    def _next(self, after: int = -1) -> int | None:
        """The next sentence in order; None if there is none. Skipped ones come last."""
        items = self.journal.items
        for status in (OPEN, SKIPPED):
            places = [i for i, item in enumerate(items) if item.status == status]
            if not places:
                continue
            if self.order == "document":
                return items[next((i for i in places if i > after), places[0])].id
            if self.order == "random":
                return min((items[i].id for i in places), key=_shuffled)
            # those that nobody has scored yet come after the others, in order of the file
            return max((items[i].id for i in places), key=lambda own: self.scores.get(own, -1.0))
        return None

    def _shown(self, place: int) -> dict[str, Any]:
        item = self.journal.items[place]
        sentence, fixed = _read(item)
        found = self.engine.analyse(sentence.words, sentence.spaces, fixed)
        words = []
        for i, own in enumerate(found.words):
            words.append(
                own
                | {
                    "form": sentence.words[i],
                    "space": sentence.spaces[i],
                    "p": round(found.head_probs[i], 4),
                    "q": round(found.label_probs[i], 4),
                    "others": [[head, round(prob, 4)] for head, prob in found.others[i]],
                    "fixed": fixed[i]["head"] != _FREE,
                    "edited": sorted(item.edits.get(i + 1, {})),
                }
            )
        return {
            "id": item.id,
            "place": place,
            "text": sentence.text,
            "sent_id": sentence.sent_id,
            "note": blocks.note_of(item.block),
            "status": item.status,
            "fixes": item.fixes,
            "words": words,
            "ranges": [[first + 1, last + 1, form] for first, last, form in sentence.multiword],
            "problems": _problems(item, found),
            "model": self.engine.told,
        }

    def _panel(self) -> dict[str, Any]:
        items = self.journal.items
        accepted = [item for item in items if item.status == ACCEPTED]
        fixes = [item.fixes for item in accepted]
        judged = [item.proposed for item in accepted if item.proposed is not None]
        own = [p for p in judged if p[3] == self.engine.number] or judged[-_RECENT:]
        n_words = sum(p[2] for p in own)
        return {
            "accepted": len(accepted),
            "skipped": sum(item.status == SKIPPED for item in items),
            "left": sum(item.status == OPEN for item in items),
            "fixes": round(sum(fixes) / len(fixes), 2) if fixes else None,
            "model": self.engine.told,
            "learning": self.learning,
            "judged": len(own),
            "uas": round(100 * sum(p[0] for p in own) / n_words, 1) if n_words else None,
            "las": round(100 * sum(p[1] for p in own) / n_words, 1) if n_words else None,
        }

    # ---- what is done: each returns the sentence to be shown, None for the next one

    def _make(self, change: Change, *, sync: bool) -> None:
        back = self.journal.append(change, sync=sync)
        self._undo = [*self._undo, back][-_MOST_UNDO:]
        self._redo = []

    def _edit(self, item: Item, edits: Mapping[int, Mapping[str, str]]) -> int:
        """Fix values, on top of what was fixed before."""
        merged = {word: dict(own) for word, own in item.edits.items()}
        for word, own in edits.items():
            merged[word] = {**merged.get(word, {}), **own}
        new = replace(item, edits=merged, fixes=item.fixes + 1)
        self._make(Change(self._place(item.id), 1, (new,)), sync=False)
        return item.id

    def _set_head(self, item: Item, what: dict[str, Any]) -> int:
        sentence, fixed = _read(item)
        word, head = _number(what, "word"), _number(what, "head")
        _require_word(word, len(sentence))
        if not 0 <= head <= len(sentence) or head == word:
            raise _refused("head")
        edits: dict[int, dict[str, str]] = {word: {"head": str(head), "deprel": _FREE}}
        for other in _in_the_way(fixed, word, head):
            edits[other] = {"head": _FREE, "deprel": _FREE}
        return self._edit(item, edits)

    def _set_label(self, item: Item, what: dict[str, Any]) -> int:
        sentence, fixed = _read(item)
        word, label = _number(what, "word"), _text(what, "value")
        _require_word(word, len(sentence))
        head = self._analysis(item).words[word - 1]["head"]
        if not _LABEL.fullmatch(label) or head == _FREE or (label == "root") != (head == "0"):
            raise _refused("value")
        edits: dict[int, dict[str, str]] = {word: {"head": head, "deprel": label}}
        for other in _in_the_way(fixed, word, int(head)):
            edits[other] = {"head": _FREE, "deprel": _FREE}
        return self._edit(item, edits)

    def _set_value(self, item: Item, what: dict[str, Any]) -> int:
        sentence, _ = _read(item)
        word, name, value = _number(what, "word"), _text(what, "name"), _text(what, "value").strip()
        _require_word(word, len(sentence))
        value = value or _FREE
        sound = name in _FIELDS and not any(c in value for c in "\t\r\n\v\f\x85\u2028\u2029")
        if name == "upos":
            sound = sound and value in UPOS
        if name == "feats" and value != _FREE:
            value = "|".join(sorted(value.split("|"), key=str.lower))
            sound = sound and bool(FEATS.fullmatch(value))
        if name == "xpos":
            sound = sound and not re.search(r"\s", value)
        if not sound:
            raise _refused("value")
        edits = {name: value}
        # what follows from the part of speech is found anew
        if name == "upos":
            edits |= {"xpos": _FREE, "feats": _FREE}
        return self._edit(item, {word: edits})

    def _release(self, item: Item, what: dict[str, Any]) -> int:
        """Let the model decide about a word, or about all words."""
        sentence, _ = _read(item)
        words = range(1, len(sentence) + 1)
        if "word" in what:
            _require_word(_number(what, "word"), len(sentence))
            words = range(what["word"], what["word"] + 1)
        free = {"head": _FREE, "deprel": _FREE}
        return self._edit(item, dict.fromkeys(words, free))

    def _set_tree(self, item: Item, what: dict[str, Any]) -> int:
        """Take one of the n best."""
        trees, number = self.best_trees(item.id), _number(what, "number")
        if not 0 <= number < len(trees):
            raise _refused("number")
        shown, tree = self._analysis(item).words, trees[number]
        edits = {
            i: {"head": str(head), "deprel": label}
            for i, (head, label) in enumerate(zip(tree["heads"], tree["labels"], strict=True), 1)
            if (shown[i - 1]["head"], shown[i - 1]["deprel"]) != (str(head), label)
        }
        return self._edit(item, edits) if edits else item.id

    def _split_token(self, item: Item, what: dict[str, Any]) -> int:
        block = blocks.split_token(_merged(item), _number(what, "word"), _number(what, "at"))
        return self._restructure(item, block)

    def _join_tokens(self, item: Item, what: dict[str, Any]) -> int:
        return self._restructure(item, blocks.join_tokens(_merged(item), _number(what, "word")))

    def _restructure(self, item: Item, *new: str, at: int | None = None, remove: int = 1) -> int:
        for block in new:
            _require_valid(block)
        first = max(own.id for own in self.journal.items) + 1
        put = [
            Item(item.id if i == 0 else first + i - 1, block, fixes=item.fixes + (i == 0))
            for i, block in enumerate(new)
        ]
        place = self._place(item.id) if at is None else at
        self._make(Change(place, remove, tuple(put)), sync=True)
        return put[0].id

    def _split_sentence(self, item: Item, what: dict[str, Any]) -> int:
        first, second = blocks.split_sentence(_merged(item), _number(what, "word"))
        return self._restructure(item, first, second)

    def _join_sentences(self, item: Item, what: dict[str, Any]) -> int:
        """Join a sentence with the one before it."""
        place = self._place(item.id)
        if place == 0:
            raise SpectralError(Errors.S672)
        before = self.journal.items[place - 1]
        block = blocks.join_sentences(_merged(before), _merged(item))
        return self._restructure(before, block, at=place - 1, remove=2)

    def _note(self, item: Item, what: dict[str, Any]) -> int:
        block = blocks.with_note(item.block, _text(what, "value"))
        _require_valid(block)
        self._make(Change(self._place(item.id), 1, (replace(item, block=block),)), sync=True)
        return item.id

    def _accept(self, item: Item, what: dict[str, Any]) -> int | None:
        sentence, fixed = _read(item)
        found = self._analysis(item)
        for i, own in enumerate(found.words):
            if _FREE in (own["head"], own["deprel"], own["upos"]):
                raise SpectralError(Errors.S671.format(word=i + 1, form=sentence.words[i]))
        block = _with(item.block, found.words)
        _require_valid(block)
        proposed = None
        if self.engine.nlp is not None:
            free: list[Values] = [dict.fromkeys(blocks.COLUMNS, _FREE) for _ in fixed]
            guess = self.engine.analyse(sentence.words, sentence.spaces, free).words
            pairs = list(zip(guess, found.words, strict=True))
            heads = [a["head"] == b["head"] for a, b in pairs]
            both = [
                h and a["deprel"] == b["deprel"] for h, (a, b) in zip(heads, pairs, strict=True)
            ]
            proposed = (sum(heads), sum(both), len(pairs), self.engine.number)
        place = self._place(item.id)
        new = replace(item, block=block, edits={}, status=ACCEPTED, proposed=proposed)
        self._make(Change(place, 1, (new,)), sync=True)
        return self._next(place)

    def _skip(self, item: Item, what: dict[str, Any]) -> int | None:
        place = self._place(item.id)
        self._make(Change(place, 1, (replace(item, status=SKIPPED),)), sync=True)
        return self._next(place)

    def _take_back(self, done: list[Change], undone: list[Change]) -> int | None:
        if not done:
            raise SpectralError(Errors.S673)
        change = done[-1]
        undone.append(self.journal.append(change, sync=True))
        done.pop()
        return change.put[0].id if change.put else None

    def _set_order(self, item: Item, what: dict[str, Any]) -> int:
        order = _text(what, "value")
        if order not in ORDERS:
            raise _refused("value")
        self.order = order
        return item.id

    def _analysis(self, item: Item) -> Analysis:
        sentence, fixed = _read(item)
        return self.engine.analyse(sentence.words, sentence.spaces, fixed)


def _read(item: Item) -> tuple[Sentence, list[Values]]:
    """A sentence, and what is fixed of each word: by its file, or by hand since."""
    sentence, _ = blocks.read_block(item.block)
    given = blocks.values(item.block)
    return sentence, [own | item.edits.get(i, {}) for i, own in enumerate(given, start=1)]


def _with(block: str, words: Sequence[Values]) -> str:
    """A block with other values; lines in which nothing changes stay as they are."""
    changes: dict[int, dict[str, str]] = {}
    for i, (old, new) in enumerate(zip(blocks.values(block), words, strict=True), start=1):
        own = {name: new[name] for name in blocks.COLUMNS if new[name] != old[name]}
        if own:
            changes[i] = own
    return blocks.with_values(block, changes)


def _merged(item: Item) -> str:
    """The block with what was fixed."""
    return _with(item.block, _read(item)[1]) if item.edits else item.block


def _partial(item: Item, shown: Sequence[Values]) -> str:
    """The block with no arcs but those that were fixed by hand; their labels are those that were shown."""
    free = {"head": _FREE, "deprel": _FREE}
    words = []
    for i, (own, seen) in enumerate(zip(_read(item)[1], shown, strict=True), start=1):
        arc = {name: seen[name] for name in free}
        is_fixed = item.edits.get(i, free).get("head", _FREE) != _FREE
        words.append({**own, **(arc if is_fixed and _FREE not in arc.values() else free)})
    return _with(item.block, words)


def _has_heads(item: Item) -> bool:
    return any(own.get("head", _FREE) != _FREE for own in item.edits.values())


def _closed(block: str) -> str:
    """A block with an empty line behind it, whatever follows in a file."""
    return block.removeprefix("\ufeff").rstrip("\r\n") + "\n\n"


def _in_the_way(fixed: Sequence[Values], word: int, head: int) -> list[int]:
    """Words whose fixed heads can't be in one tree with a new one: of a ring, or of a second root."""
    heads = {i: int(own["head"]) for i, own in enumerate(fixed, 1) if own["head"] != _FREE}
    heads.pop(word, None)
    if head == 0:
        return [i for i, own in heads.items() if own == 0]
    path, at = [], head
    while at in heads:
        path.append(at)
        at = heads[at]
        if at == word:
            return path[-1:]
    return []


def _problems(item: Item, found: Analysis) -> list[list[Any]]:
    """What is wrong, by word: rules of the format, and of Universal Dependencies."""
    block = _with(item.block, found.words)
    sentence, problems = blocks.read_block(block)
    result: list[list[Any]] = [[word, message] for word, message in problems]
    missing = [i for i, own in enumerate(found.words, 1) if own["head"] == _FREE]
    if not problems and not missing:
        heads = [int(own["head"]) for own in found.words]
        labels = [own["deprel"] for own in found.words]
        broken = violations(heads, labels, sentence.upos, sentence.feats)
        result += [[own.position, own.rule] for own in broken]
    return result


def _require_valid(block: str) -> None:
    _, problems = blocks.read_block(block)
    if problems:
        raise SpectralError(problems[0][1])


def _require_word(word: int, n: int) -> None:
    if not 1 <= word <= n:
        raise _refused("word")


def _number(what: Mapping[str, Any], name: str) -> int:
    value = what.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _refused(name)
    return value


def _text(what: Mapping[str, Any], name: str) -> str:
    value = what.get(name)
    if not isinstance(value, str) or len(value) > _MOST_TEXT or any(c in value for c in "\ufeff\0"):
        raise _refused(name)
    return value


def _refused(name: str) -> SpectralError:
    return SpectralError(Errors.S674.format(name=name))


def _shuffled(id_: int) -> bytes:
    return blake2b(str(id_).encode()).digest()
