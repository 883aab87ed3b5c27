"""INCEpTION's external-recommender protocol: a document comes as XMI, and goes back with predictions.

    {"metadata": {"layer", "feature", ...}, "document": {"xmi", ...}, "typeSystem"}  ->  {"document": xmi}

Words and sentences are those of the document. New annotations are put into its text in front of the view that
gets them as members, and nothing else is changed: UIMA looks up `xmi:id` by that very name, which libraries
for XML do not keep. Offsets are those of Java: they count units of UTF-16.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from spacy.tokens import Token

from ..base.errors import Errors, SpectralError
from ..pipeline.annotations import dep_prob, head_prob, tag_probs
from ..treebank.conllu import Sentence
from .models import PARSER, TAGGER, Model
from .udpipe import bare_doc

_DKPRO = "de.tudarmstadt.ukp.dkpro.core.api."
_TOKEN = f"{_DKPRO}segmentation.type.Token"
_SENTENCE = f"{_DKPRO}segmentation.type.Sentence"
_LEMMA = f"{_DKPRO}segmentation.type.Lemma"
_POS = f"{_DKPRO}lexmorph.type.pos.POS"
DEPENDENCY = f"{_DKPRO}syntax.type.dependency.Dependency"
LAYERS = {
    (_POS, "PosValue"): TAGGER,
    (_POS, "coarseValue"): TAGGER,
    (f"{_DKPRO}lexmorph.type.morph.MorphologicalFeatures", "value"): TAGGER,
    (_LEMMA, "value"): TAGGER,
    (DEPENDENCY, "DependencyType"): PARSER,
}
_FLAG = "inception_internal_predicted"
_XMI = "http://www.omg.org/XMI"
_CAS = "http:///uima/cas.ecore"
_LEAST = 0.01  # tags that are less probable are not proposed
_MEMBERS = re.compile(rb"(\smembers\s*=\s*([\"']).*?)(?=\2)(\2)", re.S)


@dataclass
class Element:
    """An element of XMI: its type, its attributes, and where it begins in the text, in bytes."""

    type: str
    attributes: dict[str, str]
    begin: int


@dataclass
class Cas:
    """A document, with those of its elements that matter here."""

    xmi: bytes
    elements: list[Element] = field(default_factory=list)
    prefixes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, xmi: str) -> "Cas":
        """Read a document."""
        data = _encoded(xmi)
        cas = cls(data)
        parser = expat.ParserCreate("utf-8", " ")
        parser.namespace_prefixes = True

        def begin(name: str, attributes: dict[str, str]) -> None:
            uri, _, rest = name.partition(" ")
            local = rest.partition(" ")[0]
            # with a namespace, a name is "address name prefix"
            own = {key.split(" ")[" " in key]: value for key, value in attributes.items()}
            cas.elements.append(Element(_type(uri, local), own, parser.CurrentByteIndex))

        def declare(prefix: str | None, uri: str | None) -> None:
            if prefix and uri:
                cas.prefixes.setdefault(uri, prefix)

        def refuse(*_: Any) -> None:
            raise SpectralError(Errors.S683.format(reason="it declares a document type"))

        parser.StartElementHandler = begin
        parser.StartNamespaceDeclHandler = declare
        parser.StartDoctypeDeclHandler = refuse
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            raise SpectralError(Errors.S683.format(reason=error)) from error
        if cas.prefixes.get(_XMI) != "xmi":
            raise SpectralError(Errors.S683.format(reason="it is no XMI"))
        return cas

    def of_type(self, name: str) -> list[Element]:
        """The elements of a type."""
        return [element for element in self.elements if element.type == name]

    def with_annotations(self, layer: str, added: list[dict[str, str]], sofa: str) -> str:
        """The document with more annotations of a layer."""
        view = next(
            (v for v in self.of_type("uima.cas.View") if v.attributes.get("sofa") == sofa), None
        )
        if view is None:
            raise SpectralError(Errors.S683.format(reason="it has no View"))
        package, _, local = layer.rpartition(".")
        uri = f"http:///{package.replace('.', '/')}.ecore"
        prefix = self.prefixes.get(uri)
        declared = "" if prefix else f" xmlns:predicted={quoteattr(uri)}"
        numbers = (e.attributes.get("id", "") for e in self.elements)
        first = 1 + max((int(n) for n in numbers if n.isascii() and n.isdigit()), default=0)
        lines = []
        for i, own in enumerate(added, start=first):
            values = {"xmi:id": str(i), "sofa": sofa} | own
            told = " ".join(f"{name}={quoteattr(value)}" for name, value in values.items())
            lines.append(f"<{prefix or 'predicted'}:{local}{declared} {told}/>")
        ids = " ".join(map(str, range(first, first + len(added)))).encode()
        head, tail = self.xmi[: view.begin], self.xmi[view.begin :]
        end = tail.index(b">")
        tag, number = _MEMBERS.subn(lambda m: m[1] + b" " + ids + m[3], tail[:end], count=1)
        if not number:
            closing = b"/" if tag.endswith(b"/") else b""
            tag = tag.removesuffix(b"/") + b' members="' + ids + b'"' + closing
        text = head + "".join(lines).encode("utf8") + tag + tail[end:]
        return '<?xml version="1.0" encoding="UTF-8"?>' + text.decode("utf8")


def _type(uri: str, local: str) -> str:
    """The name of a type: http:///uima/cas.ecore and View are uima.cas.View."""
    package = uri.removeprefix("http:///").removesuffix(".ecore").replace("/", ".")
    return f"{package}.{local}" if uri.startswith("http:///") else local


