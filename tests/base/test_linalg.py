"""Products against exact arithmetic; singular vectors and k-means against dense LAPACK and scikit-learn's."""

from fractions import Fraction

import numpy
import pytest

from spacy_spectral.base import _gemm
from spacy_spectral.base.linalg import kmeans, product, svd, unit_rows


def _rounded(value):
    """The float32 that is nearest to a fraction; of two, the one whose last bit is 0."""
    guess = numpy.float32(float(value))
    near = [guess, *(numpy.nextafter(guess, numpy.float32(end)) for end in (-numpy.inf, numpy.inf))]
    return min(near, key=lambda x: (abs(Fraction(float(x)) - value), int(x.view("int32")) & 1))


def _exact(row, column, fused):
    total = numpy.float32(0.0)
    for x, w in zip(row, column, strict=True):
        term = Fraction(float(x)) * Fraction(float(w))
        if not fused:
            term = Fraction(float(_rounded(term)))
        total = _rounded(Fraction(float(total)) + term)
    return total


def test_products_add_in_a_fixed_order():
    random = numpy.random.default_rng(0)
    rows, matrix = (random.normal(size=(n, 37)).astype("float32") for n in (5, 9))
    for kernel in range(_gemm.n_kernels()):
        found = _gemm.product(rows, matrix, kernel=kernel)
        ways = [
            numpy.array([[_exact(x, w, fused) for w in matrix] for x in rows])
            for fused in (True, False)
        ]
        assert any(numpy.array_equal(found, way) for way in ways)
    assert numpy.array_equal(product(rows, matrix), _gemm.product(rows, matrix))


@pytest.mark.parametrize("inputs", [1, 7, 64, 300])
@pytest.mark.parametrize("outputs", [1, 16, 33, 130])
def test_products_do_not_depend_on_the_batch(inputs, outputs):
    random = numpy.random.default_rng(inputs * outputs)
    rows = random.normal(size=(1100, inputs)).astype("float32")
    matrix = random.normal(size=(outputs, inputs)).astype("float32")
    found = product(rows, matrix)
    numpy.testing.assert_allclose(found, rows.astype("float64") @ matrix.T, atol=1e-4, rtol=1e-4)
    for start, end in [(0, 1), (5, 6), (0, 12), (3, 20), (950, 1000), (1, 1100), (1099, 1100)]:
        assert numpy.array_equal(product(rows[start:end], matrix), found[start:end])
    # however the factors lie in memory
    wide = numpy.zeros((1100, inputs + 3), dtype="float32")
    wide[:, 2:-1] = rows
    assert numpy.array_equal(product(wide[:, 2:-1], numpy.asfortranarray(matrix)), found)
    assert numpy.array_equal(product(rows[::-1], matrix[:, ::-1][:, ::-1]), found[::-1])


def test_kernels_with_fused_additions_give_the_same_bits():
    """AVX2 and AVX-512 differ in speed alone; the last kernel may round twice."""
    random = numpy.random.default_rng(1)
    rows, matrix = (random.normal(size=(n, 211)).astype("float32") for n in (50, 70))
    *fused, last = (_gemm.product(rows, matrix, kernel=i) for i in range(_gemm.n_kernels()))
    for found in fused:
        assert numpy.array_equal(found, fused[0])
    numpy.testing.assert_allclose(last, rows @ matrix.T, rtol=1e-3, atol=1e-4)


def test_products_of_nothing_and_of_other_shapes():
    empty = numpy.zeros((0, 4), dtype="float32")
    some = numpy.ones((3, 4), dtype="float32")
    assert product(empty, some).shape == (0, 3) and product(some, empty).shape == (3, 0)
    assert (product(some[:, :0], some[:, :0]) == numpy.zeros((3, 3))).all()
    with pytest.raises(ValueError, match="rows of 4 numbers"):
        product(some, some[:, :3])
    with pytest.raises(IndexError):
        _gemm.product(some, some, kernel=_gemm.n_kernels())


@pytest.fixture
def sparse_matrix():
    from scipy.sparse import random

    return random(900, 600, density=0.02, random_state=0, format="csr")


def test_lanczos_equals_dense(sparse_matrix):
    left, values, right = svd(sparse_matrix, 20)
    dense_left, dense_values, dense_right = svd(sparse_matrix.toarray(), 20)
    numpy.testing.assert_allclose(values, dense_values, atol=1e-8)
    numpy.testing.assert_allclose(left, dense_left, atol=1e-6)
    numpy.testing.assert_allclose(right, dense_right, atol=1e-6)
    numpy.testing.assert_allclose(sparse_matrix @ right, left * values, atol=1e-6)
    assert (left[numpy.abs(left).argmax(axis=0), numpy.arange(20)] > 0).all()


