"""Tokens: what is learnt of a small language, any string given back, damaged files, threads."""

import math
import random
import re
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_spectral.base.files import pack, unpack
from spacy_spectral.models.linear import tokenizer
from spacy_spectral.models.linear._strings import CHARACTER_COLUMNS, character_attributes
from spacy_spectral.models.linear.chunks import (
    INNER_WORD,
    JOINED,
    WORD,
    PiecedText,
    Stops,
    cut_chunks,
    may_join,
    piece_words,
    split_chunks,
)
from spacy_spectral.models.linear.tokenizer import (
    Pieces,
    SpecialCases,
    SpecialToken,
    TokenizerModel,
    TokenizerRecipe,
    inside_clusters,
)

STEMS = ["kal", "mor", "tive", "sun", "pel", "dra", "vok", "lim", "gor", "hask", "bren", "yul"]


def make_texts(n, *, seed, spaces=False):
    """Words with clitics ('ko is a part of a multiword token), punctuation, and "ana lu" as one word."""
    rng = random.Random(seed)
    texts = []
    for _ in range(n):
        words, whites, inner = [], [], []
        for _ in range(rng.randint(3, 9)):
            word = rng.choice(STEMS) + rng.choice(["", "a", "in", "ost"])
            words.append("ana lu" if spaces and rng.random() < 0.2 else word)
            whites.append(" ")
            inner.append(False)
            if rng.random() < 0.3:
                whites[-1] = ""
                words.append("'ko")
                whites.append(" ")
                inner.append(True)
            if rng.random() < 0.3:
                whites[-1] = ""
                words.append(rng.choice(",;"))
                whites.append(" ")
                inner.append(False)
        whites[-1] = ""
        words.append(rng.choice([".", "!", "..."]))
        whites.append("\n\n")
        inner.append(False)
        texts.append(piece_words(words, whites, inner))
    return texts


def raw(text):
    return "".join(piece + white for piece, white in zip(text.pieces, text.whites, strict=True))


def split(model, text):
    return model.split(*split_chunks(text))


def gold_words(text):
    words = []
    for i, (piece, start) in enumerate(zip(text.pieces, text.starts, strict=True)):
        if start == JOINED:
            words[-1] += text.whites[i - 1] + piece
        else:
            words.append(piece)
    return words


MODEL = TokenizerRecipe().fit(make_texts(200, seed=1))
JOINING = TokenizerRecipe().fit(make_texts(200, seed=2, spaces=True))


@pytest.mark.parametrize("model,spaces", [(MODEL, False), (JOINING, True)])
def test_words_of_new_texts(model, spaces):
    for text in make_texts(30, seed=3, spaces=spaces):
        found = split(model, raw(text))
        assert [word for word in found.words if not word.isspace()] == gold_words(text)


def test_multiword_tokens_are_found_again():
    (text,) = [
        piece_words(["kal", "'ko", ",", "mor"], ["", "", " ", ""], [False, True, False, False])
    ]
    found = split(MODEL, raw(text))
    assert [found.words[a:b] for a, b in found.multiword] == [["kal", "'ko"]]
    joined = split(JOINING, "ana lu'ko kal'ko")
    assert joined.words == ["ana lu", "'ko", "kal", "'ko"]
    assert joined.multiword == [(2, 4)]


def test_multiword_tokens_beside_joined_words_are_kept():
    """Words that are glued stand in chunks that have multiword tokens before and after them."""
    model = TokenizerModel.from_payload(JOINING.to_payload())
    model._memory.add(
        {
            "kal'koana": Pieces.of("kal", "'ko", "ana", multiword=((0, 2),)),
            "lu,mor'ko": Pieces.of("lu", ",", "mor", "'ko", multiword=((2, 4),)),
        }
    )
    found = split(model, "sun kal'koana lu,mor'ko sun")
    assert found.words == ["sun", "kal", "'ko", "ana lu", ",", "mor", "'ko", "sun"]
    assert [found.words[a:b] for a, b in found.multiword] == [["kal", "'ko"], ["mor", "'ko"]]