def predict(model: Model, request: Mapping[str, Any]) -> dict[str, str]:
    """Answer a request for predictions."""
    metadata, document = (_object(request, name) for name in ("metadata", "document"))
    layer, feature = (_string(metadata, name) for name in ("layer", "feature"))
    if (layer, feature) not in LAYERS:
        known = ", ".join(f"{name} {own}" for name, own in LAYERS)
        told = {"layer": layer[:200], "feature": feature[:200], "known": known}
        raise SpectralError(Errors.S684.format(**told))
    stage = LAYERS[layer, feature]
    if stage not in model.abilities:
        raise SpectralError(Errors.S681.format(model=model.name, what=stage, name=layer))
    cas = Cas.read(_string(document, "xmi"))
    sofa, tokens, sentences = _words(cas)
    if not sentences:
        return {"document": _string(document, "xmi")}
    stages = [TAGGER, PARSER] if stage == PARSER else [TAGGER]
    doc = model.run(bare_doc(model, sentences, keep_tags=False), stages)
    features = _features(_string(request, "typeSystem"), layer)
    added = []
    for word, token in zip(doc, tokens, strict=True):
        place = {name: token.attributes[name] for name in ("begin", "end")}
        if stage == PARSER:
            # the root depends on itself
            ends = (("Governor", tokens[word.head.i]), ("Dependent", token))
            place |= {name: element.attributes["id"] for name, element in ends}
        for label, score in _labels(model, word, layer, feature):
            own = {_FLAG: "true"}
            if score is not None:
                own[f"{feature}_score"] = f"{score:.4f}"
            # what the layer does not have would be refused
            own = {name: value for name, value in own.items() if name in features}
            added.append(place | {feature: label} | own)
    return {"document": cas.with_annotations(layer, added, sofa)}


def _labels(
    model: Model, word: Token, layer: str, feature: str
) -> Iterator[tuple[str, float | None]]:
    """What is proposed for a word, with probabilities."""
    if layer == DEPENDENCY:
        head, label = head_prob(word), dep_prob(word)
        prob = head * label if head is not None and label is not None else None
        yield "root" if word.head.i == word.i else word.dep_, prob
    elif feature == "PosValue":
        found = [(tag, prob) for tag, prob in tag_probs(word).items() if prob >= _LEAST]
        if found:
            yield from found
        else:
            yield word.tag_, None
    elif feature == "coarseValue":
        own = [p for tag, p in tag_probs(word).items() if (tag, word.pos_) in model.tag_classes]
        yield word.pos_, min(sum(own), 1.0) if own else None
    elif value := word.lemma_ if layer == _LEMMA else str(word.morph):
        yield value, None


