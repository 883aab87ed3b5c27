"""Counting against a few lines of plain Python, in all formats and divisions of the work."""

import gzip
import sys
from collections import Counter

import pytest
import spacy
import srsly
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin
from token_lists import count_token_lists, find, write_token_lists

from spacy_spectral.base import text_files
from spacy_spectral.base.text_files import find_parts
from spacy_spectral.models.eigenwords import statistics
from spacy_spectral.models.eigenwords._kernels import PairCounter
from spacy_spectral.models.eigenwords.statistics import (
    Counts,
    count_files,
    merge_pairs,
    read_blocks,
)
from spacy_spectral.models.eigenwords.vectors import spacy_tokenizer
from spacy_spectral.models.eigenwords.vocabulary import BOUNDARY, signatures


def naive_pairs(sentences, vocabulary, window):
    """What the compiled counter must find."""
    names = vocabulary.names
    found = Counter()
    for words in sentences:
        if not words:
            continue
        line = [BOUNDARY, *(names[find(vocabulary, word)] for word in words), BOUNDARY]
        for i, left in enumerate(line):
            for distance in range(1, window + 1):
                if i + distance < len(line):
                    found[distance, left, line[i + distance]] += 1
    return found


def counted_pairs(counts):
    names = counts.vocabulary.names
    found = {}
    for distance in range(1, counts.window + 1):
        matrix = counts.successors(distance).tocoo()
        for row, column, value in zip(matrix.row, matrix.col, matrix.data, strict=True):
            found[distance, names[row], names[column]] = int(value)
    return found


@pytest.mark.parametrize("window", [1, 2, 5])
def test_pairs_equal_plain_python(sentences, window):
    counts = count_token_lists(sentences, window=window, min_count=3)
    assert counted_pairs(counts) == dict(naive_pairs(sentences, counts.vocabulary, window))
    assert counts.pairs.n_tokens == sum(map(len, sentences))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.text("abAB1é-'", min_size=1, max_size=4), max_size=12), max_size=15),
    st.integers(1, 3),
)
def test_pairs_equal_plain_python_on_random_text(sentences, window):
    sentences = [*sentences, ["x", "y"], ["x", "y"]]
    counts = count_token_lists(sentences, window=window, min_count=2)
    assert counted_pairs(counts) == dict(naive_pairs(sentences, counts.vocabulary, window))
    assert int(counts.vocabulary.counts.sum()) == sum(map(len, sentences))


def test_minimum_count_is_exact(sentences):
    totals = Counter(
        word.translate(str.maketrans("123456789", "0" * 9)) for s in sentences for word in s
    )
    counts = count_token_lists(sentences, min_count=7)
    assert set(counts.vocabulary.words) == {word for word, n in totals.items() if n >= 7}
    order = [(-totals[word], word) for word in counts.vocabulary.words]
    assert order == sorted(order)


def test_rare_words_are_counted_as_their_class():
    sentences = [["the", "dog", "sees", name] for name in ("Edison", "Jackson", "Wilson")] * 40
    counts = count_token_lists(sentences, min_count=50)
    assert counts.vocabulary.words == ["dog", "sees", "the"]
    assert counts.vocabulary.classes == ["<Xx-son>"]
    assert find(counts.vocabulary, "Henderson") == 3
    assert find(counts.vocabulary, "THE") == find(counts.vocabulary, "the") == 2
    assert find(counts.vocabulary, "xyz") == -1


@pytest.mark.parametrize(
    "form,names",
    [
        ("Edison", ["<Xx-son>", "<Xx-on>", "<Xx>", "<unk>"]),
        ("NATO", ["<XX>", "<unk>"]),
        ("1,000", ["<0>", "<unk>"]),
        ("3rd", ["<0x>", "<unk>"]),
        ("well-known", ["<x--own>", "<x--wn>", "<x->", "<unk>"]),
        (";;", ["<.>", "<unk>"]),
    ],
)
def test_signatures(form, names):
    assert signatures(form) == names


def test_division_makes_no_difference(text_file):
    whole = count_files([text_file]).to_bytes()
    assert count_files([text_file], part_size=997).to_bytes() == whole
    assert count_files([text_file], part_size=997, workers=2).to_bytes() == whole
    assert Counts.from_bytes(whole).to_bytes() == whole


