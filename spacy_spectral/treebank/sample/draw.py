"""Draw the sample treebank: trees from the automata of `grammar.py`, then words for the trees.

Tags and tree come first and words are chosen given both, so P(tree | tags) is exactly that of the
automata. Sentences beyond `MAX_LENGTH` are drawn again: whether one is kept depends on its length
alone, so that leaves P(tree | tags) as it is too.
"""

from pathlib import Path
from random import Random

from ...base.files import write_directory
from ..brackets import Tree, write_tree
from ..conllu import Sentence
from .grammar import LEFT, RIGHT, ROOT, STOP, automata
from .words import penn_tag, realise

MAX_LENGTH = 40
# sentences of a document and of a paragraph
DOCUMENT, PARAGRAPH = 20, 5


def write_sample(
    output: str | Path, *, seed: int = 0, train: int = 4000, dev: int = 500, test: int = 500
) -> list[Path]:
    """Write `sample-{train,dev,test}.conllu` and the bracketed trees beside them as `.ptb`; the same
    seed and sizes give the same bytes."""
    texts: dict[str, str] = {}
    for part, size in (("train", train), ("dev", dev), ("test", test)):
        # a stream for each part: its sentences do not depend on the sizes of the others
        random = Random(f"spacy-spectral sample {part} {seed}")
        sentences = [draw_sentence(random) for _ in range(size)]
        conllu = "".join(_to_conllu(sentence, part, i) for i, sentence in enumerate(sentences))
        brackets = "".join(write_tree(constituents(sentence)) + "\n" for sentence in sentences)
        texts |= {f"sample-{part}.conllu": conllu, f"sample-{part}.ptb": brackets}

    def write(directory: Path) -> None:
        for name, text in texts.items():
            (directory / name).write_bytes(text.encode("utf8"))

    write_directory(output, write)
    return [Path(output) / name for name in texts]


def draw_sentence(random: Random) -> Sentence:
    """Draw one sentence, of at most `MAX_LENGTH` tokens."""
    while True:
        sentence = draw_tree(random)
        if len(sentence.heads) <= MAX_LENGTH:
            realise(sentence, random)
            return sentence


def draw_tree(random: Random) -> Sentence:
    """Draw tags, heads and relations from the automata, whatever the length: a sentence without words."""
    tags: list[str] = []
    parents: list[int] = []
    relations: list[str] = []
    order: list[int] = []  # the nodes from left to right

    def grow(tag: str, relation: str, parent: int) -> None:
        node = len(tags)
        tags.append(tag)
        relations.append(relation)
        parents.append(parent)
        # modifiers come nearest first: on the left the farthest stands first in the sentence
        for modifier, label in reversed(draw_modifiers(tag, LEFT, random)):
            grow(modifier, label, node)
        order.append(node)
        for modifier, label in draw_modifiers(tag, RIGHT, random):
            grow(modifier, label, node)

    ((tag, relation),) = draw_modifiers(ROOT, RIGHT, random)
    grow(tag, relation, 0)
    position = {node: i for i, node in enumerate(order)}
    return Sentence(
        xpos=[tags[node] for node in order],
        heads=[position[parents[node]] for node in order],
        deps=[relations[node] for node in order],
    )


def draw_modifiers(head: str, direction: int, random: Random) -> list[tuple[str, str]]:
    """Run one automaton: the tags and relations of the modifiers, nearest first."""
    automaton = automata()[head, direction]
    (_, state) = _choose(automaton.start, random)
    modifiers: list[tuple[str, str]] = []
    while True:
        _, tag, relation, state = _choose(automaton.states[state], random)
        if tag == STOP:
            return modifiers
        modifiers.append((tag, relation))


def _choose(alternatives: tuple, random: Random) -> tuple:
    """One of the alternatives, whose first entry is the probability."""
    threshold = random.random()
    for alternative in alternatives:
        threshold -= alternative[0]
        if threshold < 0:
            return alternative
    return alternatives[-1]


def _to_conllu(sentence: Sentence, part: str, i: int) -> str:
    lines = [f"# sent_id = {part}-{i + 1}", f"# text = {sentence.text}"]
    if i % DOCUMENT == 0:
        lines.insert(0, f"# newdoc id = {part}-{i // DOCUMENT + 1}")
    elif i % PARAGRAPH == 0:
        lines.insert(0, "# newpar")
    for i, head in enumerate(sentence.heads):
        columns = [
            str(i + 1),
            sentence.words[i],
            sentence.lemmas[i],
            sentence.upos[i],
            sentence.xpos[i],
            sentence.feats[i] or "_",
            "0" if head == i else str(head + 1),
            sentence.deps[i],
            "_",
            "_" if sentence.spaces[i] else "SpaceAfter=No",
        ]
        lines.append("\t".join(columns))
    return "\n".join(lines) + "\n\n"


# Constituents: each head of a dependency tree projects its phrases.
# What stands inside the smallest noun phrase; anything else is adjoined to it
_NOUN_CORE = {"det", "amod", "compound", "nummod", "nmod:poss", "flat"}


def constituents(sentence: Sentence) -> Tree:
    """Derive the constituency tree, with the words in the order of the sentence."""
    root = next(i for i, head in enumerate(sentence.heads) if head == i)
    return Tree("ROOT", [_Projection(sentence).phrase(root)])


