"""The server of pipelines: its answers are those of the pipeline, in the protocols of others, too."""

import json
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from urllib.parse import urlencode

import pytest

pytest.importorskip("starlette", reason="the extra 'serve' is not installed")
from spacy import util
from starlette.routing import Route

from servers import ask, running
from spacy_spectral.base.errors import SpectralError
from spacy_spectral.serve import blocks, udpipe
from spacy_spectral.serve.models import Model, Models
from spacy_spectral.serve.service import Bounds, description, service_app
from spacy_spectral.treebank.write import write_doc

TEXT = "The old cook laughed. A dog saw the garden!\n\nWe left it there."
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def nlp(served):
    return util.load_model(served)


@pytest.fixture(scope="module")
def models(served):
    return Models([Model.load(f"en_small-1={served}"), Model.load(str(served))])


@pytest.fixture(scope="module")
def port(models):
    with running(service_app(models, threads=2, bounds=Bounds(characters=2000))) as port:
        yield port


def process(port, **fields):
    found = ask(port, "POST", "/process", urlencode(fields), FORM)
    return found.json["result"] if found.status == 200 else found


def parse(port, **fields):
    return ask(port, "POST", "/parse", json.dumps(fields))


def test_models_are_found_by_name(port, models):
    found = ask(port, "GET", "/models").json
    assert found["default_model"] == "en_small-1"
    assert found["models"]["xx_pipeline"] == ["tokenizer", "tagger", "parser"]
    assert models.find("en") is models.find("") is models.find("en_small") is models.default
    with pytest.raises(SpectralError, match=r"S677.*en_small-1, xx_pipeline"):
        models.find("english")
    with pytest.raises(SpectralError, match="S676"):
        Models([models.default, models.default])
    assert ask(port, "GET", "/health").json["models"] == ["en_small-1", "xx_pipeline"]


def test_texts_are_parsed_as_the_pipeline_does(port, nlp):
    expected = write_doc(nlp(TEXT))
    whole = {"data": TEXT, "tokenizer": "", "tagger": "", "parser": ""}
    assert process(port, **whole) == process(port, **whole, model="xx_pipeline") == expected
    assert ask(port, "GET", f"/process?{urlencode(whole)}").json["result"] == expected
    parts = "".join(
        f'--X\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in whole.items()
    ).replace("\n\nWe", "\r\n\r\nWe")
    headers = {"content-type": "multipart/form-data; boundary=X"}
    assert ask(port, "POST", "/process", parts + "--X--\r\n", headers).json["result"] == expected
    # as scripts do it: options in the address, any value, no body
    told = {"content-type": "application/json"}
    asked = urlencode({"data": TEXT, "tokenizer": 1, "tagger": "true", "parser": 1})
    assert ask(port, "POST", f"/process?{asked}", headers=told).json["result"] == expected
    asked = urlencode({"data": TEXT})
    found = ask(port, "GET", f"/process?tokenizer&tagger&parser&{asked}").json["result"]
    assert found == expected
    bare = process(port, data=TEXT, tokenizer="")
    assert len(bare.splitlines()) == len(expected.splitlines()) and "\t0\troot" not in bare
    tagged = process(port, data=TEXT, tokenizer="", tagger="")
    assert "\tNOUN\t" in tagged and "\t0\troot" not in tagged
    assert process(port, data=" \n", tokenizer="", parser="") == ""


def analyses(text):
    """All columns but MISC."""
    return [line.split("\t")[:-1] for line in text.splitlines() if "\t" in line]


def test_words_that_are_given(port, nlp):
    """Whatever the format: the same trees, and what was known stays."""
    lines = "The old cook laughed .\nA dog saw the garden !\nWe left it there ."
    horizontal = process(port, data=lines, input="horizontal", tagger="", parser="")
    whole = process(port, data=TEXT, tokenizer="", tagger="", parser="")
    assert analyses(horizontal) == analyses(whole) and "Number=Sing" in horizontal
    vertical = "\n\n".join("\n".join(line.split()) for line in lines.split("\n")) + "\n"
    assert process(port, data=vertical, input="vertical", tagger="", parser="") == horizontal
    in_two = process(port, data=lines, input="horizontal", tagger="")
    assert process(port, data=in_two, parser="") == horizontal
    assert process(port, data=horizontal, output="vertical").split() == vertical.split()
    assert process(port, data=horizontal, output="horizontal").split() == lines.split()
    assert process(port, data=TEXT, input="generic_tokenizer", output="plaintext") == TEXT
    plain = process(port, data=TEXT, tokenizer="", output="plaintext=normalized_spaces")
    assert plain == "The old cook laughed.\nA dog saw the garden!\nWe left it there.\n"