@settings(max_examples=300)
@given(st.text() | st.text(alphabet=" \n\u00a0\t'.,kalmor\U0001f600\u0301\ud800"))
def test_any_string_is_given_back(text):
    for model in (MODEL, JOINING):
        words, spaces, multiword = split(model, text)
        assert "".join(w + " " * s for w, s in zip(words, spaces, strict=True)) == text
        assert all(words)
        assert all(not word[0].isspace() or word.isspace() for word in words)
        assert all(a + 1 < b <= len(words) for a, b in multiword)


def test_white_space_is_as_spacy_has_it():
    import spacy

    nlp = spacy.blank("en")
    for text in (
        " kal",
        "kal ",
        "kal  mor",
        "kal \n mor",
        "kal\nmor",
        "\n\n kal \n",
        "kal \n  mor  ",
    ):
        theirs = nlp(text)
        found = split(MODEL, text)
        assert found.words == [token.text for token in theirs]
        assert found.spaces == [bool(token.whitespace_) for token in theirs]


def test_same_cuts_however_often_and_in_whatever_company():
    chunks = ["kal'ko", "mor,", "sunost...", "x", "", "!!!", "dra'ko;"]
    together = MODEL._cut(chunks)
    assert together == [MODEL._cut([chunk])[0] for chunk in chunks]
    assert {chunk: MODEL.cut(chunks)[chunk] for chunk in chunks} == dict(
        zip(chunks, together, strict=True)
    )


def test_chunks_may_come_one_by_one():
    model = TokenizerModel.from_bytes(MODEL.to_bytes())
    chunks = ["kala'ko", "mor,", "kala'ko"]
    found = model.cut(chunk for chunk in chunks)
    assert {chunk: found[chunk] for chunk in chunks} == {c: MODEL.cut(chunks)[c] for c in chunks}


THUMB, HEART, FLAG, CODER = "👍🏽", "❤\ufe0f", "🇩🇪", "👩\u200d💻"
SCOTLAND = "🏴" + "".join(chr(0xE0000 + ord(char)) for char in "gbsct") + "\U000e007f"
CLUSTERS = [THUMB, HEART, FLAG, CODER, SCOTLAND, "1\ufe0f\u20e3", "e\u0301", "👩🏽\u200d❤\ufe0f\u200d👨",
            "कि", "กำ", "각", "\u1100\u1161\u11a8", "가\u11a8", "\u0600١", "ｶﾞ", "i\u0307\u0323"]  # fmt: skip


def pieces_of_clusters(text):
    """The places inside of clusters as another library finds them."""
    ends = {match.end() for match in regex.finditer(r"\X", text)}
    return [place for place in range(1, len(text)) if place not in ends]


def test_clusters_are_those_of_unicode():
    for a in [*CLUSTERS, "a", "'", ".", "İ", "ﬁ", "漢"]:
        for b in [*CLUSTERS, "a", "'", ".", "漢"]:
            text = a + b + FLAG
            assert inside_clusters(text) == pieces_of_clusters(text), text
    assert inside_clusters("") == inside_clusters("kal'ko") == inside_clusters("ığüş") == []
    assert inside_clusters("🇩🇪🇫🇷🇮") == [1, 3]
    # a word may end in a virama, and a sentence after a joiner
    assert inside_clusters("क्ष.") == [1] and inside_clusters("ه\u200d.") == [1]


TRICKY = st.text(alphabet=sorted({*"".join(CLUSTERS), *"ak'.,"}), min_size=2, max_size=40)


@given(TRICKY)
def test_no_place_inside_of_a_cluster_is_missed(text):
    # consonants after a virama are the exception
    assert set(pieces_of_clusters(text)) <= set(inside_clusters(text))


def is_cut_in_clusters(text, words):
    ends = numpy.cumsum([len(word) for word in words])[:-1].tolist()
    return bool(set(ends) & set(pieces_of_clusters(text)))