class _Projection:
    def __init__(self, sentence: Sentence) -> None:
        self.sentence = sentence
        self.children: list[list[int]] = [[] for _ in sentence.heads]
        for i, head in enumerate(sentence.heads):
            if head != i:
                self.children[head].append(i)

    def leaf(self, i: int) -> Tree:
        return Tree(penn_tag(self.sentence.xpos[i]), word=self.sentence.words[i])

    def split(self, i: int, relations: set[str]) -> tuple[list[int], list[int]]:
        """The children of a word in the given relations, and the others."""
        inside = [c for c in self.children[i] if self.sentence.deps[c] in relations]
        return inside, [c for c in self.children[i] if c not in inside]

    def phrase(self, i: int) -> Tree:
        tag = penn_tag(self.sentence.xpos[i])
        if tag in ("NN", "NNS", "NNP", "PRP"):
            return self.leaf(i) if self.sentence.xpos[i] in ("NN-M", "NNP-F") else self.noun(i)
        if tag.startswith("VB") or self.sentence.xpos[i] == "JJ-Z":
            return self.clause(i)
        if tag == "JJ":
            return self.adjective(i)
        if tag == "RB":
            if self.sentence.xpos[i] == "RB-D":
                return self.leaf(i)
            return Tree("ADVP", [*map(self.phrase, self.children[i]), self.leaf(i)])
        return self.leaf(i)

    def conjoin(self, label: str, first: Tree, conjuncts: list[int]) -> Tree:
        """`(NP (NP ...) (CC and) (NP ...))`: the conjunction of UD's conjunct is a sister here."""
        if not conjuncts:
            return first
        parts = [first]
        for conjunct in conjuncts:
            links, _ = self.split(conjunct, {"cc", "punct"})
            parts += [self.leaf(link) for link in links]
            parts.append(self.phrase(conjunct))
        return Tree(label, parts)

    def noun(self, i: int) -> Tree:
        core, others = self.split(i, _NOUN_CORE)
        genitive = self.sentence.xpos[i] == "NNP-G"
        case = [c for c in others if self.sentence.deps[c] == "case"]
        others = [c for c in others if self.sentence.deps[c] not in ("case", "cc", "punct")]
        words = sorted([*core, i, *(case if genitive else [])])
        phrase = Tree("NP", [self.leaf(w) if w == i else self.phrase(w) for w in words])
        for other in others:
            if self.sentence.deps[other] != "conj":
                phrase = Tree("NP", [phrase, self.phrase(other)])
        phrase = self.conjoin("NP", phrase, [c for c in others if self.sentence.deps[c] == "conj"])
        if case and not genitive:
            return Tree("PP", [self.leaf(case[0]), phrase])
        return phrase

    def adjective(self, i: int) -> Tree:
        conjuncts, others = self.split(i, {"conj"})
        words = [*(c for c in others if self.sentence.deps[c] != "cc"), i]
        phrase = self.leaf(i)
        if len(words) > 1:
            phrase = Tree("ADJP", [self.leaf(w) for w in words])
        return self.conjoin("ADJP", phrase, conjuncts)

    def clause(self, i: int) -> Tree:
        """S, SBAR, VP or S without subject, by what the verb has on its left."""
        deps, tags = self.sentence.deps, self.sentence.xpos
        left = [c for c in self.children[i] if c < i and deps[c] != "cc"]
        conjunct = tags[i] in ("VBD-C", "VBD-L")
        if conjunct:
            left = [c for c in left if deps[c] != "punct"]
        right = [c for c in self.children[i] if c > i]
        full_stop = [self.leaf(c) for c in right if deps[c] == "punct"]
        coordinated = [c for c in right if deps[c] == "conj"]
        right = [c for c in right if deps[c] not in ("punct", "conj")]
        subject = next((c for c in left if deps[c] == "nsubj"), None)
        relative = next((c for c in left if tags[c] == "WDT"), None)
        mark = next((c for c in left if deps[c] == "mark"), None)

        inside = [c for c in left if subject is None or c > subject]
        inside = [c for c in inside if c not in (mark, relative)]
        verb_phrase = self.verb_phrase(i, inside, right)
        shared = [c for c in coordinated if not self.has_subject(c)]
        verb_phrase = self.conjoin("VP", verb_phrase, shared)
        if mark is not None and tags[mark] == "TO":
            return Tree("S", [Tree("VP", [self.leaf(mark), verb_phrase])])
        parts = [verb_phrase]
        if subject is not None and subject != relative:
            parts.insert(0, self.phrase(subject))
        elif relative is None and (conjunct or deps[i] == "acl"):
            return verb_phrase
        fronted = [c for c in left if subject is not None and c < subject]
        adjuncts = [self.phrase(c) for c in fronted if c not in (mark, relative)]
        clause = Tree("S", adjuncts + parts)
        separate = [c for c in coordinated if self.has_subject(c)]
        clause = self.conjoin("S", clause, separate)
        clause.children += full_stop
        if relative is not None:
            return Tree("SBAR", [Tree("WHNP", [self.leaf(relative)]), clause])
        if mark is not None:
            return Tree("SBAR", [self.leaf(mark), clause])
        return Tree("SBAR", [clause]) if deps[i] == "acl:relcl" else clause

    def verb_phrase(self, i: int, left: list[int], right: list[int]) -> Tree:
        """`(VP (MD will) (VP (VB see) ...))`, `(VP (AUX is) (ADJP (JJ happy) ...))`."""
        auxiliaries = [c for c in left if self.sentence.deps[c] in ("aux", "cop")]
        before = [self.phrase(c) for c in left if c not in auxiliaries]
        label = "ADJP" if self.sentence.xpos[i] == "JJ-Z" else "VP"
        phrase = Tree(label, [*before, self.leaf(i), *map(self.phrase, right)])
        for auxiliary in reversed(auxiliaries):
            phrase = Tree("VP", [self.leaf(auxiliary), phrase])
        return phrase

    def has_subject(self, i: int) -> bool:
        return any(self.sentence.deps[c] == "nsubj" for c in self.children[i])