def test_signs_and_bytes_are_fixed(sparse_matrix):
    first, second = svd(sparse_matrix, 5, seed=3), svd(sparse_matrix, 5, seed=3)
    assert [a.tobytes() for a in first] == [b.tobytes() for b in second]
    matrix = sparse_matrix.toarray()[:40, :30]
    left, values, right = svd(matrix)
    assert left.shape == (40, 30) and right.shape == (30, 30)
    numpy.testing.assert_allclose((left * values) @ right.T, matrix, atol=1e-12)
    # another sign of the same matrix turns the right vectors alone
    other_left, _, other_right = svd(-matrix)
    numpy.testing.assert_allclose(other_left[:, :5], left[:, :5], atol=1e-10)
    numpy.testing.assert_allclose(other_right[:, :5], -right[:, :5], atol=1e-10)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (3, 3)])
def test_small_and_empty_matrices(shape):
    from scipy.sparse import csr_matrix

    left, values, right = svd(csr_matrix(shape), 4)
    k = min(*shape, 4)
    assert left.shape == (shape[0], k) and right.shape == (shape[1], k)
    assert not values.any() and numpy.isfinite(left).all()


def test_unit_rows():
    rows = unit_rows(numpy.array([[3.0, 4.0], [0.0, 0.0]]))
    assert rows.tolist() == [[0.6, 0.8], [0.0, 0.0]]


def inertia(vectors, labels, weights):
    total = 0.0
    for label in numpy.unique(labels):
        own, w = vectors[labels == label], weights[labels == label]
        total += (w[:, None] * (own - numpy.average(own, axis=0, weights=w)) ** 2).sum()
    return total


def test_kmeans_is_as_good_as_another():
    from sklearn.cluster import KMeans

    random = numpy.random.default_rng(0)
    centres = 4 * random.normal(size=(6, 3))
    vectors = centres[random.integers(0, 6, 300)] + random.normal(size=(300, 3))
    weights = random.uniform(0.5, 2.0, 300)
    labels = kmeans(vectors, 6, weights=weights, iterations=100, seed=2)
    # scikit-learn can't improve on it from there
    start = numpy.array(
        [
            numpy.average(vectors[labels == c], axis=0, weights=weights[labels == c])
            for c in range(6)
        ]
    )
    other = KMeans(6, init=start, n_init=1).fit(vectors, sample_weight=weights)
    assert inertia(vectors, labels, weights) == pytest.approx(other.inertia_)
    assert labels.dtype == "int32" and (labels == other.labels_).all()
    best = KMeans(6, n_init=20, random_state=0).fit(vectors, sample_weight=weights)
    assert inertia(vectors, labels, weights) < 1.5 * best.inertia_


def test_kmeans_of_separate_groups():
    random = numpy.random.default_rng(0)
    groups = numpy.repeat([0, 1, 2], 20)
    vectors = numpy.array([[0, 0], [20, 0], [0, 20]])[groups] + random.normal(size=(60, 2))
    labels = kmeans(vectors, 3)
    assert len(set(zip(groups.tolist(), labels.tolist(), strict=True))) == 3
    assert set(labels.tolist()) == {0, 1, 2}
    same = kmeans(vectors[:1].repeat(5, axis=0), 3)
    assert len(set(same.tolist())) == 1


def test_spherical_kmeans_improves_on_its_start_and_fills_all_clusters():
    random = numpy.random.default_rng(0)
    vectors = unit_rows(random.normal(size=(300, 8))).astype("float32")

    def quality(assigned):
        sums = [vectors[assigned == c].sum(axis=0) for c in numpy.unique(assigned)]
        return sum(float(numpy.linalg.norm(s)) for s in sums)

    one, many = (kmeans(vectors, 12, spherical=True, iterations=i, seed=1) for i in (1, 30))
    assert quality(many) > quality(one)
    assert set(many.tolist()) == set(range(12))
    assert set(kmeans(vectors, 300, spherical=True).tolist()) == set(range(300))
    # two far groups and identical points
    same = numpy.repeat(numpy.eye(2, dtype="float32"), 5, axis=0)
    assert len(set(kmeans(same, 2, spherical=True)[:5].tolist())) == 1