def test_lines_of_conllu_stay_as_they_are(port):
    block = (
        "# sent_id = a\n# note = kept\n1\tThe\tx\tX\t_\t_\t_\t_\t_\tA=1\n1.1\te\t_\t_\t_\t_\t_\t_\t1:dep\t_\n"
        "2-3\tdogbarks\t_\t_\t_\t_\t_\t_\t_\tB=2\n2\tdog\tx\t_\t_\t_\t_\t_\t1:det\t_\n"
        "3\tbarks\tx\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n\n"
    )
    found = process(port, data=block * 2, tagger="", parser="")
    assert found.count("0\troot") == 2 and "\tx\t" not in found
    empty = dict.fromkeys(blocks.COLUMNS, "_")

    def bare(text):
        return [
            blocks.with_values(own, dict.fromkeys(range(1, 4), empty))
            for own in blocks.split_blocks(text)
        ]

    assert bare(found) == bare(block * 2)
    parsed = process(port, data=block, parser="")
    assert parsed.startswith("# sent_id = a\n# note = kept\n1\tThe\tx\tX\t_\t_\t")


def test_options_of_the_tokenizer(port):
    found = process(port, data=TEXT, tokenizer="presegmented;ranges")
    sentences = [blocks.read_block(own)[0] for own in blocks.split_blocks(found)]
    assert [len(own) for own in sentences] == [11, 5]
    for line in found.splitlines():
        if line and not line.startswith("#"):
            form, misc = line.split("\t")[1], line.split("TokenRange=")[1]
            begin, end = map(int, misc.split("|")[0].split(":"))
            assert TEXT[begin:end] == form


def test_multiword_tokens(saved):
    """Of the token "thog" the words are "that" and "dog"."""
    text = "thog saw thook  . thog slept ."
    model = Model.load(f"en={saved('words')}")
    with running(service_app(Models([model]))) as port:
        found = process(port, data=text, tokenizer="ranges", tagger="", parser="")
        forms = [row[:2] for row in analyses(found)]
        assert ["1-2", "thog"] in forms and ["1", "that"] in forms and ["2", "dog"] in forms
        again = process(port, data=found, tagger="", parser="")
        assert again == found
        for line in found.splitlines():
            if "TokenRange=" in line:
                begin, end = map(int, line.split("TokenRange=")[1].split(":"))
                form = line.split("\t")[1]
                assert text[begin:end] == form or text[begin:end] in ("thog", "thook")
        answer = parse(port, text=text, nbest=2, draw=True).json
        assert answer["text"] == text
        assert [own["text"] for own in answer["sentences"]] == ["thog saw thook  .", "thog slept ."]
        rows = [row for own in answer["sentences"] for row in own["tokens"]]
        ends = [text[row["start"] : row["end"]] for row in rows if row["text"] == "dog"]
        assert ends == ["thog", "thog"]
        heads = [head for own in answer["sentences"] for head in own["nbest"][0]["heads"]]
        written = [row for row in analyses(found) if "-" not in row[0]]
        assert len(heads) == len(rows) == len(written)
        assert [row["head"] for row in rows] == [int(row[6]) for row in written]


def test_spaces_can_be_left_out(port):
    text = "A  dog\tsaw\nthe cook ."
    for more in ("", ";ranges"):
        kept = process(port, data=text, tokenizer=f"presegmented{more}")
        left = process(port, data=text, tokenizer=f"presegmented;normalized_spaces{more}")
        assert kept.count("SpacesAfter=") == 3 and left.count("Spaces") == 0
        columns = [line.split("\t") for line in left.splitlines() if "\t" in line]
        assert all(len(row) == 10 and all(row) for row in columns)
        assert left.count("TokenRange=") == 6 * bool(more)


@pytest.mark.parametrize(
    "fields, code",
    [
        ({}, "S679"),
        ({"data": "1\tx\n\n"}, "S682"),
        ({"data": "x", "input": "x"}, "S678"),
        ({"data": "x", "output": "x", "tokenizer": ""}, "S678"),
        ({"data": "x", "model": "x"}, "S677"),
        ({"data": "x" * 2001, "tokenizer": ""}, "S680"),
    ],
)
def test_wrong_requests_are_refused(port, fields, code):
    found = process(port, **fields)
    assert found.status == (413 if code == "S680" else 400) and code in found.json["error"]


