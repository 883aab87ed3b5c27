"""CCA against the textbook: dense one-hot matrices of every token and its context."""

import numpy
import pytest
from token_lists import count_token_lists, find

from spacy_spectral.base.linalg import kmeans
from spacy_spectral.models.eigenwords.model import estimate_vectors

from .conftest import make_sentences


def token_matrices(sentences, vocabulary, window):
    """One row per token: one-hot word, and one-hot context for every position -w..-1, 1..w."""
    n = len(vocabulary)
    words, contexts = [], []
    for sentence in sentences:
        line = [n - 1, *(find(vocabulary, word) for word in sentence), n - 1]
        for i in range(1, len(line) - 1):
            words.append(numpy.eye(n)[line[i]])
            places = [*range(i - 1, i - window - 1, -1), *range(i + 1, i + window + 1)]
            row = [numpy.eye(n)[line[j]] if 0 <= j < len(line) else numpy.zeros(n) for j in places]
            contexts.append(numpy.concatenate(row))
    return numpy.array(words), numpy.array(contexts)


def inverse_root(matrix):
    """The symmetric inverse square root, by eigenvalues; null directions stay out."""
    values, vectors = numpy.linalg.eigh(matrix)
    roots = numpy.where(values > 1e-9, numpy.maximum(values, 1e-9) ** -0.5, 0.0)
    return vectors @ numpy.diag(roots) @ vectors.T


def textbook_cca(counts):
    """C_11^-1/2 C_12 C_22^-1/2, with the square roots of the counts for covariances."""
    rows, columns = (numpy.diag(numpy.sqrt(counts.sum(axis=axis))) for axis in (1, 0))
    return inverse_root(rows) @ numpy.sqrt(counts) @ inverse_root(columns)


@pytest.mark.parametrize("context", ["list", "bag"])
@pytest.mark.parametrize("window", [1, 2])
def test_one_step_equals_dense_cca_of_square_roots(sentences, window, context):
    counts = count_token_lists(sentences, window=window, min_count=4)
    words, contexts = token_matrices(sentences, counts.vocabulary, window)
    if context == "bag":
        contexts = contexts.reshape(len(contexts), 2 * window, -1).sum(axis=1)
    textbook = textbook_cca(words.T @ contexts)
    expected = numpy.linalg.svd(textbook, compute_uv=False)[:15]
    vectors, values = estimate_vectors(counts, k=15, window=window, context=context)
    numpy.testing.assert_allclose(values, expected, atol=1e-8)
    numpy.testing.assert_allclose(numpy.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    # cosines do not depend on the signs or on rotations among equal values
    left, scale, _ = numpy.linalg.svd(textbook)
    rows = (left[:-1, :15] if len(left) == len(vectors) + 1 else left[:, :15]) * scale[:15]
    rows = rows / numpy.linalg.norm(rows, axis=1, keepdims=True)
    numpy.testing.assert_allclose(vectors @ vectors.T, rows @ rows.T, atol=1e-5)


@pytest.mark.parametrize("window", [1, 2])
def test_two_steps_equal_dense_projection(sentences, window):
    """CCA of left and right, then of words with contexts inside the subspace that was found."""
    k = 8
    counts = count_token_lists(sentences, window=2 * window, min_count=4)
    words, contexts = token_matrices(sentences, counts.vocabulary, window)
    n = contexts.shape[1] // 2
    # every pair of a left and a right context of the same token
    between = textbook_cca(contexts[:, :n].T @ contexts[:, n:])
    u, _, v = numpy.linalg.svd(between)
    projection = numpy.zeros((2 * n, 2 * n))
    projection[:n, :n] = u[:, :k] @ u[:, :k].T
    projection[n:, n:] = v[:k].T @ v[:k]
    projected = textbook_cca(words.T @ contexts) @ projection
    expected = numpy.linalg.svd(projected, compute_uv=False)[:k]
    _, values = estimate_vectors(counts, k=k, window=window, two_step=True)
    numpy.testing.assert_allclose(values, expected, atol=1e-8)
    one_step = estimate_vectors(counts, k=k, window=window)[1]
    assert (values < one_step).all()


def test_same_seed_same_bytes():
    counts = count_token_lists(make_sentences(1500, n_nouns=500, n_verbs=300), min_count=1)
    assert len(counts.vocabulary) > 500
    first, second = (estimate_vectors(counts, k=10, seed=3)[0] for _ in range(2))
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("k", [0, 10, 1000])
def test_k_above_the_rank(k):
    counts = count_token_lists([["a", "b", "c"], ["a", "c", "b"]] * 5)
    with pytest.raises(ValueError, match=rf"S214.*{k} dimensions"):
        estimate_vectors(counts, k=k)


def test_window_larger_than_counted(sentences):
    counts = count_token_lists(sentences, window=2)
    with pytest.raises(ValueError, match="S213"):
        estimate_vectors(counts, k=5, window=3)
    with pytest.raises(ValueError, match="S213"):
        estimate_vectors(counts, k=5, window=2, two_step=True)


def test_vectors_find_the_parts_of_speech(sentences):
    counts = count_token_lists(sentences)
    vectors, _ = estimate_vectors(counts, k=5)
    rows = [i for i, w in enumerate(counts.vocabulary.words) if w.startswith(("noun", "verb"))]
    kinds = numpy.array([counts.vocabulary.words[i].startswith("noun") for i in rows])
    found = kmeans(vectors[rows], 2, spherical=True) == 0
    assert max((found == kinds).mean(), (found != kinds).mean()) > 0.95