@pytest.mark.parametrize("window", [1, 10])
@pytest.mark.parametrize("n_words", [4094, 4095, 4096, 4097, 20_000])
def test_long_lines_are_counted_piece_by_piece(tmp_path, monkeypatch, window, n_words):
    monkeypatch.setattr(statistics, "BLOCK_SIZE", 1000)
    monkeypatch.setattr(text_files, "BLOCK_SIZE", 1000)
    words = [f"w{i * i % 97}" for i in range(n_words)]
    path = tmp_path / "text.txt"
    path.write_text("w1 w2\n" + "\t ".join(words) + "\n\nw3 w4", encoding="utf8")
    lines = [["w1", "w2"], words, ["w3", "w4"]]
    whole = count_files([path], window=window, min_count=1)
    assert counted_pairs(whole) == dict(naive_pairs(lines, whole.vocabulary, window))
    assert whole.pairs.n_tokens == n_words + 4
    parts = count_files([path], window=window, min_count=1, part_size=3001)
    assert parts.to_bytes() == whole.to_bytes()


def test_blocks_are_small_however_long_the_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(statistics, "BLOCK_SIZE", 1000)
    monkeypatch.setattr(text_files, "BLOCK_SIZE", 1000)
    path = tmp_path / "text.txt"
    path.write_bytes(b"\xef\xbb\xbf" + "née ".encode() * 5000)
    blocks = [b for part in find_parts([path], part_size=7000) for b in read_blocks(part)]
    assert max(map(len, blocks)) < 1010
    assert b"".join(blocks) == "née ".encode() * 5000


def test_memory_of_pairs_depends_on_pairs_only():
    import numpy

    def size_after(block):
        chunks = [b"a", b"b", b"c"]
        starts, ids = numpy.arange(4), numpy.arange(3, dtype="int32")
        counter = PairCounter(chunks, starts, ids, 4, 5)
        assert counter.add(block)
        return sys.getsizeof(counter)

    assert size_after(b"a b c " * 100_000) == size_after(b"a b c\n" * 100_000) > 1 << 20


def test_dask_gives_the_same_bytes(text_file):
    pytest.importorskip("dask.distributed")
    whole = count_files([text_file]).to_bytes()
    assert count_files([text_file], part_size=997, workers=2, scheduler="local").to_bytes() == whole


def test_partial_counts_add_up(sentences, tmp_path):
    from spacy_spectral.models.eigenwords.statistics import count_pairs
    from spacy_spectral.models.eigenwords.vocabulary import build_vocabulary

    totals = Counter(word.encode() for words in sentences for word in words)
    _, chunk_map = build_vocabulary(totals)

    def count(some):
        parts = find_parts([write_token_lists(some, tmp_path)])
        return count_pairs(parts, (chunk_map, 2))

    whole, merged = count(sentences), merge_pairs(count(sentences[:150]), count(sentences[150:]))
    assert whole.keys.tobytes() == merged.keys.tobytes()
    assert whole.counts.tobytes() == merged.counts.tobytes()
    assert whole.n_tokens == merged.n_tokens