@pytest.fixture(scope="module")
def cutting():
    """A tokenizer that cuts wherever it may, as that of a script without spaces."""
    words = [a + b for a in "kamo" for b in ["", *CLUSTERS[:4]]]
    text = [char for word in words for char in word] * 3
    return TokenizerRecipe().fit([PiecedText(text, [""] * len(text), [WORD] * len(text))])


@given(text=TRICKY)
def test_clusters_are_never_cut(cutting, text):
    assert not is_cut_in_clusters(text, split(cutting, text).words)
    assert not is_cut_in_clusters(text, split(MODEL, text).words)


def test_clusters_are_not_cut_by_windows(cutting, monkeypatch):
    monkeypatch.setattr(tokenizer, "_WINDOW", 8)
    for text in ("a" + FLAG * 40, FLAG * 40, "ka" + THUMB * 9 + CODER * 9):
        assert not is_cut_in_clusters(text, split(cutting, text).words)
    assert split(cutting, "akaka").words == list("akaka")


def make_stops(n, *, seed, cut=()):
    """Sentences start with a capital, words such as "U.K." are in the middle of them; at the end they lose
    their full stop, and some are cut in the middle, too."""
    rng = random.Random(seed)
    texts = []
    for _ in range(n):
        pieces, whites = [], []
        for _ in range(3):
            words = [rng.choice(STEMS) + rng.choice(["", "a", "in"]) for _ in range(4)]
            words[0] = words[0].title()
            short = ".".join(rng.sample("KMTSPDV", rng.randint(2, 3)))
            for word in [*words[:2], short + ".", *words[2:]]:
                is_cut = word in cut
                pieces += [word[:-1], "."] if is_cut else [word]
                whites += ["", " "] if is_cut else [" "]
            end = rng.choice([short, words[-1], "kalos"])
            pieces += [end, "."]
            whites += ["", " "]
        texts.append(PiecedText(pieces, whites, [WORD] * len(pieces)))
    return texts


def test_full_stops_of_abbreviations():
    texts = make_stops(60, seed=8)
    model = TokenizerRecipe().fit(texts)
    for again in (model, TokenizerModel.from_bytes(model.to_bytes())):
        # what was never seen: before a small letter, a capital, the end
        assert split(again, "Kal mor Y.Z.X. sun pel.").words[2] == "Y.Z.X."
        assert split(again, "Kal mor Y.Z.X. Sun pel.").words[2:4] == ["Y.Z.X", "."]
        assert split(again, "Kal mor Y.Z.X.").words[2:] == ["Y.Z.X", "."]
        assert split(again, "Kal mor tivea. Sun pel.").words[2:4] == ["tivea", "."]
    assert TokenizerRecipe().fit(texts).to_bytes() == model.to_bytes()


def test_a_treebank_overrules_the_abbreviations_of_the_language():
    texts = make_stops(60, seed=9)
    abbreviations = ["Yq.", "Wq.", "Zr.", "Qv.", "Xj.", "zq.", "kalos.", "a.", ":.", "x y."]
    ends = PiecedText(["kalos", ".", "mor"], ["", " ", " "], [WORD] * 3)
    model = TokenizerRecipe().fit([*texts, *[ends] * 20], abbreviations=abbreviations)
    again = TokenizerModel.from_bytes(model.to_bytes())
    assert again.to_payload()["listed"] == sorted(text[:-1] for text in abbreviations[:7])
    for known in (model, again):
        assert split(known, "Kal mor Yq. sun pel.").words[2] == "Yq."
        assert split(known, "Kal mor kalos. mor pel.").words[2:4] == ["kalos", "."]