def test_trees_as_json(port, nlp):
    doc = nlp(TEXT)
    found = parse(port, text=TEXT, nbest=3).json
    assert found["text"] == TEXT and 0 < found["confidence"] <= 1
    tokens = [token for token in doc if not token.is_space]
    rows = [row for own in found["sentences"] for row in own["tokens"]]
    assert [TEXT[row["start"] : row["end"]] for row in rows] == [token.text for token in tokens]
    for own, sent in zip(found["sentences"], doc.sents, strict=True):
        words = [token for token in sent if not token.is_space]
        heads = [0 if w.head.i == w.i else 1 + [v.i for v in words].index(w.head.i) for w in words]
        assert [row["head"] for row in own["tokens"]] == own["nbest"][0]["heads"] == heads
        assert [row["dep"] for row in own["tokens"]] == [w.dep_ for w in words]
        assert own["logprob"] == pytest.approx(own["nbest"][0]["logprob"], abs=1e-5)
        probs = [tree["prob"] for tree in own["nbest"]]
        assert probs == sorted(probs, reverse=True) and len(probs) == 3 and sum(probs) <= 1 + 1e-6
        assert own["constituents"] == [] and "drawing" not in own
    words = [[token.text for token in tokens if token.sent == sent] for sent in doc.sents]
    again = parse(port, sentences=words, draw=True).json["sentences"]
    assert [[row["head"] for row in own["tokens"]] for own in again] == [
        [row["head"] for row in own["tokens"]] for own in found["sentences"]
    ]
    assert all(own["drawing"].startswith('<div class="arcs') for own in again)
    for empty in ({"text": ""}, {"text": " "}, {"sentences": []}, {"sentences": [[]]}):
        assert parse(port, **empty, nbest=2, draw=True).json["sentences"] == []


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"text": "a", "sentences": []},
        {"text": 1},
        {"text": "a", "nbest": 51},
        {"text": "a", "nbest": True},
        {"text": "a", "x": 1},
        {"sentences": ["a"]},
        {"sentences": [[" "]]},
        {"sentences": [["a" * 2001]]},
        {"text": "a", "draw": 1},
    ],
)
def test_wrong_questions(port, fields):
    found = parse(port, **fields)
    assert found.status in (400, 413) and found.json["error"].startswith("[S")


def test_long_sentences_are_not_drawn(port):
    (own,) = parse(port, text="dog the " * 200 + "barked.", draw=True, nbest=2).json["sentences"]
    assert len(own["tokens"]) == 402 and len(own["nbest"]) == 2 and "drawing" not in own


def test_markup_in_texts_is_no_markup(port):
    found = parse(port, text='<script>alert(1)</script> & "x" laughed.', draw=True).json
    assert "<script" not in found["sentences"][0]["drawing"]


def test_constituents(constituency, tmp_path):
    constituency.to_disk(tmp_path / "model")
    nlp = util.load_model(tmp_path / "model")
    nlp.add_pipe("sentencizer", first=True)
    model = Model("en", nlp)
    assert model.abilities == ["tokenizer", "parser"]
    with running(service_app(Models([model]))) as port:
        (own,) = parse(port, text="The cook laughed.", draw=True, nbest=2).json["sentences"]
        (tree,) = own["constituents"]
        assert tree["brackets"].startswith("(") and "(DT The)" in tree["brackets"]
        assert all(0 <= node["prob"] <= 1 for node in tree["nodes"])
        assert tree["drawing"].startswith("<svg") and own["tokens"][0]["head"] is None
        found = process(port, data="x", tokenizer="", tagger="")
        assert found.status == 400 and "S681" in found.json["error"]


def test_the_description_has_all_routes(port, models):
    found = ask(port, "GET", "/openapi.json").json
    assert found == description() and found["info"]["version"]
    routes = {
        (route.path, method.lower())
        for route in service_app(models).app.routes
        if isinstance(route, Route) and route.path not in ("/", "/{name}")
        for method in route.methods - {"HEAD"}
    }
    assert routes == {(path, method) for path, own in found["paths"].items() for method in own}
    own = parse(port, text="The cook laughed.", nbest=1, draw=True).json
    schemas = found["components"]["schemas"]

    def check(value, schema):
        if "$ref" in schema:
            schema = schemas[schema["$ref"].rpartition("/")[2]]
        if isinstance(value, dict):
            assert value.keys() <= schema["properties"].keys()
            for name, own in value.items():
                check(own, schema["properties"][name])
        elif isinstance(value, list):
            for item in value:
                check(item, schema["items"])
        else:
            kinds = {str: "string", int: "integer", float: "number", type(None): "null"}
            allowed = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            assert kinds[type(value)] in allowed

    check(own, schemas["Parsed"])