def test_all_formats_count_alike(sentences, text_file, tmp_path):
    expected = count_files([text_file]).to_bytes()
    nlp = spacy.blank("en")
    text = text_file.read_bytes()
    with gzip.open(tmp_path / "text.txt.gz", "wb") as file:
        file.write(text)
    srsly.write_jsonl(tmp_path / "text.jsonl", [{"text": " ".join(s)} for s in sentences])
    srsly.write_jsonl(tmp_path / "tokens.jsonl", [{"tokens": s} for s in sentences])
    srsly.write_gzip_jsonl(tmp_path / "tokens.jsonl.gz", [{"tokens": s} for s in sentences])
    docs = [Doc(nlp.vocab, words=words) for words in sentences]
    DocBin(docs=docs).to_disk(tmp_path / "docs.spacy")
    (tmp_path / "windows.txt").write_bytes(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"))
    for path in tmp_path.iterdir():
        assert count_files([path], part_size=5000).to_bytes() == expected, path.name
    assert count_token_lists(iter(sentences)).to_bytes() == expected


def test_words_with_spaces_stay_whole():
    counts = count_token_lists([["học sinh", "đi", " ", "học"]] * 3, min_count=1)
    assert set(counts.vocabulary.words) == {"học sinh", "đi", "học"}
    assert counts.pairs.n_tokens == 9


def test_spacy_tokenizer_per_chunk_equals_spacy_per_text():
    nlp = spacy.blank("en")
    text = "I don't think (really!) that U.S. cars' engines cost $5,000-6,000, e.g. can't they?"
    by_chunk = [t for tokens in spacy_tokenizer(nlp)(text.split()) for t in tokens]
    assert by_chunk == [token.text for token in nlp(text)]


def test_lowercase():
    counts = count_token_lists([["The", "cat"], ["the", "CAT"]], min_count=2, lowercase=True)
    assert counts.vocabulary.words == ["cat", "the"]


@pytest.mark.parametrize("content", [b"", b"\n \n\t\n"])
def test_empty_file(tmp_path, content):
    (tmp_path / "empty.txt").write_bytes(content)
    with pytest.raises(ValueError, match="S205"):
        count_files([tmp_path / "empty.txt"])


def test_one_word():
    with pytest.raises(ValueError, match="S206"):
        count_token_lists([["word"] * 10])


def test_truncated_gzip(tmp_path, text_file):
    whole = gzip.compress(text_file.read_bytes())
    for size in (5, len(whole) // 2, len(whole) - 4):
        (tmp_path / "cut.gz").write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"S202.*cut.gz"):
            count_files([tmp_path / "cut.gz"])
    srsly.write_gzip_jsonl(tmp_path / "cut.jsonl.gz", [{"text": str(i)} for i in range(5000)])
    cut = (tmp_path / "cut.jsonl.gz").read_bytes()[:1000]
    (tmp_path / "cut.jsonl.gz").write_bytes(cut)
    with pytest.raises(ValueError, match="S202"):
        count_files([tmp_path / "cut.jsonl.gz"])
    (tmp_path / "cut.gz").write_bytes(b"plain text is no gzip")
    with pytest.raises(ValueError, match="S202"):
        count_files([tmp_path / "cut.gz"])


def test_invalid_utf8_names_file_and_line(tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"one two\nna\xefve reader\n")
    with pytest.raises(ValueError, match=r"S203.*latin\.txt.*reader"):
        count_files([tmp_path / "latin.txt"])


def test_damaged_docbin_and_jsonl(tmp_path):
    (tmp_path / "docs.spacy").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="S202"):
        count_files([tmp_path / "docs.spacy"])
    bad = ("{", '"text"', '{"body": "x"}', '{"text": 5}', '{"text": null}', '{"tokens": "x"}')
    for line in (*bad, '{"tokens": ["x", 5]}', '{"tokens": [{"orth": 5}]}'):
        (tmp_path / "bad.jsonl").write_text('{"text": "fine"}\n' + line)
        with pytest.raises(ValueError, match="S204"):
            count_files([tmp_path / "bad.jsonl"])


def test_missing_file_and_mixed_formats(tmp_path, text_file):
    with pytest.raises(ValueError, match="S225"):
        count_files([tmp_path])
    with pytest.raises(ValueError, match="S201"):
        count_files([tmp_path / "nothing.txt"])
    srsly.write_jsonl(tmp_path / "tokens.jsonl", [{"tokens": ["a", "b"]}])
    with pytest.raises(ValueError, match="S209"):
        count_files(
            [text_file, tmp_path / "tokens.jsonl"], tokenize=spacy_tokenizer(spacy.blank("en"))
        )


def test_a_file_that_changes_is_noticed(tmp_path, text_file, monkeypatch):
    from spacy_spectral.models.eigenwords import statistics

    path = tmp_path / "text.txt"
    path.write_bytes(text_file.read_bytes())
    build = statistics.build_vocabulary

    def build_and_change(*args, **kwargs):
        path.write_bytes(path.read_bytes().replace(b"the ", b"thy "))
        return build(*args, **kwargs)

    monkeypatch.setattr(statistics, "build_vocabulary", build_and_change)
    with pytest.raises(ValueError, match="S207"):
        count_files([path])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text("ab \n", max_size=30), max_size=10), st.integers(1, 20))
def test_parts_cover_every_line_once(tmp_path_factory, pieces, part_size):
    path = tmp_path_factory.mktemp("parts") / "text.txt"
    text = "\n".join(pieces).encode()
    path.write_bytes(text)
    blocks = [b for part in find_parts([path], part_size=part_size) for b in read_blocks(part)]
    assert b"".join(blocks) == text