def test_small_letters_say_less_where_writers_are_careless():
    texts = make_stops(60, seed=11)
    stops = Stops(frozenset(), frozenset({"sun", "kal"}))
    whites = [" "] * 3 + [""]
    assert stops.in_context(["Kal", "yor.", "sun", "kal."], whites)[1] == "yor. a"
    careless = stops.in_context(["kal.", "yor.", "sun", "kal."], whites)
    assert careless == ["kal. i", "yor. i", "sun", "kal. $"]
    signs = {" A": "Sun", " 0": "9", " .": "(", "": ""}
    for sign, after in signs.items():
        assert stops.in_context(["yor.", after, "x"], whites[:3])[0] == f"yor.{sign}"
    assert stops.in_context(["yor.", "sun"], ["\n\n", ""])[0] == "yor. $"
    words = ["mora", "sunin", "pel", "vok", "limin"]
    lines = [
        PiecedText([a, ".", b, "mor"], ["", " ", " ", ""], [WORD] * 4) for a in words for b in words
    ]
    model = TokenizerRecipe().fit(
        [*texts, *lines * 2], abbreviations=["Yq.", "Zr.", "Wp.", "Xt.", "Qv."]
    )
    assert split(model, "Kal Yh. sun pel.").words[1] == "Yh."
    assert split(model, "kal pel. vok mora. mor sunin. pel").words.count(".") == 3


def test_quotes_dashes_and_currencies_vary():
    """What others write is cut in the same way; hyphens inside of words are not dashes."""
    pieces = ['"', "kal", '"', "do", "n't", "$", "9", "mor", "-", "sun", "x-y"]
    text = PiecedText(
        pieces, ["", "", " ", "", " ", "", " ", "", "", " ", ""], [WORD] * len(pieces)
    )
    chunks, _ = cut_chunks([text])
    for variant in ("“kal“", "”kal”", "don’t", "€9", "£9", "mor–sun", "mor—sun"):
        assert chunks.count(variant) == 1
    assert not {"x–y", "x—y"} & set(chunks)
    model = TokenizerRecipe().fit([text] * 3)
    assert split(model, "“kal” don’t €9 mor—sun").words == [
        *("“", "kal", "”", "do", "n’t", "€", "9", "mor", "—", "sun")
    ]


def test_words_with_full_stops_are_cut_if_the_treebank_does():
    cut = {f"{a}.{b}." for a in "KMTSPDV" for b in "KMTSPDV"}
    model = TokenizerRecipe().fit(make_stops(60, seed=10, cut=cut))
    assert not model.to_payload()["fixed"]
    assert split(model, "Kal mor K.M. sun pel.").words[2:4] == ["K.M", "."]


def test_files_of_before_know_nothing_of_full_stops():
    payload = unpack("tokenizer", 1, MODEL.to_bytes())
    for name in ("listed", "plain", "fixed"):
        del payload[name]
    model = TokenizerModel.from_bytes(pack("tokenizer", 1, payload))
    expected = list(model.cut(["Y.Z."])["Y.Z."].words)
    for text in ("Y.Z. sun", "Y.Z. Sun", "Y.Z.\n\n"):
        assert split(model, text).words[: len(expected)] == expected
        assert "Y.Z." in model._memory.known and len(model._memory.known) <= 3
    assert TokenizerModel.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


def test_threads_give_what_one_gives(monkeypatch):
    monkeypatch.setattr(tokenizer, "_CACHE_SIZE", 40)  # so that the cache is replaced all the time
    model = TokenizerModel.from_bytes(MODEL.to_bytes())
    texts = [raw(text) for text in make_texts(200, seed=4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: split(model, text), texts * 3))
    assert found == [split(MODEL, text) for text in texts] * 3
    assert 0 < len(model._memory.known) <= 40


def test_long_chunks_are_looked_at_through_windows(monkeypatch):
    rng = random.Random(0)
    chunk = "".join(rng.choice(STEMS) + rng.choice(["'ko", ",", ";", "..."]) for _ in range(60))
    whole = MODEL._cut([chunk, "kal'ko"])
    monkeypatch.setattr(tokenizer, "_WINDOW", 64)
    monkeypatch.setattr(tokenizer, "_BATCH", 150)
    parts = MODEL._cut([chunk, "kal'ko"])
    assert parts[1] == whole[1]
    assert "".join(parts[0].words) == chunk
    # what decides is near: windows change nothing here
    assert parts[0] == whole[0]


