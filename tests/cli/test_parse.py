"""`spacy spectral parse`: texts of any kind and size in, parsed files out."""

import errno
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from threading import Thread

import pytest
import spacy
from spacy.cli._util import app
from spacy.tokens import DocBin
from typer.testing import CliRunner

from pipelines import from_raw_text
from spacy_spectral import to_table
from spacy_spectral.base import text_files
from spacy_spectral.base.distribute import _OnDask, open_workers
from spacy_spectral.cli import parse as parse_module
from spacy_spectral.cli.parse import Way, _written
from spacy_spectral.cli.parse_record import Record
from spacy_spectral.treebank import brackets, conllu, texts
from spacy_spectral.treebank.check import check_treebanks
from spacy_spectral.treebank.conllu import read_conllu
from spacy_spectral.treebank.documents import read_docs
from spacy_spectral.treebank.write import write_doc

TEXT = (
    "The dog sees the man. \tA man sleeps.\n\nThe woman sees the dogs with a man!  A dog\r\nsleeps."
)


@pytest.fixture(scope="module")
def nlp(sample):
    return from_raw_text(sample["train"], limit=150)


@pytest.fixture(scope="module")
def model(nlp, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model"
    nlp.to_disk(path)
    return path


@pytest.fixture
def small_parts(monkeypatch):
    """Documents of 200 characters and parts of 1,000."""
    monkeypatch.setattr(texts, "DOCUMENT", 200)
    monkeypatch.setattr(texts, "PART", 1000)
    monkeypatch.setattr(texts, "WORDS", 100)


@pytest.fixture(scope="module")
def long_text(sample):
    docs = read_docs(sample["dev"], spacy.blank("en").vocab, n_sents=3)
    return "\n\n".join(doc.text for doc in docs)


def parse(*arguments):
    result = CliRunner().invoke(app, ["spectral", "parse", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def failure(*arguments):
    result = CliRunner().invoke(app, ["spectral", "parse", *map(str, arguments)])
    assert result.exit_code == 1
    return " ".join(result.output.split())


def parsed_files(directory):
    return {p.name: p.read_bytes() for p in sorted(directory.iterdir()) if p.name != "parse.jsonl"}


def test_a_text_is_parsed_as_by_the_pipeline(nlp, model, tmp_path):
    path = tmp_path / "my text.txt"
    path.write_bytes(TEXT.encode())
    parse(model, path, "--output", tmp_path / "out")
    expected = write_doc(nlp(TEXT), name="my_text")
    assert parsed_files(tmp_path / "out") == {"my text.conllu": expected.encode()}
    assert parse(model, path) == expected
    (again,) = read_docs(tmp_path / "out" / "my text.conllu", nlp.vocab, n_sents=0)
    assert again.text == TEXT
    assert "# newpar" in expected


def test_validators_accept_it(model, long_text, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT + "\n\n" + long_text, "utf8")
    parse(model, tmp_path / "a.txt", "--output", tmp_path / "out")
    path = tmp_path / "out" / "a.conllu"
    assert not check_treebanks([path])[0].problems
    pytest.importorskip("udtools")
    command = [sys.executable, "-c", "from udtools.cli import main; main()", "--lang", "en"]
    for level in "12":
        run = [*command, "--level", level, str(path)]
        result = subprocess.run(run, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr


def test_formats_of_texts(nlp, model, tmp_path):
    with gzip.open(tmp_path / "zipped.txt.gz", "wb") as file:
        file.write(TEXT.encode())
    records = [{"text": TEXT, "id": "first one"}, {"tokens": ["A", "dog", "sleeps"]}, {"text": " "}]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records), "utf8")
    out = tmp_path / "out"
    parse(model, tmp_path / "zipped.txt.gz", tmp_path / "r.jsonl", "--output", out)
    assert (out / "zipped.conllu").read_text("utf8") == write_doc(nlp(TEXT), name="zipped")
    sentences = list(read_conllu(out / "r.conllu"))
    assert [s.comment("newdoc") for s in sentences if s.starts_document] == ["first_one", "r-2"]
    assert sentences[-1].words == ["A", "dog", "sleeps"]


def test_conllu_keeps_its_words_sentences_and_comments(model, sample, tmp_path):
    given = list(read_conllu(sample["dev"]))
    target = tmp_path / "given.conllu.gz"
    with gzip.open(target, "wb") as file:
        file.write(sample["dev"].read_bytes())
    parse(model, target, "--output", tmp_path / "out")
    found = list(read_conllu(tmp_path / "out" / "given.conllu"))
    assert [s.words for s in found] == [s.words for s in given]
    assert [s.sent_id for s in found] == [s.sent_id for s in given]
    right = sum(a.heads == b.heads for a, b in zip(given, found, strict=True))
    assert len(given) / 4 < right < len(given)  # parsed anew


def test_spacy_files_have_probabilities(nlp, sample, model, tmp_path):
    (tmp_path / "a.txt").write_bytes(TEXT.encode())
    path = tmp_path / "stored"
    other = spacy.load(model, config={"components.spectral_parser.store": ["head_prob"]})
    other.to_disk(path)
    parse(path, tmp_path / "a.txt", "--output", tmp_path / "out", "--format", "spacy")
    (doc,) = DocBin().from_disk(tmp_path / "out" / "a.spacy").get_docs(nlp.vocab)
    expected = other(TEXT)
    assert doc.to_json() == expected.to_json()
    assert [t._.head_prob for t in doc] == [t._.head_prob for t in expected]


def test_parts_are_the_same_whoever_parses_them(model, small_parts, long_text, tmp_path):
    (tmp_path / "long.txt").write_text(long_text, "utf8")
    results = []
    for i, options in enumerate(([], ["--workers", "2"], ["--scheduler", "local", "-j", "2"])):
        if "--scheduler" in options:
            pytest.importorskip("distributed")
        out = tmp_path / f"out{i}"
        parse(model, tmp_path / "long.txt", "--output", out, *options)
        results.append(parsed_files(out))
    assert results[0] == results[1] == results[2]
    assert list(results[0])[:2] == ["long-00001.conllu", "long-00002.conllu"]
    docs = [
        doc
        for name in results[0]
        for doc in read_docs(tmp_path / "out0" / name, spacy.blank("en").vocab, n_sents=0)
    ]
    assert "".join("".join(doc.text.split()) for doc in docs) == "".join(long_text.split())
    assert len(docs) >= len(long_text) / 200


def test_what_is_finished_is_not_parsed_again(model, small_parts, long_text, tmp_path, monkeypatch):
    (tmp_path / "long.txt").write_text(long_text, "utf8")
    out = tmp_path / "out"
    arguments = (model, tmp_path / "long.txt", "--output", out)
    parse(*arguments)
    whole = parsed_files(out)
    (out / "long-00002.conllu").unlink()
    done = []
    real = parse_module.parse_part
    monkeypatch.setattr(
        parse_module,
        "parse_part",
        lambda model, item, **o: done.append(item.part.number) or real(model, item, **o),
    )
    assert "finished before" in " ".join(parse(*arguments).split())
    assert done == [2]
    assert parsed_files(out) == whole
    # a text that has changed is parsed again, and nothing is left of what it was
    (tmp_path / "long.txt").write_text(TEXT, "utf8")
    parse(*arguments)
    assert list(parsed_files(out)) == ["long.conllu"]


def test_a_failure_leaves_finished_parts(model, small_parts, long_text, tmp_path, monkeypatch):
    (tmp_path / "long.txt").write_text(long_text, "utf8")
    real = parse_module.parse_part

    def fail(model, item, **options):
        if item.part.number == 3:
            raise OSError("no space left")
        return real(model, item, **options)

    arguments = (model, tmp_path / "long.txt", "--output", tmp_path / "out")
    monkeypatch.setattr(parse_module, "parse_part", fail)
    assert "no space left" in failure(*arguments)
    assert list(parsed_files(tmp_path / "out")) == ["long-00001.conllu", "long-00002.conllu"]


def test_lines_are_documents(nlp, model, tmp_path):
    (tmp_path / "a.txt").write_text("A dog sleeps\n\n\nThe man sees a dog\n", "utf8")
    text = parse(model, tmp_path / "a.txt", "--lines")
    found = list(parse_module.find_jobs([tmp_path / "a.txt"], Record(tmp_path), ".conllu"))
    assert [job.target.name for job in found] == ["a"]
    assert text.count("# newdoc id = a-") == 2


def test_memory_does_not_depend_on_the_size_of_texts(model, small_parts, long_text, tmp_path):
    """Counted in parts that are in memory at a time."""
    (tmp_path / "long.txt").write_text(long_text * 5, "utf8")
    parts = list(texts.read_parts(tmp_path / "long.txt"))
    assert len(parts) > 10
    assert max(sum(map(len, part.sources)) for part in parts) < 1200
    assert sum(part.size for part in parts) == (tmp_path / "long.txt").stat().st_size
    taken = []

    def endless():
        for i in range(1000):
            taken.append(i)
            yield texts.TextPart(i, [])

    with open_workers(workers=2, scheduler=None) as pool:
        stream = pool.stream(_number, endless())
        assert [next(stream)[1] for _ in range(5)] == [0, 1, 2, 3, 4]
        assert len(taken) < 20
        stream.close()


def _number(part):
    return part.number


def test_text_without_line_ends_or_spaces_is_cut(small_parts, tmp_path):
    for text in ("x" * 1500, "word " * 300, "line\n" * 300, "é" * 700):
        (tmp_path / "a.txt").write_text(text, "utf8")
        parts = list(texts.read_parts(tmp_path / "a.txt"))
        assert "".join(s.text for part in parts for s in part.sources) == text
        assert max(len(s) for part in parts for s in part.sources) <= 200
    (tmp_path / "a.txt").write_text("x" * 1500 + "\nshort\n", "utf8")
    lines = [s.text for p in texts.read_parts(tmp_path / "a.txt", lines=True) for s in p.sources]
    assert "".join(lines) == "x" * 1500 + "short"


def test_directories_keep_their_structure(model, tmp_path):
    for name in ("a/x.txt", "b/x.txt", "b/.hidden"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text("A dog sleeps.", "utf8")
    parse(model, tmp_path / "in", "--output", tmp_path / "out")
    found = sorted(p.relative_to(tmp_path / "out") for p in (tmp_path / "out").rglob("*.conllu"))
    assert [path.as_posix() for path in found] == ["a/x.conllu", "b/x.conllu"]
    both = (tmp_path / "in" / "a" / "x.txt", tmp_path / "in" / "b" / "x.txt")
    assert "S613" in failure(model, *both, "--output", tmp_path / "other")
    # printed, they are not in each other's way
    assert parse(model, *both).count("# newdoc") == 2


def test_what_is_printed_is_written_over_nothing(model, sample, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = b"\n\n".join(sample["dev"].read_bytes().split(b"\n\n")[:2]) + b"\n\n"
    (tmp_path / "dev.conllu").write_bytes(data)
    assert parse(model, "dev.conllu").count("# text") == 2
    assert (tmp_path / "dev.conllu").read_bytes() == data


def test_bad_arguments_and_files(model, sample, tmp_path):
    (tmp_path / "a.txt").write_text("A dog sleeps.", "utf8")
    (tmp_path / "bad.txt").write_bytes(b"caf\xe9 au lait")
    (tmp_path / "bad.gz").write_bytes(b"no gzip")
    (tmp_path / "bad.jsonl").write_text('{"text": 1}\n', "utf8")
    (tmp_path / "bad.conllu").write_text("1\tx\n\n", "utf8")
    (tmp_path / "bad.spacy").write_bytes(b"x")
    out = tmp_path / "out"
    assert "S705" in failure(model, tmp_path / "a.txt", "-o", out, "--format", "xml")
    assert "S610" in failure(model, tmp_path / "a.txt", "--format", "spacy")
    assert "S201" in failure(model, tmp_path / "none.txt", "-o", out)
    assert "S203" in failure(model, tmp_path / "bad.txt", "-o", out)
    assert "S202" in failure(model, tmp_path / "bad.gz", "-o", out)
    assert "S204" in failure(model, tmp_path / "bad.jsonl", "-o", out)
    assert "S013" in failure(model, tmp_path / "bad.conllu", "-o", out)
    assert "S609" in failure(model, tmp_path / "bad.spacy", "-o", out)
    assert "S612" in failure(model, sample["dev"], "-o", sample["dev"].parent)
    assert "S615" in failure(model, tmp_path / "a.txt", "-o", tmp_path / "bad.txt")
    assert "S708" in failure(
        model, tmp_path / "a.txt", "-o", out, "--format", "brackets", "--overwrite"
    )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.conllu").write_text("mine", "utf8")
    assert "S617" in failure(model, tmp_path / "a.txt", "-o", tmp_path / "mine")
    assert (tmp_path / "mine" / "a.conllu").read_text("utf8") == "mine"


def test_another_pipeline_does_not_go_on(nlp, model, tmp_path):
    (tmp_path / "a.txt").write_text("A dog sleeps.", "utf8")
    out = tmp_path / "out"
    parse(model, tmp_path / "a.txt", "-o", out)
    nlp.to_disk(tmp_path / "other", exclude=["lookups"])
    (tmp_path / "other" / "note").write_text("another", "utf8")
    assert "S616" in failure(tmp_path / "other", tmp_path / "a.txt", "-o", out)
    parse(tmp_path / "other", tmp_path / "a.txt", "-o", out, "--overwrite")
    (out / "parse.jsonl").write_text("{", "utf8")
    assert "S618" in failure(model, tmp_path / "a.txt", "-o", out)


def test_an_empty_text_gives_an_empty_file(model, tmp_path):
    (tmp_path / "a.txt").write_text("\n \n", "utf8")
    (tmp_path / "b.txt").write_text("", "utf8")
    parse(model, tmp_path / "a.txt", tmp_path / "b.txt", "-o", tmp_path / "out")
    assert parsed_files(tmp_path / "out") == {"a.conllu": b"", "b.conllu": b""}


def test_sentences_of_white_space_are_not_counted():
    nlp = spacy.blank("en")
    docs = [nlp("A dog. A cat.\n"), nlp(" ")]
    assert _written(docs, [], Way("spacy"), "")[1] == (2, 1, 6)
    nlp.add_pipe("sentencizer")
    docs = [nlp("A dog. A cat.\n"), nlp(" ")]
    assert [len(list(doc.sents)) for doc in docs] == [3, 1]
    assert _written(docs, [], Way("spacy"), "")[1] == (2, 2, 6)
    assert _written(docs[1:], [], Way("brackets"), "")[0] == b""


def test_the_evaluation_reads_it(model, sample, tmp_path):
    udeval = pytest.importorskip("udtools.udeval")
    docs = list(read_docs(sample["dev"], spacy.blank("en").vocab, n_sents=0, syntactic_words=False))
    (tmp_path / "dev.txt").write_text("\n\n".join(doc.text for doc in docs), "utf8")
    text = parse(model, tmp_path / "dev.txt")
    gold = udeval.load_conllu(io.StringIO(sample["dev"].read_text("utf8")), "gold", {})
    assert udeval.evaluate(gold, udeval.load_conllu(io.StringIO(text), "x", {}))["Words"].f1 > 0.95


@pytest.fixture(scope="module")
def other(nlp, model, tmp_path_factory):
    """Another pipeline that parses just so."""
    path = tmp_path_factory.mktemp("models") / "other"
    nlp.to_disk(path)
    (path / "note").write_text("another", "utf8")
    return path


def test_numbered_parts_have_names_of_their_own(model, small_parts, long_text, tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "a.txt").write_text(long_text, "utf8")
    (folder / "a-00002.txt").write_text("A dog sleeps.", "utf8")
    message = failure(model, folder, "-o", out)
    assert "S613" in message and "a-00002.conllu" in message and not out.exists()
    # one after the other, in either order
    for first, second in (("a", "a-00002"), ("a-00002", "a")):
        out = tmp_path / first
        parse(model, folder / f"{first}.txt", "-o", out)
        before = parsed_files(out)
        for options in ([], ["--overwrite"]):
            assert re.search(
                "S61[37]", failure(model, folder / f"{second}.txt", "-o", out, *options)
            )
            assert {name: parsed_files(out)[name] for name in before} == before
    # numbers that are not reached, and texts that are small, are in nobody's way
    (folder / "a-00002.txt").rename(folder / "a-00999.txt")
    parse(model, folder, "-o", tmp_path / "far")
    (folder / "a-00999.txt").rename(folder / "a-00001.txt")
    (folder / "a.txt").write_text("A man sleeps.", "utf8")
    parse(model, folder, "-o", tmp_path / "small")
    assert list(parsed_files(tmp_path / "small")) == ["a-00001.conllu", "a.conllu"]
    # and a text that changes takes nothing of the other with it
    (folder / "a.txt").write_text("A woman sleeps.", "utf8")
    parse(model, folder, "-o", tmp_path / "small")
    assert "woman" in parsed_files(tmp_path / "small")["a.conllu"].decode()
    assert "dog" in parsed_files(tmp_path / "small")["a-00001.conllu"].decode()


def test_overwriting_some_files_says_nothing_of_others(model, other, tmp_path):
    a, b, out = tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "out"
    a.write_text("A dog sleeps.\nA man sleeps.", "utf8")
    b.write_text("A man sees a dog.\nA dog sleeps.", "utf8")
    for change, again in (([other], [other]), ([model, "--lines"], [model, "--lines"])):
        shutil.rmtree(out, ignore_errors=True)
        parse(model, a, b, "-o", out)
        parse(*change, a, "-o", out, "--overwrite")
        assert "b.conllu" in (message := failure(*again, a, b, "-o", out)) and "S616" in message
        assert "1 finished before" in parse(*again, a, "-o", out)
        assert "1 finished before" in parse(model, b, "-o", out)
        parse(*again, a, b, "-o", out, "--overwrite")
        assert "2 finished before" in " ".join(parse(*again, a, b, "-o", out).split())
    # each format has files of its own
    assert "S616" in failure(model, a, "-o", out, "--format", "spacy")
    parse(model, a, "-o", out, "--format", "spacy", "--overwrite")
    assert "2 finished before" in " ".join(parse(model, a, b, "-o", out, "--lines").split())


def test_parses_in_the_directory_of_texts_are_no_texts(model, small_parts, long_text, tmp_path):
    for name in ("one.txt", "parsed/two.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(long_text, "utf8")
    for out in (tmp_path / "parsed", tmp_path):
        parse(model, tmp_path, "-o", out)
        found = sorted(tmp_path.rglob("*.conllu"))
        assert "finished before" in " ".join(parse(model, tmp_path, "-o", out).split())
        assert sorted(tmp_path.rglob("*.conllu")) == found
        assert (out / "parsed" / "two-00001.conllu").exists()  # the text that was there
        for path in found:
            path.unlink()
        (out / "parse.jsonl").unlink()


@pytest.mark.parametrize("name", ["..txt", ".txt", "...conllu.gz", "..jsonl"])
def test_all_is_written_into_the_directory(name, tmp_path):
    (tmp_path / name).write_text("A dog sleeps.", "utf8")
    (job,) = parse_module.find_jobs([tmp_path / name], Record(tmp_path / "out"), ".conllu")
    assert job.whole.parent.resolve() == (tmp_path / "out").resolve()
    assert job.whole.name == f"{name}.conllu"


@pytest.mark.skipif(sys.platform != "linux", reason="file systems that take any bytes for a name")
def test_names_that_are_no_utf8(model, tmp_path):
    text = os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.txt")
    Path(text).write_text("A dog sleeps.", "utf8")
    record = Record(tmp_path / "out")
    (job,) = parse_module.find_jobs([Path(text)], record, ".conllu")
    record.begin([job], {}, overwrite=False)
    (part,) = texts.read_parts(job.path)
    item = parse_module.WorkItem(job, job.target_of(part), part)
    record.write(item, b"parsed")
    again = Record(tmp_path / "out")
    again.begin([job], {}, overwrite=False)
    assert again.is_finished(item)


def test_what_was_changed_by_hand_is_kept(model, tmp_path):
    text, out = tmp_path / "a.txt", tmp_path / "out"
    text.write_text("A dog sleeps.", "utf8")
    parse(model, text, "-o", out)
    (out / "a.conllu").write_text("mine", "utf8")
    assert "1 finished before" in " ".join(parse(model, text, "-o", out).split())
    text.write_text("A man sleeps.", "utf8")
    assert "S617" in failure(model, text, "-o", out)
    assert (out / "a.conllu").read_text("utf8") == "mine"


def test_another_text_of_the_same_name_is_not_written_over(model, tmp_path):
    out = tmp_path / "out"
    for name, text in (("x", "A dog sleeps."), ("y", "A man sleeps."), ("z", "A dog sleeps.")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(text, "utf8")
    parse(model, tmp_path / "x" / "a.txt", "-o", out)
    assert "S617" in failure(model, tmp_path / "y" / "a.txt", "-o", out)
    # the same text, elsewhere
    assert "1 finished before" in " ".join(parse(model, tmp_path / "z", "-o", out).split())


def test_two_at_once_while_a_text_changes(model, tmp_path, monkeypatch):
    """One reads the old text, another the new one: nobody takes the one parse for the other."""
    text, out = tmp_path / "a.txt", tmp_path / "out"
    arguments = (model, text, "-o", out)
    real = parse_module.parse_part
    expected = {}
    for words in ("A man sleeps.", "A dog sleeps."):
        text.write_text(words, "utf8")
        parse(model, text, "-o", tmp_path / words)
        expected[words] = parsed_files(tmp_path / words)["a.conllu"]

    def overtaken(model, item, **options):
        result = real(model, item, **options)
        monkeypatch.setattr(parse_module, "parse_part", real)
        text.write_text("A man sleeps.", "utf8")
        parse(*arguments)
        return result

    monkeypatch.setattr(parse_module, "parse_part", overtaken)
    message = failure(*arguments)
    assert "S621" in message and "a.txt" in message
    assert parsed_files(out)["a.conllu"] == expected["A man sleeps."]
    # even if the one with the old text does not notice
    text.write_text("A dog sleeps.", "utf8")
    monkeypatch.setattr(parse_module, "parse_part", overtaken)
    with monkeypatch.context() as patch:
        patch.setattr(parse_module.Job, "has_changed", lambda job: False)
        parse(*arguments)
    assert parsed_files(out)["a.conllu"] == expected["A dog sleeps."]
    assert "finished before" not in parse(*arguments)
    assert parsed_files(out)["a.conllu"] == expected["A man sleeps."]


def test_standard_input(nlp, model, tmp_path):
    expected = write_doc(nlp(TEXT), name="stdin")

    def run(*arguments, text=TEXT):
        command = ["spectral", "parse", str(model), *map(str, arguments)]
        result = CliRunner().invoke(app, command, input=text.encode())
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split()) if "-o" in command else result.output

    assert run("-") == expected
    out = tmp_path / "out"
    run("-", "-o", out)
    assert parsed_files(out) == {"stdin.conllu": expected.encode()}
    assert "1 finished before" in run("-", "-o", out)
    run("-", "-o", out, text="A dog sleeps.")
    assert b"dog" in parsed_files(out)["stdin.conllu"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_pipes(model, nlp, sample, tmp_path):
    data = b"\n\n".join(sample["dev"].read_bytes().split(b"\n\n")[:2]) + b"\n\n"
    contents = {"a.txt": TEXT.encode(), "b.jsonl": b'{"text": "A dog."}\n', "c.conllu": data}
    for name, content in contents.items():
        os.mkfifo(tmp_path / name)
        writer = Thread(target=(tmp_path / name).write_bytes, args=(content,))
        writer.start()
        parse(model, tmp_path / name, "-o", tmp_path / "out")
        writer.join()
    found = parsed_files(tmp_path / "out")
    assert found["a.conllu"].decode() == write_doc(nlp(TEXT), name="a")
    assert found["b.conllu"] and found["c.conllu"].count(b"# text") == 2


def test_ctrl_c_says_how_to_go_on(model, small_parts, long_text, tmp_path, monkeypatch):
    (tmp_path / "long.txt").write_text(long_text, "utf8")
    real = parse_module.parse_part

    def interrupted(model, item, **options):
        if item.part.number == 3:
            raise KeyboardInterrupt
        return real(model, item, **options)

    monkeypatch.setattr(parse_module, "parse_part", interrupted)
    command = [
        "spectral",
        "parse",
        *map(str, (model, tmp_path / "long.txt", "-o", tmp_path / "out")),
    ]
    for options, words in (
        ([], "command goes on"),
        (["--overwrite"], "without --overwrite goes on"),
    ):
        result = CliRunner().invoke(app, [*command, *options])
        assert result.exit_code == 130 and words in " ".join(result.output.split())
    assert len(parsed_files(tmp_path / "out")) == 2


def test_a_full_disk(model, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("A dog sleeps.", "utf8")
    out = tmp_path / "out"

    def no_space(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", no_space)
        message = failure(model, tmp_path / "a.txt", "-o", out)
    assert "S004" in message and "a.conllu" in message and "No space left" in message
    assert parsed_files(out) == {}
    # the last line of the record may be half-written then
    with open(out / "parse.jsonl", "a", encoding="utf8") as file:
        file.write('{"file": "a.con')
    parse(model, tmp_path / "a.txt", "-o", out)
    assert "1 finished before" in " ".join(parse(model, tmp_path / "a.txt", "-o", out).split())


def test_a_scheduler_that_dies():
    """It takes all futures with it: that is what its clients see."""
    lost = pytest.importorskip("distributed").comm.CommClosedError

    class Client:
        def scheduler_info(self):
            return {"workers": {}}

        def get_executor(self, pure):
            return self

        def submit(self, *arguments):
            future = Future()
            future.cancel()
            return future

        def lose(self, *arguments, **options):
            raise lost("closed")

        scatter = lose

    with pytest.raises(ValueError, match=r"S622.*same command"):
        list(_OnDask(Client()).stream(_number, [texts.TextPart(1, [])]))
    with pytest.raises(ValueError, match=r"S622.*closed"):
        _OnDask(Client()).reduce(len, [texts.TextPart(1, [])], {}, max, len)


def test_long_lines_are_errors(small_parts, tmp_path, monkeypatch):
    """One that has to be in memory as a whole; plain text is cut."""
    for module in (text_files, conllu, brackets):
        monkeypatch.setattr(module, "LONGEST", 1000)
    monkeypatch.setattr(text_files, "BLOCK_SIZE", 100)
    row = "1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n"
    for name, text, place in (
        ("a.jsonl", '{"text": "short"}\n\n{"text": "' + "a" * 2000 + '"}\n', "S619.*line 3"),
        ("a.conllu", f"{row}\n# {'a' * 1000}\n{row}\n", "conllu:3.*S040"),
        ("b.conllu", f"{row}\n" + "# a\n" * 500, "conllu:25[0-9].*S040"),
        ("c.conllu", "".join(f"{i + 1}{row[1:]}" for i in range(100)), "conllu:[0-9]+.*S040"),
        ("a.ptb", "(S (NN a))\n" + "(" * 1000, "ptb:2.*S040"),
        ("b.ptb", "(S (NN a))\n" + "(S\n" * 1000, "ptb:33[0-9].*S040"),
    ):
        for ending in ("", ".gz"):
            data = text.encode()
            path = tmp_path / f"{name}{ending}"
            path.write_bytes(gzip.compress(data) if ending else data)
            with pytest.raises(ValueError, match=place.replace(":", f"{ending}:")):
                list(texts.read_parts(path))


def test_memory_does_not_depend_on_names_and_comments(small_parts, tmp_path):
    row = "1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
    record = json.dumps({"text": "a", "id": "i" * 6400}) + "\n"
    for name, text in (
        ("a.jsonl", record * 100),
        ("b.jsonl", '{"tokens": []}\n' * 100),
        ("a.conllu", f"# {'c' * 6400}\n{row}" * 100),
    ):
        (tmp_path / name).write_text(text, "utf8")
        parts = list(texts.read_parts(tmp_path / name))
        assert max(len(part.sources) for part in parts) <= 20
        sizes = [sum(len(s.sentences) for s in part.sources) for part in parts]
        assert max(sizes) <= 20


PARTLY = """\
# sent_id = 1
1\tThe\tTHE\tDET\tDT\t_\t_\t_\t_\t_
2\tdog\t_\t_\t_\t_\t3\tobj\t_\t_
3\tsees\t_\t_\t_\t_\t_\t_\t_\t_
4\ta\t_\t_\t_\tFoo=Bar\t_\t_\t_\t_
5\tman\t_\t_\tVBD\t_\t_\t_\t_\t_

"""
# 1 -> 3 and 2 -> 4 cross
CROSSING = """\
1\tThe\t_\t_\t_\t_\t3\tdet\t_\t_
2\tdog\t_\t_\t_\t_\t4\tobj\t_\t_
3\tsees\t_\t_\t_\t_\t0\troot\t_\t_
4\ta\t_\t_\t_\t_\t_\t_\t_\t_

"""


def rows(text):
    return [line.split("\t") for line in text.splitlines() if line and line[0].isdigit()]


def test_what_is_annotated_is_kept(model, tmp_path):
    path = tmp_path / "partly.conllu"
    path.write_text(PARTLY, "utf8")
    found = rows(parse(model, path, "--keep"))
    given = rows(PARTLY)
    for row, wanted in zip(found, given, strict=True):
        for column in range(8):
            assert wanted[column] in ("_", row[column]), (row, wanted)
        assert row[2] != "_" and row[3] != "_" and row[4] != "_" and row[6] != "_"
    assert found[1][6:8] == ["3", "obj"]
    anew = rows(parse(model, path))
    assert anew[0][2] == "the" and anew[1][7] == "nsubj" and anew[4][4] != "VBD"


def test_crossing_arcs_are_kept(model, tmp_path):
    path = tmp_path / "crossing.conllu"
    path.write_text(CROSSING, "utf8")
    found = rows(parse(model, path, "--keep"))
    assert [row[6:8] for row in found[:3]] == [row[6:8] for row in rows(CROSSING)[:3]]
    assert len(found) == 4


def test_a_whole_treebank_is_kept(model, sample):
    """Nothing is left to be parsed."""
    found, given = parse(model, sample["dev"], "--keep"), sample["dev"].read_text("utf8")
    assert [row[:8] for row in rows(found)] == [row[:8] for row in rows(given)]


BESIDE = """\
# newdoc id = d
# sent_id = 1
# text = Thedog sees  a
1-2\tThedog\t_\t_\t_\tTypo=Yes\t_\t_\t_\tGloss=x
1\tThe\tthe\tDET\tDT\t_\t2\tdet\t2:det\t_
2\tdog\t_\tNOUN\t_\t_\t_\t_\t3:nsubj|4.1:nsubj\tEntity=(d)
3\tsees\t_\tVERB\tVBZ\tFoo=Bar\t_\t_\t_\tSpacesAfter=\\s\\s|HeadProb=0.1|Alt=1:det:0.2
4\ta\t_\tDET\t_\t_\t_\t_\t_\tAlt=yes|SpaceAfter=No
4.1\tsees\t_\t_\t_\t_\t_\t_\t3:conj\tCopyOf=3

"""


def test_what_no_component_sets_comes_back(model, tmp_path):
    path = tmp_path / "beside.conllu"
    path.write_text(BESIDE, "utf8")
    given = BESIDE.splitlines()
    found = parse(model, path, "--keep").splitlines()
    assert len(found) == len(given) and found[:4] == given[:4] and found[8] == given[8]
    columns = [line.split("\t") for line in found[4:8]]
    assert [row[8] for row in columns] == ["2:det", "3:nsubj|4.1:nsubj", "_", "_"]
    misc = ["_", "Entity=(d)", "SpacesAfter=\\s\\s", "Alt=yes|SpaceAfter=No"]
    assert [row[9] for row in columns] == misc
    assert all(row[6] != "_" for row in columns)
    # enhanced dependencies are of the tree that was there
    anew = parse(model, path).splitlines()
    assert len(anew) == len(given) - 1 and anew[:4] == given[:4]
    assert [line.split("\t")[8:] for line in anew[4:8]] == [["_", own] for own in misc]
    likely = parse(model, path, "--keep", "--probs").splitlines()
    assert likely[5].split("\t")[9].startswith("Entity=(d)|HeadProb=")
    assert likely[6].count("HeadProb=") == 1


def test_tags_fit_given_parts_of_speech(model, sample, tmp_path):
    given = list(read_conllu(sample["dev"]))
    only = [sentence.upos for sentence in given]
    path, rotated = tmp_path / "upos.conllu", {"NOUN": "VERB", "VERB": "NOUN"}
    for change in ({}, rotated):
        upos = [[change.get(part, part) for part in own] for own in only]
        lines = [
            [f"{i}\t{word}\t_\t{part}{chr(9)}{chr(9).join('_' * 6)}" for i, (word, part) in enumerate(
                zip(sentence.words, own, strict=True), start=1)]
            for sentence, own in zip(given, upos, strict=True)
        ]  # fmt: skip
        path.write_text("".join("\n".join(own) + "\n\n" for own in lines), "utf8")
        found = rows(parse(model, path, "--keep"))
        assert [row[3] for row in found] == [part for own in upos for part in own]
        pairs = {(s.upos[i], s.xpos[i]) for s in given for i in range(len(s))}
        assert {(row[3], row[4]) for row in found} <= pairs


def test_probabilities_in_conllu(nlp, model, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, "utf8", newline="")
    doc = nlp(TEXT)
    words = [token for token in doc if not token.is_space]
    found = rows(parse(model, path, "--probs"))
    likely = 0
    for token, row in zip(words, found, strict=True):
        values = dict(item.split("=", 1) for item in row[9].split("|"))
        assert float(values["HeadProb"]) == pytest.approx(token._.head_prob, abs=5e-4)
        assert float(values["DepProb"]) == pytest.approx(token._.dep_prob, abs=5e-4)
        if "Alt" in values:
            head, _, rest = values["Alt"].partition(":")
            dep, _, prob = rest.rpartition(":")
            assert (head, dep) != (row[6], row[7])
            assert float(prob) <= 1 - token._.head_prob * token._.dep_prob + 1e-3
            likely += 1
    assert likely
    assert "Prob" not in parse(model, path)


def test_unlikely_arcs_are_left_out(nlp, model, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, "utf8", newline="")
    words = [token for token in nlp(TEXT) if not token.is_space]
    probs = [token._.head_prob * token._.dep_prob for token in words]
    least = sorted(probs)[len(probs) // 2]
    found = rows(parse(model, path, "--min-prob", str(least)))
    assert [row[6] == "_" for row in found] == [prob < least for prob in probs]
    assert [row[7] == "_" for row in found] == [prob < least for prob in probs]
    assert {row[3] for row in found} >= {"NOUN", "VERB"}
    assert "S623" in failure(model, path, "--min-prob", "0.5", "-f", "brackets")


def test_json_and_tables(nlp, model, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, "utf8", newline="")
    doc = nlp(TEXT)
    record = json.loads(parse(model, path, "-f", "json"))
    assert record["text"] == TEXT and record["id"] == "text"
    assert record["parse_confidence"] == pytest.approx(doc._.parse_confidence, abs=1e-6)
    table = to_table(doc)
    assert [row["text"] for row in table] == [t.text for t in doc if not t.is_space]
    assert all(TEXT[row["start"] : row["end"]] == row["text"] for row in table)
    for row, other in zip(table, record["tokens"], strict=True):
        assert {k: pytest.approx(v, abs=1e-6) for k, v in row.items()} == other
    header, *lines = parse(model, path, "-f", "table").splitlines()
    assert header.split("\t") == ["doc", *table[0]]
    assert [line.split("\t")[3] for line in lines] == [row["text"] for row in table]


def test_one_header_for_all_files(model, tmp_path):
    paths = [tmp_path / name for name in ("a.txt", "b.txt")]
    for path in paths:
        path.write_text("A man sleeps.", "utf8")
    assert parse(model, *paths, "-f", "table").count("head_prob") == 1
