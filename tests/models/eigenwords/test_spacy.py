"""What users touch: the commands, the vectors on disk, clusters, the component, similarity."""

from collections import Counter

import numpy
import pytest
import spacy
import srsly
from spacy.lookups import Lookups
from spacy.tokens import Doc
from spacy.util import load_config_from_str
from spacy.vectors import Vectors
from spacy.vocab import Vocab
from typer.testing import CliRunner

from spacy_spectral.cli import spectral_cli
from spacy_spectral.models.eigenwords.clusters import (
    GRANULARITIES,
    WordClusters,
    clusters_to_bytes,
)
from spacy_spectral.models.eigenwords.vectors import find_row, nearest_words
from spacy_spectral.pipeline.training_data import find_clusters, find_word_vectors

run = CliRunner().invoke


@pytest.fixture(scope="session")
def directory(text_file, tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "eigenwords"
    arguments = ["eigenwords", str(text_file), "-o", str(path), "-k", "10", "--clusters", "4,16"]
    result = run(spectral_cli, arguments)
    assert result.exit_code == 0, result.output
    return path


def test_directory_is_a_pipeline_with_vectors(directory):
    nlp = spacy.load(directory)
    assert nlp.vocab.vectors.shape[1] == 10
    doc = nlp("The nounaa verbaas in 1999")
    assert all(token.has_vector for token in doc)
    assert numpy.allclose([token.vector_norm for token in doc], 1.0, atol=1e-5)
    values = nlp.meta["eigenwords"]["singular_values"]
    assert len(values) == 10 and values == sorted(values, reverse=True)
    # numerals are one word
    assert doc[4].similarity(nlp("2001")[0]) == pytest.approx(1.0)


def test_the_same_text_gives_the_same_files(directory, text_file, tmp_path):
    arguments = ["eigenwords", str(text_file), "-k", "10", "--clusters", "4,16", "-j", "2"]
    assert run(spectral_cli, [*arguments, "-o", str(tmp_path)]).exit_code == 0
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert len(files) >= 6
    for path in files:
        assert (tmp_path / path.relative_to(directory)).read_bytes() == path.read_bytes(), path


def test_initialize_vectors_and_lookups_in_a_config(directory):
    config = f"""
    [nlp]
    lang = "en"
    pipeline = ["eigenwords"]
    [components]
    [components.eigenwords]
    factory = "eigenwords"
    [initialize]
    vectors = "{directory}"
    [initialize.lookups]
    @misc = "spacy-spectral.EigenwordLookups.v1"
    path = "{directory}"
    """
    nlp = spacy.util.load_model_from_config(load_config_from_str(config), auto_fill=True)
    nlp.initialize()
    expected = spacy.load(directory)("nounaa")[0].vector
    token = nlp("nounaa")[0]
    assert numpy.array_equal(token.vector, expected)
    assert token._.eigenword_cluster == tuple(WordClusters.from_disk(directory).ids(["nounaa"])[0])


def test_clusters_of_known_and_unknown_words(directory, tmp_path):
    clusters = WordClusters.from_disk(directory)
    assert clusters.granularities == (4, 16)
    ids = clusters.ids(["nounaa", "NOUNAA", "1234", "2999", "zzz"])
    assert ids.dtype == numpy.int32 and ids.shape == (5, 2)
    assert (ids[0] == ids[1]).all() and (ids[2] == ids[3]).all()
    assert ((ids[:4] >= 0) & (ids[:4] < [4, 16])).all()
    assert clusters.ids([]).shape == (0, 2)
    again = WordClusters.from_lookups(spacy.load(directory).vocab.lookups)
    assert (again.ids(["nounaa", "the"]) == clusters.ids(["nounaa", "the"])).all()
    with pytest.raises(ValueError, match="S216"):
        WordClusters.from_disk(tmp_path)
    with pytest.raises(ValueError, match="S215"):
        WordClusters.from_lookups(spacy.blank("en").vocab.lookups)


PARTS = [a + b for a in "abcdefghijkl" for b in "abcdefghijklmnopqrstuvwxy"]


@pytest.fixture(scope="module")
def of_others(tmp_path_factory):
    """Vectors as other programs make them: frequent words first; verbs point up, names point right."""
    rng, vocab = numpy.random.default_rng(0), Vocab()
    forms = [word for part in PARTS for word in (f"run{part}ing", f"Mc{part}son")]
    up = numpy.array([[form.startswith("run")] * 5 + [form.startswith("Mc")] * 5 for form in forms])
    data = (up + 0.1 * rng.normal(size=up.shape)).astype("float32")
    data[7] = 0.0
    keys = [vocab.strings.add(form) for form in forms]
    vocab.vectors = Vectors(strings=vocab.strings, data=data, keys=keys)
    path = tmp_path_factory.mktemp("others")
    spacy.blank("en", vocab=vocab).to_disk(path)
    return path


def test_vectors_of_others_get_clusters_and_classes(of_others):
    found = find_clusters(of_others, Vocab())
    known, unknown = found.ids(["runabing", "Mcabson"]), found.ids(["rxzing", "Mxzson"])
    assert found.granularities == GRANULARITIES
    assert (known >= 0).all() and (unknown >= 0).all()
    # the class of an unknown word is with the words that look like it
    assert len(set(known[:, 0])) == 2
    verbs = set(found.ids([f"run{part}ing" for part in PARTS])[:, 0].tolist())
    names = set(found.ids([f"Mc{part}son" for part in PARTS[4:]])[:, 0].tolist())
    assert not verbs & names
    assert unknown[0, 0] in verbs and unknown[1, 0] in names
    vectors = find_word_vectors(of_others, Vocab())(["runabing", "rxzing", "Mxzson", "Mcadson"])
    lengths = numpy.linalg.norm(vectors, axis=1)
    numpy.testing.assert_allclose(lengths, [1.0, 1.0, 1.0, 0.0], atol=2e-3)
    cosines = vectors @ vectors.T
    assert cosines[0, 1] > 0.9 and cosines[0, 2] < 0.2
    again = find_clusters(of_others, Vocab())
    assert clusters_to_bytes(again) == clusters_to_bytes(found)


def test_small_tables_have_no_classes(tmp_path):
    nlp = spacy.blank("en")
    nlp.vocab.set_vector("dog", numpy.array([3.0, 4.0], dtype="float32"))
    nlp.to_disk(tmp_path)
    found = find_clusters(tmp_path, Vocab()).ids(["dog", "Ω"])
    assert (found[0] == 0).all() and (found[1] == -1).all()


def test_clusters_separate_nouns_from_verbs(directory, sentences):
    totals = Counter(word for words in sentences for word in words)
    # rarer nouns and verbs look alike and share a class
    forms = {word for word, n in totals.items() if n >= 5}
    clusters = WordClusters.from_disk(directory)
    kinds = {
        kind: {tuple(row) for row in clusters.ids(sorted(f for f in forms if f.startswith(kind)))}
        for kind in ("noun", "verb")
    }
    assert not kinds["noun"] & kinds["verb"]


def test_unknown_words_take_the_vector_of_their_class():
    from token_lists import count_token_lists

    from spacy_spectral.models.eigenwords.model import Eigenwords
    from spacy_spectral.models.eigenwords.vectors import make_pipeline

    names = [f"{a}{b}son" for a in "BDFGHK" for b in "aeiou"]
    sentences = [["Mr.", name, verb, "."] for name in names for verb in ("ran", "sat", "ate")]
    model = Eigenwords.estimate(
        count_token_lists(sentences * 2, min_count=20, window=2), k=3, granularities=[2]
    )
    vocab = make_pipeline(model, meta={}).vocab
    assert model.vocabulary.classes == ["<Xx-son>"]
    assert find_row(vocab, "Xyzson") == find_row(vocab, "Bason") >= 0
    assert model.clusters.ids(["Xyzson"]).tolist() == model.clusters.ids(["Bason"]).tolist()
    assert "<Xx-son>" not in dict(nearest_words(vocab, "ran", n=50))


def test_component_compares_by_the_formula(directory):
    nlp = spacy.load(directory)
    nlp.add_pipe("eigenwords")
    a, b = nlp("The red nounaa verbaas"), nlp("every old nounba verbbas")
    words = sorted({token.text for doc in (a, b) for token in doc})
    vectors = numpy.array([nlp.vocab[w].vector for w in words], dtype="float64")
    similarity_of_words = vectors @ vectors.T
    weights = nlp.vocab.lookups.get_table("eigenword_weights")

    def bag(doc):
        return numpy.array([weights[w] * sum(t.text == w for t in doc) for w in words])

    def product(x, y):
        return bag(x) @ similarity_of_words @ bag(y)

    expected = product(a, b) / numpy.sqrt(product(a, a) * product(b, b))
    assert a.similarity(b) == pytest.approx(expected, abs=1e-6)
    assert a[:].similarity(b[:]) == pytest.approx(expected, abs=1e-6)
    assert a._.eigenword_similarity(b) == pytest.approx(expected, abs=1e-6)
    assert a.similarity(a) == pytest.approx(1.0)
    assert a[2].similarity(b[2]) == pytest.approx(
        float(vectors[words.index("nounaa")] @ vectors[words.index("nounba")]), abs=1e-5
    )
    assert a.similarity(nlp("!")) == 0.0


def test_component_in_pipe_and_without_vectors(directory, tmp_path):
    nlp = spacy.load(directory)
    nlp.add_pipe("eigenwords")
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    texts = ["The nounaa verbaas", "a red nounba", ""]
    one_by_one = [again(text) for text in texts]
    expected = [[t._.eigenword_cluster for t in doc] for doc in one_by_one]
    for settings in ({}, {"batch_size": 1}, {"n_process": 2}):
        docs = list(again.pipe(texts, **settings))
        assert [[t._.eigenword_cluster for t in doc] for doc in docs] == expected
        values = [one_by_one[0]._.eigenword_similarity(doc) for doc in docs]
        assert values == [one_by_one[0].similarity(doc) for doc in one_by_one]
    blank = spacy.blank("en")
    blank.add_pipe("eigenwords")
    with pytest.raises(ValueError, match="S222"):
        blank("a").similarity(blank("b"))


def test_neighbors_command(directory, tmp_path):
    result = run(spectral_cli, ["neighbors", str(directory), "nounaa", "-n", "3"])
    assert result.exit_code == 0
    nlp = spacy.load(directory)
    target = nlp.vocab["nounaa"].vector
    cosines = {
        nlp.vocab.strings[key]: float(vector @ target)
        for key, vector in nlp.vocab.vectors.items()
        if not nlp.vocab.strings[key].startswith("<") and nlp.vocab.strings[key] != "nounaa"
    }
    best = max(cosines, key=cosines.get)
    assert best in result.output and f"{cosines[best]:.3f}" in result.output
    spacy.blank("en").to_disk(tmp_path)
    result = run(spectral_cli, ["neighbors", str(tmp_path), "nounaa"])
    assert result.exit_code == 1 and "S222" in result.output
    assert run(spectral_cli, ["neighbors", "/no/such/place", "a"]).exit_code == 1
    for blank in ("", " "):
        result = run(spectral_cli, ["neighbors", str(directory), blank])
        assert result.exit_code == 1 and "S217" in result.output


def test_word_map(directory, tmp_path, sentences):
    from xml.etree import ElementTree

    lines = []
    for words in sentences[:100]:
        for i, word in enumerate(words, 1):
            tag = "NOUN" if word.startswith("noun") else "VERB" if word.startswith("verb") else "X"
            lines.append("\t".join([str(i), word, "_", tag, *["_"] * 6]))
        lines.append("")
    (tmp_path / "tagged.conllu").write_text("\n".join(lines))
    output = tmp_path / "map.svg"
    arguments = ["word-map", str(directory), str(tmp_path / "tagged.conllu"), "-o", str(output)]
    assert run(spectral_cli, [*arguments, "-n", "30"]).exit_code == 0
    first = output.read_bytes()
    titles = [
        e.text for e in ElementTree.fromstring(first).iter("{http://www.w3.org/2000/svg}title")
    ]
    assert len(titles) == 30 and "nounaa (NOUN)" in titles
    assert run(spectral_cli, [*arguments, "-n", "30"]).exit_code == 0
    assert output.read_bytes() == first
    for damaged, code in ((b"", "S224"), (b"1\tcaf\xe9", "S203")):
        (tmp_path / "tagged.conllu").write_bytes(damaged)
        result = run(spectral_cli, arguments)
        assert result.exit_code == 1 and code in result.output


@pytest.mark.parametrize(
    "options,message",
    [
        (["-k", "100000"], "S214"),
        (["--clusters", "a,b"], "--clusters"),
        (["--context", "sack"], "--context"),
        (["-m", "100000"], "S206"),
    ],
)
def test_user_errors_are_messages(text_file, tmp_path, options, message):
    arguments = ["eigenwords", str(text_file), "-o", str(tmp_path / "out"), *options]
    result = run(spectral_cli, arguments)
    assert result.exit_code == 1
    assert message in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["-k", "-m", "--max-words", "--seed"])