def test_long_chunks_are_not_remembered():
    model = TokenizerModel.from_bytes(MODEL.to_bytes())
    chunk = "kal'ko," * 40
    assert "".join(model.cut([chunk])[chunk].words) == chunk
    assert not model._memory.known


def test_attributes_depend_on_the_chunk_alone():
    chunks = ["kal'ko", "a", "", "Mor9!!", "kal'ko"]
    starts, rows = character_attributes(chunks)
    assert starts.tolist() == [0, 5, 5, 5, 10, 15]
    assert rows.shape == (15, CHARACTER_COLUMNS + 1)
    assert (rows[:, :-1] > 0).all()
    numpy.testing.assert_array_equal(rows[:5], rows[10:])
    for chunk, start, end in zip(chunks, starts, starts[1:], strict=False):
        numpy.testing.assert_array_equal(character_attributes([chunk])[1], rows[start:end])


def test_counts_are_repeated_by_their_logarithm():
    text = PiecedText(["a", "b", "ab", "c"], ["", " ", " ", ""], [WORD, WORD, WORD, WORD])
    chunks, gold = cut_chunks([text] * 5)
    assert chunks == ["ab"] * 6
    assert gold.tolist() == [WORD] * 3 + [0] * 3


def test_words_with_spaces_are_pieces():
    text = piece_words(["a b\u00a0c", "d", "e"], [" ", "", ""], [False, False, True])
    assert text.pieces == ["a", "b", "c", "d", "e"]
    assert text.whites == [" ", "\u00a0", " ", "", ""]
    assert text.starts == [WORD, JOINED, JOINED, WORD, INNER_WORD]
    for word in ("a\nb", "a  b", " a", "a ", ""):
        assert piece_words([word], [""], [False]) is None
    assert may_join(" ") and may_join("\u202f") and not may_join("\n") and not may_join("  ")


def test_words_of_training_are_joined_in_new_text():
    rng = random.Random(3)
    syllables = [a + b for a in "kmtspd" for b in ("a", "e", "i", "o", "u", "an", "en", "on")]
    lexicon = [" ".join(rng.choices(syllables, k=2)) for _ in range(150)] + syllables * 3

    def texts(n):
        for _ in range(n):
            words = rng.choices(lexicon, k=12)
            yield piece_words(words, [" "] * len(words), [False] * len(words))

    payload = unpack("tokenizer", 1, TokenizerRecipe().fit(list(texts(150))).to_bytes())
    model = TokenizerModel.from_bytes(pack("tokenizer", 1, payload))
    # a file of a time when there was no dictionary
    payload["pairs"] = payload["pair_entries"] = None
    older = TokenizerModel.from_bytes(pack("tokenizer", 1, payload))
    right, total = [0, 0], 0
    for text in texts(100):
        gold = [start == JOINED for start in text.starts]
        total += len(gold)
        chunks, whites = split_chunks(raw(text))
        for i, tokenizes in enumerate((model, older)):
            words = tokenizes.split(chunks, whites).words
            joined = [place > 0 for word in words for place in range(len(word.split(" ")))]
            right[i] += sum(a == b for a, b in zip(joined, gold, strict=True))
    assert right[0] > 0.9 * total and right[0] > right[1]
    payload["pairs"] = ["a b"]
    with pytest.raises(ValueError, match="S00"):
        TokenizerModel.from_bytes(pack("tokenizer", 1, payload))


def test_nothing_to_learn_from():
    for texts in ([], [PiecedText(["x", "y"], [" ", ""], [WORD, WORD])]):
        with pytest.raises(ValueError, match="S602"):
            TokenizerRecipe().fit(texts)