def _words(cas: Cas) -> tuple[str, list[Element], list[Sentence]]:
    """The id of the text that has words, its words in order, and its sentences."""
    for sofa in cas.of_type("uima.cas.Sofa"):
        id_, text = sofa.attributes.get("id"), sofa.attributes.get("sofaString")
        if id_ and text:
            break
    else:
        raise SpectralError(Errors.S683.format(reason="it has no text"))
    units = text.encode("utf-16-le", "surrogatepass")

    def own(name: str) -> list[tuple[int, int, Element]]:
        found = []
        for element in cas.of_type(name):
            values = element.attributes
            if values.get("sofa") != id_:
                continue
            begin, end = (values.get(side, "") for side in ("begin", "end"))
            sound = all(n.isascii() and n.isdigit() and len(n) < 10 for n in (begin, end))
            if not sound or not int(begin) <= int(end) <= len(units) // 2 or "id" not in values:
                reason = f"a {name} is outside of its text, or has no id"
                raise SpectralError(Errors.S683.format(reason=reason))
            found.append((int(begin), int(end), element))
        return sorted(found, key=lambda place: place[:2])

    starts = [begin for begin, _, _ in own(_SENTENCE)]
    kept: list[Element] = []
    sentences: list[Sentence] = []
    last, last_number = 0, -1
    for begin, end, element in own(_TOKEN):
        form = " ".join(units[2 * begin : 2 * end].decode("utf-16-le", "replace").split())
        if not form or begin < last:
            continue
        number = bisect_right(starts, begin)
        if number != last_number:
            sentences.append(Sentence())
        words = sentences[-1].words
        if words and begin == last:
            sentences[-1].after[-1] = ""
        words.append(form)
        sentences[-1].after.append(" ")
        kept.append(element)
        last, last_number = end, number
    return id_, kept, [Sentence.of_words(own.words, own.after) for own in sentences]


def _features(system: str, layer: str) -> set[str]:
    """The features of a layer, by the description of all types; those of types above it included."""
    types: dict[str, tuple[str, set[str]]] = {}
    path: list[str] = []
    name = above = ""
    features: set[str] = set()
    parser = expat.ParserCreate("utf-8", " ")

    def begin(tag: str, attributes: dict[str, str]) -> None:
        nonlocal name, above, features
        path.append(tag.rpartition(" ")[2])
        if path[-1] == "typeDescription":
            name, above, features = "", "", set()

    def end(tag: str) -> None:
        if path.pop() == "typeDescription":
            types[name.strip()] = (above.strip(), {own.strip() for own in features})

    def text(data: str) -> None:
        nonlocal name, above
        if path[-2:] == ["typeDescription", "name"]:
            name += data
        elif path[-2:] == ["typeDescription", "supertypeName"]:
            above += data
        elif path[-2:] == ["featureDescription", "name"]:
            features.add(data)

    def refuse(*_: Any) -> None:
        raise SpectralError(Errors.S683.format(reason="its types declare a document type"))

    parser.buffer_text = True  # a name comes whole
    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = text, refuse
    try:
        parser.Parse(_encoded(system), True)
    except expat.ExpatError as error:
        raise SpectralError(Errors.S683.format(reason=f"its types: {error}")) from error
    found: set[str] = set()
    while layer in types:
        layer, own = types.pop(layer)  # a type that is above itself ends here
        found |= own
    return found


def _encoded(xml: str) -> bytes:
    """A document as UTF-8, whatever its first line says."""
    return re.sub(r"\A\s*<\?xml[^>]*\?>", "", xml).encode("utf8")


def _object(request: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = request.get(name)
    if not isinstance(value, dict):
        raise SpectralError(Errors.S679.format(name=name))
    return value


def _string(request: Mapping[str, Any], name: str) -> str:
    value = request.get(name)
    if not isinstance(value, str):
        raise SpectralError(Errors.S679.format(name=name))
    return value