def test_numbers_that_mean_nothing_are_refused(text_file, tmp_path, option):
    arguments = ["eigenwords", str(text_file), "-o", str(tmp_path / "out"), option, "-1"]
    result = run(spectral_cli, arguments)
    assert result.exit_code == 2 and "Invalid value" in result.output
    assert not (tmp_path / "out").exists()


def test_scheduler_that_is_not_there(text_file, tmp_path):
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    arguments = ["eigenwords", str(text_file), "-o", str(tmp_path / "out")]
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        result = run(spectral_cli, [*arguments, "--scheduler", "tcp://127.0.0.1:1"])
    assert result.exit_code == 1 and "S212" in result.output


def test_a_full_disk_leaves_the_old_result(text_file, tmp_path, monkeypatch):
    arguments = ["eigenwords", str(text_file), "--clusters", "4", "-o", str(tmp_path / "out"), "-k"]
    assert run(spectral_cli, [*arguments, "5"]).exit_code == 0
    old = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}

    def no_space(*arguments, **options):
        raise OSError("616500 requested and 399328 written")

    monkeypatch.setattr(Lookups, "to_disk", no_space)
    result = run(spectral_cli, [*arguments, "4"])
    assert result.exit_code == 1 and "[S004]" in result.output and "requested" in result.output
    found = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert found == old


def test_docbin_input(tmp_path, sentences):
    from spacy.tokens import DocBin

    vocab = spacy.blank("en").vocab
    DocBin(docs=[Doc(vocab, words=words) for words in sentences]).to_disk(tmp_path / "a.spacy")
    arguments = ["eigenwords", str(tmp_path / "a.spacy"), "-k", "5", "-o", str(tmp_path / "out")]
    assert run(spectral_cli, [*arguments, "--two-step", "-w", "1"]).exit_code == 0
    meta = srsly.read_json(tmp_path / "out" / "meta.json")["eigenwords"]
    assert meta["n_tokens"] == sum(map(len, sentences)) and meta["two_step"]