def test_one_chunk_is_enough():
    model = TokenizerRecipe().fit([PiecedText(["a", "."], ["", ""], [WORD, WORD])] * 2)
    assert split(model, "a. a").words == ["a", ".", "a"]


def test_retraining_gives_the_same_bytes():
    texts = make_texts(60, seed=5, spaces=True)
    data = TokenizerRecipe().fit(texts).to_bytes()
    assert TokenizerRecipe().fit(texts).to_bytes() == data
    assert TokenizerModel.from_bytes(data).to_bytes() == data
    assert TokenizerRecipe(seed=1).fit(texts).to_bytes() != data


SMALL = TokenizerRecipe(epochs=2).fit(make_texts(20, seed=6, spaces=True)).to_bytes()


@settings(max_examples=200)
@given(st.data())
def test_damaged_contents_never_crash(data):
    """Contents that passed the checksum: a coded error, or a tokenizer that loses nothing."""
    payload = unpack("tokenizer", 1, SMALL)
    where = payload[data.draw(st.sampled_from(["cuts", "joins"]))]
    name = data.draw(st.sampled_from(sorted(where)))
    value = where[name].copy()
    kind = data.draw(st.sampled_from(["entry", "length", "type", "none"]))
    if kind == "entry" and value.size:
        index = data.draw(st.integers(0, value.size - 1))
        if value.dtype.kind == "f":
            value[index] = data.draw(st.sampled_from([math.nan, math.inf, -math.inf, 1e30, 5]))
        else:
            info = numpy.iinfo(value.dtype)
            value[index] = data.draw(st.integers(int(info.min), int(info.max)))
    elif kind == "length":
        value = value[: data.draw(st.integers(0, len(value)))]
    elif kind == "type":
        value = data.draw(st.sampled_from([value.astype("float64"), value[None], "x", 3, [1]]))
    else:
        value = None
    where[name] = value
    try:
        model = TokenizerModel.from_bytes(pack("tokenizer", 1, payload))
    except ValueError as error:
        assert re.match(r"\[S00[245]\]", str(error))
    else:
        text = "kal'ko ana lu,  mor..."
        words, spaces, _ = split(model, text)
        assert "".join(w + " " * s for w, s in zip(words, spaces, strict=True)) == text


def test_special_cases_win_where_they_stand_alone():
    special = SpecialCases(
        {
            "kal'ko": (SpecialToken("kal'"), SpecialToken("ko", "KO")),
            "kal": (SpecialToken("kal"),),
            ":-)": (SpecialToken(":-)"),),
            "ana lu": (SpecialToken("ana lu"),),
        }
    )

    def words(text):
        marked = special.mark(text)
        found = MODEL.split(marked.chunks, marked.whites, marked.special)
        assert "".join(w + " " * s for w, s in zip(found.words, found.spaces, strict=True)) == text
        return found.words, marked.norms

    assert words("kal'ko") == (["kal'", "ko"], {4: "KO"})
    assert words("mor (kal'ko), kal'kos")[0][:5] == ["mor", "(", "kal'", "ko", ")"]
    assert words("kal'kos")[0][:1] != ["kal'"]
    assert words("x:-)x")[0] == ["x", ":-)", "x"]
    assert "ana lu" in words("kal ana lu mor")[0]
    assert words(" kal'ko  kal'ko\n")[1] == {5: "KO", 13: "KO"}


@given(st.text(alphabet=" \nkal'omr:-)", max_size=30))
def test_special_cases_lose_nothing(text):
    special = SpecialCases(
        {"kal'ko": (SpecialToken("kal'"), SpecialToken("ko")), ":-)": (SpecialToken(":-)"),)}
    )
    for model in (MODEL, JOINING):
        marked = special.mark(text)
        words, spaces, _ = model.split(marked.chunks, marked.whites, marked.special)
        assert "".join(w + " " * s for w, s in zip(words, spaces, strict=True)) == text


def test_pieces_know_their_spaces():
    assert Pieces.of("a", "b") == Pieces(("a", "b"), (False, True))
