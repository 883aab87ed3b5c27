"""INCEpTION's protocol: documents go back with predictions, and nothing else is changed."""

import json
import re

import pytest

pytest.importorskip("starlette", reason="the extra 'serve' is not installed")

from servers import ask, running
from spacy_spectral.serve.inception import DEPENDENCY, LAYERS
from spacy_spectral.serve.models import Model, Models
from spacy_spectral.serve.service import service_app

POS, LEMMA, MORPH = (
    next(layer for layer, _ in LAYERS if name in layer) for name in ("POS", "Lemma", "Morph")
)
CORE = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type"
XMI = """<?xml version="1.0" encoding="UTF-8"?><xmi:XMI xmlns:tcas="http:///uima/tcas.ecore" \
xmlns:xmi="http://www.omg.org/XMI" xmlns:cas="http:///uima/cas.ecore" \
xmlns:type4="http:///de/tudarmstadt/ukp/dkpro/core/api/segmentation/type.ecore" xmi:version="2.0">
  <cas:NULL xmi:id="0"/>
  <type4:Sentence xmi:id="19" sofa="1" begin="0" end="22"/>
  <type4:Sentence xmi:id="24" sofa="1" begin="23" end="35"/>
%s
  <cas:Sofa xmi:id="1" sofaNum="1" sofaID="_InitialView" mimeType="text" sofaString="%s"/>
  <cas:View sofa="1" members="19 24 %s"/>
</xmi:XMI>
"""
TEXT = "😀 The old cook laughed. A dog barked"
SENTENCES = [["😀", "The", "old", "cook", "laughed."], ["A", "dog", "barked"]]


@pytest.fixture(scope="module")
def model(learnt):
    return Model.load(f"en={learnt}")


@pytest.fixture(scope="module")
def port(model):
    with running(service_app(Models([model]))) as port:
        yield port


def utf16(text):
    return len(text.encode("utf-16-le")) // 2


@pytest.fixture
def xmi():
    tokens, at = [], 0
    for word in TEXT.split():
        begin = utf16(TEXT[: TEXT.index(word, at)])
        at = TEXT.index(word, at)
        tokens.append((begin, begin + utf16(word)))
    ids = [100 + 10 * i for i in range(len(tokens))]
    rows = [
        f'  <type4:Token xmi:id="{i}" sofa="1" begin="{a}" end="{b}" order="0"/>'
        for i, (a, b) in zip(ids, tokens, strict=True)
    ]
    start = utf16(TEXT[: TEXT.index("A dog")])
    text = XMI % ("\n".join(rows), TEXT, " ".join(map(str, ids)))
    return text.replace('begin="23"', f'begin="{start}"').replace('end="22"', f'end="{start - 1}"')


def types(layer, *features):
    rows = "".join(
        f"<featureDescription><name>{name}</name><rangeTypeName>{kind}</rangeTypeName></featureDescription>"
        for name, kind in features
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<typeSystemDescription xmlns="http://uima.apache.org/resourceSpecifier"><types><typeDescription>'
        f"<name>{layer}</name><supertypeName>uima.tcas.Annotation</supertypeName><features>{rows}</features>"
        "</typeDescription></types></typeSystemDescription>"
    )


def ask_for(port, xmi, layer, feature, system=None):
    if system is None:
        known = [
            (feature, "uima.cas.String"),
            (f"{feature}_score", "uima.cas.Double"),
            ("inception_internal_predicted", "uima.cas.Boolean"),
        ]
        system = types(layer, *known)
    request = {
        "metadata": {"layer": layer, "feature": feature, "projectId": 1, "anchoringMode": "tokens"},
        "document": {"xmi": xmi, "documentId": 42, "userId": "x"},
        "typeSystem": system,
    }
    return ask(port, "POST", "/en/predict", json.dumps(request))


def elements(xmi, name):
    return [
        dict(re.findall(r'([\w:]+)="([^"]*)"', own))
        for own in re.findall(rf"<\w+:{name} [^>]*>", xmi)
    ]


def gold_heads(model):
    from spacy.tokens import Doc

    words = [word for sentence in SENTENCES for word in sentence]
    starts = [i == 0 for sentence in SENTENCES for i in range(len(sentence))]
    doc = Doc(model.nlp.vocab, words=words, sent_starts=starts)
    for _, pipe in model.nlp.pipeline:
        doc = pipe(doc)
    return doc


def test_relations(port, model, xmi):
    found = ask_for(port, xmi, DEPENDENCY, "DependencyType").json["document"]
    doc, added = gold_heads(model), elements(found, "Dependency")
    tokens = elements(xmi, "Token")
    assert len(added) == len(tokens) == len(doc)
    for own, word in zip(added, doc, strict=True):
        assert own["Dependent"] == tokens[word.i]["xmi:id"]
        assert own["Governor"] == tokens[word.head.i]["xmi:id"]
        assert (own["begin"], own["end"]) == (tokens[word.i]["begin"], tokens[word.i]["end"])
        assert own["DependencyType"] == ("root" if word.head.i == word.i else word.dep_)
        assert own["inception_internal_predicted"] == "true"
        assert 0 < float(own["DependencyType_score"]) <= 1
    # members of the view, once each, and nothing else is changed
    (view,) = elements(found, "View")
    ids = [own["xmi:id"] for own in added]
    assert view["members"].split()[-len(ids) :] == ids and len(set(ids)) == len(ids)
    rest = re.sub(r"<predicted:Dependency [^>]*>", "", found).replace(" " + " ".join(ids), "")
    assert rest == xmi


