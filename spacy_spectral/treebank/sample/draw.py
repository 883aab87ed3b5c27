"""Draw the sample treebank: trees from the automata of `grammar.py`, then words for the trees.

Tags and tree come first and words are chosen given both, so P(tree | tags) is exactly that of the
automata. Sentences beyond `MAX_LENGTH` are drawn again: whether one is kept depends on its length
alone, so that leaves P(tree | tags) as it is too.
"""

from pathlib import Path
from random import Random

from ...base.serialize import write_directory
from ..brackets import write_tree
from ..conllu import Sentence
from .constituents import constituents
from .grammar import LEFT, RIGHT, ROOT, STOP, automata
from .words import realise

MAX_LENGTH = 40
# sentences of a document and of a paragraph
DOCUMENT, PARAGRAPH = 20, 5


def write_sample(
    output: str | Path, *, seed: int = 0, train: int = 4000, dev: int = 500, test: int = 500
) -> list[Path]:
    """Write `sample-{train,dev,test}.conllu` and the bracketed trees beside them as `.ptb`.

    seed: The same seed and sizes give the same bytes.
    """
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
    """Draw one sentence.

    RETURNS: The sentence, of at most `MAX_LENGTH` tokens.
    """
    while True:
        sentence = draw_tree(random)
        if len(sentence.heads) <= MAX_LENGTH:
            realise(sentence, random)
            return sentence


def draw_tree(random: Random) -> Sentence:
    """Draw tags, heads and relations from the automata, whatever the length.

    RETURNS: A sentence without words.
    """
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
    """Run one automaton.

    RETURNS: The tags and relations of the modifiers, nearest first.
    """
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