def test_the_page(port):
    page = ask(port, "GET", "/")
    assert page.status == 200 and b"<textarea" in page.body and b"https:" not in page.body
    assert b"http:" not in page.body
    for name in ("parse.js", "favicon.ico"):
        assert ask(port, "GET", f"/{name}").status == 200
    # the other page is another command's
    for name in ("index.html", "app.js", "openapi.js", "..%2Fservice.py", "%00.js"):
        assert ask(port, "GET", f"/{name}").status == 404


def test_who_may_ask(port, models):
    elsewhere = {"origin": "https://other.example", "host": "parser.example"}
    assert ask(port, "GET", "/models", headers=elsewhere).status == 421
    assert ask(port, "GET", "/models", headers={"origin": "null"}).status == 403
    with running(service_app(models, public=True)) as other:
        found = ask(other, "GET", "/models", headers=elsewhere)
        assert found.status == 200 and found.headers["access-control-allow-origin"] == "*"
        before = {**elsewhere, "access-control-request-method": "POST"}
        found = ask(other, "OPTIONS", "/parse", headers=before)
        assert (
            found.status == 204 and found.headers["access-control-allow-headers"] == "content-type"
        )


def test_time_and_waiting_have_limits(models, monkeypatch):
    monkeypatch.setattr("spacy_spectral.serve.service._MOST_WAITING", 1)
    monkeypatch.setattr(udpipe, "process", lambda model, fields: sleep(0.5))
    app = service_app(models, bounds=Bounds(seconds=0.2))
    with running(app) as port, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: process(port, data="x"), range(8)))
        assert {answer.status for answer in found} == {503}
        assert {"S686", "S687"} == {answer.json["error"][1:5] for answer in found}


def test_what_was_asked_is_answered_before_the_end(models, monkeypatch):
    def slow(model, fields):
        sleep(0.5)
        return {"result": "done"}

    monkeypatch.setattr(udpipe, "process", slow)
    with ThreadPoolExecutor(1) as pool:
        with running(service_app(models)) as port:
            asked = pool.submit(process, port, data="x")
            sleep(0.2)
        assert asked.result() == "done"


def test_words_of_requests_are_forgotten(models):
    model = models.default
    with running(service_app(models, threads=2)) as port, ThreadPoolExecutor(4) as pool:
        parse(port, text=TEXT)
        before = len(model.nlp.vocab.strings)
        texts = [f"The qx{i} laughed at zy{i}." for i in range(300)]
        found = list(pool.map(lambda text: parse(port, text=text).json, texts))
        for text, own in zip(texts, found, strict=True):
            words = [row["text"] for row in own["sentences"][0]["tokens"]]
            assert words == [*text.removesuffix(".").split(), "."]
        parse(port, text=TEXT)
        assert len(model.nlp.vocab.strings) <= before


def test_a_client_of_udpipe(port, nlp):
    """Udapi, which nobody here wrote."""
    online = pytest.importorskip("udapi.tool.udpipeonline", reason="pip install udapi")
    from udapi.core.document import Document

    client = online.UDPipeOnline("en", server=f"http://127.0.0.1:{port}")
    assert client.list_models() == ["en_small-1", "xx_pipeline"]
    assert client.perform_request({"data": TEXT, "tokenizer": "", "tagger": "", "parser": ""}) == (
        write_doc(nlp(TEXT))
    )
    assert len(client.segment_text(TEXT)) == 3
    document = Document()
    root = document.create_bundle().create_tree()
    root.text = TEXT.partition(".")[0] + "."
    client.process_document(document)
    (tree,) = document.trees
    doc = nlp(root.text)
    assert [node.form for node in tree.descendants] == [token.text for token in doc]
    assert [node.parent.ord for node in tree.descendants] == [
        0 if token.head.i == token.i else token.head.i + 1 for token in doc
    ]
    client.tag_parse_tree(tree)
    assert [node.deprel for node in tree.descendants][-1] == "punct"


def test_what_the_documentation_of_udpipe_shows(port, tmp_path):
    """Its lines for curl, with the address of this server."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    (tmp_path / "input.txt").write_text(TEXT)
    address = f"http://127.0.0.1:{port}"
    asked = (
        [
            "-F",
            f"data=@{tmp_path / 'input.txt'}",
            "-F",
            "model=en",
            "-F",
            "tokenizer=",
            "-F",
            "tagger=",
        ],
        ["--data", f"tokenizer=&tagger=&parser=&model=en&data={TEXT}"],
        ["--data-urlencode", f"data@{tmp_path / 'input.txt'}", "-d", "tokenizer", "-d", "tagger="],
    )
    for options in asked:
        command = ["curl", "-s", *options, f"{address}/process"]
        found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        assert found.keys() == {"model", "acknowledgements", "result"}
        assert len(blocks.split_blocks(found["result"])) == 3