def test_spans_with_several_scores(port, model, xmi):
    doc = gold_heads(model)
    added = elements(ask_for(port, xmi, POS, "PosValue").json["document"], "POS")
    by_place = {}
    for own in added:
        by_place.setdefault(int(own["begin"]), []).append(own)
    assert len(by_place) == len(doc)
    for own, word in zip(by_place.values(), doc, strict=True):
        scores = [float(label["PosValue_score"]) for label in own]
        assert scores == sorted(scores, reverse=True) and sum(scores) <= 1.001
        assert own[0]["PosValue"] == word.tag_
    coarse = elements(ask_for(port, xmi, POS, "coarseValue").json["document"], "POS")
    assert [own["coarseValue"] for own in coarse] == [word.pos_ for word in doc]
    assert all(0 < float(own["coarseValue_score"]) <= 1 for own in coarse)
    lemmas = elements(ask_for(port, xmi, LEMMA, "value").json["document"], "Lemma")
    assert [own["value"] for own in lemmas] == [word.lemma_ for word in doc]
    morph = elements(ask_for(port, xmi, MORPH, "value").json["document"], "MorphologicalFeatures")
    assert [own["value"] for own in morph] == [str(word.morph) for word in doc if str(word.morph)]
    assert len(morph) > 1
    # the prefix of the document is used where it has one
    assert "<type4:Lemma " in ask_for(port, xmi, LEMMA, "value").json["document"]


def test_only_features_that_the_layer_has(port, xmi):
    system = types(POS, ("PosValue", "uima.cas.String"))
    for own in elements(ask_for(port, xmi, POS, "PosValue", system).json["document"], "POS"):
        names = {"xmi:id", "sofa", "begin", "end", "PosValue"}
        assert {name for name in own if not name.startswith("xmlns")} == names


def test_a_library_of_others_reads_it(port, model):
    """dkpro-cassis, which INCEpTION's documentation names."""
    cassis = pytest.importorskip("cassis", reason="pip install dkpro-cassis")
    system = cassis.load_dkpro_core_typesystem()
    for layer, feature in ((DEPENDENCY, "DependencyType"), (POS, "PosValue")):
        own = system.get_type(layer)
        system.create_feature(own, f"{feature}_score", "uima.cas.Double")
        if layer == DEPENDENCY:
            system.create_feature(own, "inception_internal_predicted", "uima.cas.Boolean")
    system.create_feature(system.get_type(POS), "inception_internal_predicted", "uima.cas.Boolean")
    cas = cassis.Cas(system)
    cas.sofa_string, cas.sofa_mime = TEXT, "text/plain"
    at = 0
    for sentence in SENTENCES:
        places = []
        for word in sentence:
            at = TEXT.index(word, at)
            places.append((at, at + len(word)))
            at += len(word)
        for name, spans in (("Sentence", [(places[0][0], places[-1][1])]), ("Token", places)):
            kind = system.get_type(f"{CORE}.{name}")
            cas.add_all([kind(begin=begin, end=end) for begin, end in spans])
    doc = gold_heads(model)
    for layer, feature in ((DEPENDENCY, "DependencyType"), (POS, "PosValue")):
        answer = ask_for(port, cas.to_xmi(), layer, feature, system.to_xml())
        read = cassis.load_cas_from_xmi(answer.json["document"], typesystem=system)
        added = [own for own in read.select(layer) if own.inception_internal_predicted]
        if layer == DEPENDENCY:
            pairs = [
                (own.Dependent.get_covered_text(), own.Governor.get_covered_text()) for own in added
            ]
            assert pairs == [(word.text, word.head.text) for word in doc]
            assert all(0 < own.DependencyType_score <= 1 for own in added)
        else:
            assert {own.get_covered_text() for own in added} == {word.text for word in doc}


def test_what_is_wrong_is_told(port, xmi):
    bomb = '<!DOCTYPE x [<!ENTITY a "b">]>' + XMI.partition("?>")[2]
    cases = [
        ((xmi, "x.Y", "z"), "S684"),
        ((bomb, POS, "PosValue"), "S683.*document type"),
        (("<a", POS, "PosValue"), "S683"),
        (("<a/>", POS, "PosValue"), "S683.*no XMI"),
        ((xmi.replace('begin="0"', 'begin="-1"'), POS, "PosValue"), "S683.*outside"),
        ((xmi.replace('end="', 'end="9'), POS, "PosValue"), "S683.*outside"),
        ((re.sub("<cas:Sofa.*?>", "", xmi), POS, "PosValue"), "S683.*no text"),
        ((re.sub("<cas:View.*?>", "", xmi), POS, "PosValue"), "S683.*no View"),
        ((xmi, POS, "PosValue", "<!DOCTYPE a><a/>"), "S683.*document type"),
        ((xmi, POS, "PosValue", "<a>"), "S683"),
    ]
    for asked, message in cases:
        found = ask_for(port, *asked)
        assert found.status == 400 and re.search(message, found.json["error"]), found
    for value in ({}, {"metadata": 1}, {"metadata": {}, "document": {}}):
        found = ask(port, "POST", "/en/predict", json.dumps(value))
        assert found.status == 400 and "S679" in found.json["error"]
    assert ask(port, "POST", "/xx/predict", "{}").status == 400
    found = ask(port, "POST", "/en/train", "{}")
    assert found.status == 405 and "Trainable" in found.json["error"]


def test_documents_without_words(port):
    empty = re.sub("<type4.*?/>", "", XMI % ("", "Nothing", ""))
    assert ask_for(port, empty, POS, "PosValue").json["document"] == empty
