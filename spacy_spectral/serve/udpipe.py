"""The protocol of UDPipe's web service: `/models` and `/process`, so that its clients can use pipelines.

A text is cut into sentences and words, or these are given in one of some formats. Either way they become
blocks of CoNLL-U. Tagging and parsing then fill in columns; all else in a block stays as it is.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spacy.tokens import Doc

from ..base.errors import Errors, SpectralError
from ..pipeline.words import end_char, keep_offsets, start_char, with_words
from ..treebank.conllu import Sentence
from ..treebank.documents import sentences_to_doc, set_sentence_starts
from ..treebank.write import write_doc
from ..trees.sentences import MISSING
from . import blocks
from .models import PARSER, SENTER, TAGGER, Model

INPUTS = ("conllu", "horizontal", "vertical", "generic_tokenizer")
OUTPUTS = ("conllu", "horizontal", "vertical", "plaintext")
_FILLED = {TAGGER: ("lemma", "upos", "xpos", "feats"), PARSER: ("head", "deprel")}
# of MISC: white space that is not a space
_OTHER_SPACES = re.compile(r"(?:\||(?<=\t))Spaces(?:After|Before)=[^|\n]*")
_NO_BREAK = "\u00a0"


def process(model: Model, fields: Mapping[str, str]) -> dict[str, Any]:
    """Answer a request.

    fields: Of its form: data, and tokenizer or input, tagger, parser, output.
    """
    if "data" not in fields:
        raise SpectralError(Errors.S679.format(name="data"))
    # forms of several parts have line ends of two characters, whatever the text has
    data = fields["data"].replace("\r\n", "\n")
    stages = [name for name in (TAGGER, PARSER) if fields.get(name, "none") != "none"]
    for name in stages:
        if name not in model.abilities:
            raise SpectralError(Errors.S681.format(model=model.name, what=name, name=name))
    kind = _choice("input", fields.get("input", "conllu").partition("=")[0], INPUTS)
    output, _, how = fields.get("output", "conllu").partition("=")
    _choice("output", output, OUTPUTS)
    text: str | None = None
    if "tokenizer" in fields or kind == "generic_tokenizer":
        found = _from_text(model, data, fields.get("tokenizer", ""), stages)
        text = data
    else:
        read = {"conllu": blocks.split_blocks, "horizontal": _lines_to_blocks}.get(kind)
        found = _fill(model, (read or _words_to_blocks)(data), stages)
    return {
        "model": model.name,
        "acknowledgements": model.acknowledgements,
        "result": text
        if (output, how) == ("plaintext", "") and text
        else _written(found, output, how),
    }


def _choice(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        told = f"'{value[:100]}'"
        raise SpectralError(Errors.S678.format(name=name, value=told, allowed=", ".join(allowed)))
    return value


def _from_text(model: Model, text: str, told: str, stages: list[str]) -> list[str]:
    """The sentences of a text."""
    # clients also send "1" or "true"; options that are not known are nothing, as for UDPipe
    options = {item.partition("=")[0].strip() for item in told.split(";")}
    if not text.strip():
        return []
    if "presegmented" in options:
        doc = model.nlp.make_doc(text)
        _begin_with_lines(doc)
        doc = model.run(doc, stages)
    elif len(stages) == 2 or model.abilities == ["tokenizer", *stages]:
        doc = model.nlp(text)
    else:
        doc = model.run(model.nlp.make_doc(text), [SENTER, *stages])
    words = with_words(doc)
    misc = None
    if "ranges" in options:
        if words is not doc:
            keep_offsets(words)
        misc = {w.i: [f"TokenRange={start_char(w)}:{end_char(w)}"] for w in words}
    written = write_doc(words, misc=misc)
    if "normalized_spaces" in options:
        written = _OTHER_SPACES.sub("", written).replace("\t|", "\t").replace("\t\n", "\t_\n")
    return blocks.split_blocks(written)


def _begin_with_lines(doc: Doc) -> None:
    """Every line is a sentence."""
    starts, ended = [], True
    for token in doc:
        starts.append(1 if ended and not token.is_space else -1)
        ended = (ended and token.is_space) or "\n" in token.text_with_ws
    if starts:
        starts[0] = 1
        set_sentence_starts(doc, starts)


def _fill(model: Model, found: list[str], stages: list[str]) -> list[str]:
    """Tag and parse sentences whose words are known."""
    sentences: list[Sentence] = []
    for number, block in enumerate(found, start=1):
        sentence, problems = blocks.read_block(block)
        for _, reason in problems[:1]:
            raise SpectralError(Errors.S682.format(number=number, reason=reason))
        sentences.append(sentence)
    if not stages or not sentences:
        return found
    doc = bare_doc(model, sentences, keep_tags=TAGGER not in stages)
    doc = model.run(doc, stages)
    names = [name for stage in stages for name in _FILLED[stage]]
    result = []
    for block, new in zip(found, blocks.split_blocks(write_doc(doc)), strict=True):
        rows = enumerate(blocks.values(new), start=1)
        changes = {i: {name: row[name] for name in names} for i, row in rows}
        result.append(blocks.with_values(block, changes))
    return result


def bare_doc(model: Model, sentences: list[Sentence], *, keep_tags: bool) -> Doc:
    """A document of words and sentences, perhaps with their tags, and without trees."""
    result = []
    for sentence in sentences:
        n = len(sentence)
        empty: Any = (
            {} if keep_tags else dict.fromkeys(("lemmas", "upos", "xpos", "feats"), [""] * n)
        )
        result.append(replace(sentence, heads=[MISSING] * n, deps=[""] * n, **empty))
    doc = sentences_to_doc(result, model.nlp.vocab)
    for token in doc:
        if not token.morph:
            token.set_morph(None)  # not known, which is not the same as none
    return doc


def _lines_to_blocks(text: str) -> list[str]:
    """A sentence a line, its words between spaces."""
    rows = [line.replace("\t", " ").split(" ") for line in text.split("\n")]
    return words_to_blocks([word.replace(_NO_BREAK, " ").strip() for word in row] for row in rows)


def _words_to_blocks(text: str) -> list[str]:
    """A word a line, an empty line after a sentence."""
    sentences: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip():
            sentences[-1].append(line.partition("\t")[0].strip())
        else:
            sentences.append([])
    return words_to_blocks(sentences)


def words_to_blocks(sentences: Any) -> list[str]:
    """Sentences of words as blocks; what is empty is left out."""
    result: list[str] = []
    for words in sentences:
        words = [" ".join(word.split()) for word in words if word.strip()]
        if words:
            lines = [f"# sent_id = {len(result) + 1}", f"# text = {' '.join(words)}"]
            lines += [f"{i}\t{word}" + "\t_" * 8 for i, word in enumerate(words, start=1)]
            result.append("\n".join(lines) + "\n\n")
    return result


def _written(found: list[str], output: str, how: str) -> str:
    if output == "conllu":
        return "".join(found)
    sentences = [blocks.read_block(block)[0] for block in found]
    if output == "plaintext":
        if how == "normalized_spaces":
            return "".join(f"{' '.join(s.text.split())}\n" for s in sentences)
        return "".join(s.text + (s.after[-1] or " ") for s in sentences)
    end, last = (" ", "\n") if output == "horizontal" else ("\n", "\n\n")
    return "".join(
        end.join(word.replace(" ", _NO_BREAK) for word in s.words) + last for s in sentences
    )
