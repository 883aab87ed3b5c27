"""From moments to a latent tree model (Dhillon, Rodu, Collins, Foster & Ungar 2012).

With pseudo-inverses, E_L = Lambda_L Sigma_R^+ = G T_L' G^+, E_R likewise, and K(y) gives operators that
share their eigenvectors, D(y) = E_L^+ K(y) Sigma_R^+ = G diag(G'y) G^+. The paper multiplies these operators.
Here they are diagonalised once, which gives G itself and with it the model's parameters: the recursion then
takes k^2 steps a token instead of k^3, and does not depend on an order of the children. Exact moments give
the exact model; those of a treebank give numbers that are only nearly probabilities, so they are made
probabilities and improved by some iterations of EM (estimator "spectral+em").
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors, SpectralError, require_choice, require_settings
from ...base.linalg import svd
from ...treebank.conllu import tree_problems
from ._tree import expected_counts
from .tree_model import Alphabet, TreeModel

# What the latent tree model counts: symbols, vectors for them, and moments of small pieces of trees.
#
# The moments are taken over one population, all triples (left child, parent, right child): with p = P(parent
# state), T_d(h, c) = P(child state c | parent state h, d) and G = E[vector | state], column by column,
#
#     Sigma_d   = E[parent child_d']      = G diag(p) T_d G'
#     Lambda_L  = E[left right']          = G T_L' diag(p) T_R G'
#     K(y)      = E[left (y'parent) right'] = G T_L' diag(p * G'y) T_R G'
#
# hold exactly whatever the distribution p of such parents is.


# Added to counts before rows and columns are scaled by their roots: rare symbols get short vectors.
_RARE = 3.0


@dataclass
class Trees:
    """Complete trees, one after the other: symbols by number, heads in the sentence, from 1, 0 for the
    root."""

    symbols: NDArray[numpy.int32]
    heads: NDArray[numpy.int32]
    starts: NDArray[numpy.int32]

    def arcs(self) -> tuple[NDArray, NDArray, NDArray]:
        """Parents and children, as indices of tokens, and whether the child stands on the right."""
        children = numpy.flatnonzero(self.heads > 0)
        first = numpy.repeat(self.starts[:-1], numpy.diff(self.starts))
        parents = (first + self.heads - 1)[children]
        return parents, children, children > parents


@dataclass
class Moments:
    """Moments over triples (left child, parent, right child) of vectors, see above: third[b] = K(e_b);
    `n` is how many triples there are, infinity for exact moments."""

    sigma_left: NDArray[numpy.float64]
    sigma_right: NDArray[numpy.float64]
    lambda_left: NDArray[numpy.float64]
    third: NDArray[numpy.float64]
    roots: NDArray[numpy.float64]
    n: float

    @classmethod
    def count(cls, trees: Trees, vectors: NDArray[numpy.float64]) -> "Moments":
        """Take the moments of a treebank, of vectors [symbols, k]."""
        k = vectors.shape[1]
        parents, children, on_right = trees.arcs()
        # sums over the children of each token and side: a sum over pairs is a product of sums
        sums = numpy.zeros((2, len(trees.symbols), k))
        n_children = numpy.zeros((2, len(trees.symbols)))
        for side in (0, 1):
            own = on_right == bool(side)
            numpy.add.at(sums[side], parents[own], vectors[trees.symbols[children[own]]])
            n_children[side] = numpy.bincount(parents[own], minlength=len(trees.symbols))
        both = numpy.flatnonzero(n_children.prod(axis=0))
        left, right = sums[:, both]
        n_left, n_right = n_children[:, both, None]
        parent = vectors[trees.symbols[both]]
        n = max(float((n_left * n_right).sum()), 1.0)
        return cls(
            sigma_left=(parent * n_right).T @ left / n,
            sigma_right=(parent * n_left).T @ right / n,
            lambda_left=left.T @ right / n,
            third=numpy.stack([(left * parent[:, [b]]).T @ right for b in range(k)]) / n,
            roots=vectors[trees.symbols[trees.heads == 0]].mean(axis=0),
            n=n,
        )


def bigram_counts(trees: Trees, n_symbols: int):
    """[symbols, 4 * symbols]: how often symbols have each parent and each child, on either side."""
    from scipy.sparse import csr_matrix

    parents, children, on_right = trees.arcs()
    parent, child = trees.symbols[parents].astype("int64"), trees.symbols[children].astype("int64")
    rows = numpy.concatenate([child, parent])
    columns = numpy.concatenate([parent + n_symbols * on_right, child + n_symbols * (2 + on_right)])
    counts = numpy.ones(len(rows))
    return csr_matrix((counts, (rows, columns)), shape=(n_symbols, 4 * n_symbols))


def symbol_vectors(bigrams, k: int) -> NDArray[numpy.float64]:
    """[symbols, dimensions]: vectors by parents and children, the most informative dimensions first: CCA
    by an SVD of scaled counts. The first singular vector is left out: it is the constant, which tells
    nothing."""
    from scipy.sparse import diags

    rows = numpy.asarray(bigrams.sum(axis=1)).ravel() + _RARE
    columns = numpy.asarray(bigrams.sum(axis=0)).ravel() + _RARE
    scaled = diags(rows**-0.5) @ bigrams @ diags(columns**-0.5)
    left, _, _ = svd(scaled, k + 1)
    return left[:, 1:] / numpy.sqrt(rows)[:, None]


def whitened(
    vectors: NDArray[numpy.float64], frequency: NDArray[numpy.float64], k: int
) -> NDArray[numpy.float64]:
    """[symbols, k]: the constant 1 and the first directions of vectors, uncorrelated and of variance 1;
    fewer columns if the vectors have no more directions.

    Then P(symbol | state) = frequency * vector'G is the only way to read emissions off E[vector | state]
    = G, and the first coordinate of G is 1.
    """
    columns = [numpy.ones(len(vectors))]
    for column in vectors.T:
        if len(columns) == k:
            break
        length = numpy.sqrt(frequency @ column**2)
        found = numpy.stack(columns, axis=1)
        for _ in range(2):  # twice: once loses digits
            column = column - found @ (found.T @ (frequency * column))
        rest = numpy.sqrt(frequency @ column**2)
        if rest > 1e-8 * length:
            columns.append(column / rest)
    return numpy.stack(columns, axis=1)


ESTIMATORS = ("spectral", "spectral+em")


# Pseudo-counts of EM: of each state's emissions, by symbol of the alphabet, and of each transition.
_EMISSION_PRIOR = 0.15
_TRANSITION_PRIOR = 0.1


@dataclass(frozen=True)
class TreeSettings:
    """How a latent tree model is learnt.

    estimator: "spectral": moments only, values may be negative. "spectral+em": a proper
        distribution.
    ridge: Softens the pseudo-inverses; in the unit of the sampling error.
    """

    estimator: str = "spectral+em"
    states: int = 16
    ridge: float = 30.0
    em_iterations: int = 15

    def __post_init__(self) -> None:
        require_choice(Errors.S501, self.estimator, ESTIMATORS)
        require_settings(Errors.S502, self, states=">= 1", ridge=">= 0", em_iterations=">= 0")


def estimate_tree_model(
    sentences: Iterable[tuple[Sequence[str], Sequence[int] | NDArray]],
    *,
    words: bool = True,
    dictionary: tuple[Sequence[str], NDArray] | None = None,
    settings: TreeSettings | None = None,
    progress: Callable[[Iterable], Iterable] = iter,
) -> TreeModel:
    """Learn a latent tree model of symbols and heads (from 1, 0 for the root); what is no whole tree is
    left out.

    words: Whether the symbols are words, which have classes for rare and unknown ones.
    dictionary: Words and their vectors, the most informative dimensions first, e.g. eigenwords. By
    default vectors are learnt from the trees themselves.
    """
    from threadpoolctl import threadpool_limits

    settings = settings or TreeSettings()
    kept = [(symbols, heads) for symbols, heads in sentences if _is_tree(heads)]
    if not kept:
        raise SpectralError(Errors.S503)
    alphabet = Alphabet.count((symbols for symbols, _ in kept), words=words)
    if not len(alphabet):
        raise SpectralError(Errors.S503)
    lengths = [len(heads) for _, heads in kept]
    trees = Trees(
        symbols=numpy.concatenate([alphabet.encode(symbols) for symbols, _ in kept]),
        heads=numpy.concatenate([numpy.asarray(heads, dtype="int32") for _, heads in kept]),
        starts=numpy.cumsum([0, *lengths]).astype("int32"),
    )
    counts = numpy.bincount(trees.symbols, minlength=len(alphabet)).astype("float64")
    frequency = counts / counts.sum()
    # small matrices: more threads only wait for each other, and could change the last digits
    with threadpool_limits(1, user_api="blas"):
        if dictionary is None:
            vectors = symbol_vectors(bigram_counts(trees, len(alphabet)), settings.states - 1)
        else:
            vectors = _from_dictionary(alphabet, *dictionary)
        vectors = whitened(vectors, frequency, settings.states)
        moments = Moments.count(trees, vectors)
        parameters = recover(moments, vectors, frequency, ridge=settings.ridge)
        if settings.estimator == "spectral+em":
            softness = settings.ridge / numpy.sqrt(moments.n)
            parameters = projected(*parameters, frequency, softness=min(0.1, softness))
            for _ in progress(range(settings.em_iterations)):
                parameters = em_step(trees, *parameters, frequency)
        emissions, transitions, root = parameters
        model = TreeModel.from_emissions(alphabet, counts, emissions, transitions, root)
        return model if dictionary is None else _with_dictionary(model, *dictionary)


Parameters = tuple[NDArray, NDArray, NDArray]  # emissions, transitions, root


def recover(
    moments: Moments,
    vectors: NDArray[numpy.float64],
    frequency: NDArray[numpy.float64],
    *,
    ridge: float = 0.0,
) -> Parameters:
    """Emissions [symbols, k], transitions [2, k, k] by parent and child state, and root [k] that have
    some moments of whitened vectors. Of exact moments they are probabilities. `ridge` softens the
    pseudo-inverses, in the unit of the sampling error."""
    softness = ridge / numpy.sqrt(moments.n)
    from_right = soft_inverse(moments.sigma_right, softness)
    from_left = soft_inverse(moments.sigma_left, softness)
    e_left = moments.lambda_left @ from_right
    e_right = moments.lambda_left.T @ from_left
    # D(y) from either side; with exact moments both are the same
    operators = (
        soft_inverse(e_left, 2 * softness) @ moments.third @ from_right
        + soft_inverse(e_right, 2 * softness) @ moments.third.transpose(0, 2, 1) @ from_left
    ) / 2
    means = _joint_eigenvectors(operators)
    inverse = numpy.linalg.pinv(means, rcond=1e-3 if softness else 1e-15)
    transitions = numpy.stack([inverse @ e @ means for e in (e_left, e_right)]).transpose(0, 2, 1)
    emissions = frequency[:, None] * (vectors @ means)
    return emissions, numpy.ascontiguousarray(transitions), inverse @ moments.roots


def soft_inverse(matrix: NDArray[numpy.float64], ridge: float) -> NDArray[numpy.float64]:
    """The pseudo-inverse with singular values s / (s^2 + ridge^2) instead of 1 / s."""
    left, values, right = numpy.linalg.svd(matrix)
    values = numpy.where(values > 1e-12 * values[0], values, 0.0)
    softened = numpy.divide(values, values**2 + ridge**2, where=values > 0, out=values * 0)
    return (right.T * softened) @ left.T


def _joint_eigenvectors(operators: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """G, whose columns are the eigenvectors of all operators, with 1 as their first coordinate.

    The eigenvectors of one random mixture of the operators: of some mixtures the one whose eigenvalues
    are real and lie apart. Where noise has made a pair of them complex, its real and imaginary part
    span the same plane.
    """
    k = len(operators)
    random = numpy.random.default_rng(0)
    best = k + 1, 0.0
    vectors: NDArray = numpy.eye(k)
    values: NDArray = numpy.zeros(k)
    for _ in range(50):
        mixture = numpy.tensordot(random.standard_normal(k), operators, 1)
        found_values, found = numpy.linalg.eig(mixture)
        gaps = numpy.abs(found_values[:, None] - found_values) + numpy.diag(
            numpy.full(k, numpy.inf)
        )
        largest = numpy.abs(found_values).max() or 1.0
        quality = (int((found_values.imag != 0).sum()), -float(gaps.min() / largest))
        if quality < best:
            best, vectors, values = quality, found, found_values
    means = vectors.real.copy()
    means[:, values.imag < 0] = vectors.imag[:, values.imag < 0]
    scale = means[0]
    least = 1e-3 * numpy.abs(means).max(axis=0)
    scale = numpy.where(numpy.abs(scale) > least, scale, numpy.where(scale < 0, -least, least))
    means = means / scale
    # an order of the states that does not depend on the eigenvalues' order
    return means[:, numpy.lexsort(means[::-1])]


def projected(
    emissions: NDArray,
    transitions: NDArray,
    root: NDArray,
    frequency: NDArray,
    *,
    softness: float,
) -> Parameters:
    """Make parameters probabilities: without negative values, mixed with a little of the average."""
    k = len(root)
    emissions = numpy.maximum(emissions, 0) + softness * frequency[:, None]
    transitions = numpy.maximum(transitions, 0) + softness / k
    root = numpy.maximum(root, 0) + softness / k
    return (
        numpy.ascontiguousarray(emissions / emissions.sum(axis=0)),
        transitions / transitions.sum(axis=2, keepdims=True),
        root / root.sum(),
    )


def em_step(
    trees: Trees, emissions: NDArray, transitions: NDArray, root: NDArray, frequency: NDArray
) -> Parameters:
    """One iteration of EM; emissions are smoothed by the frequency of symbols."""
    prior = _EMISSION_PRIOR * len(frequency)
    emission_counts = numpy.repeat(prior * frequency[:, None], len(root), axis=1)
    transition_counts = numpy.full(transitions.shape, _TRANSITION_PRIOR)
    root_counts = numpy.full(root.shape, _TRANSITION_PRIOR)
    expected_counts(
        trees.symbols,
        trees.heads,
        trees.starts,
        emissions,
        transitions,
        numpy.ascontiguousarray(transitions.transpose(0, 2, 1)),
        root,
        emission_counts,
        transition_counts,
        root_counts,
    )
    return (
        emission_counts / emission_counts.sum(axis=0),
        transition_counts / transition_counts.sum(axis=2, keepdims=True),
        root_counts / root_counts.sum(),
    )


def _is_tree(heads: Sequence[int] | NDArray) -> bool:
    if not len(heads) or min(heads) < 0:
        return False
    return not tree_problems([head - 1 if head else i for i, head in enumerate(heads)])


def _from_dictionary(
    alphabet: Alphabet, words: Sequence[str], vectors: NDArray
) -> NDArray[numpy.float64]:
    """The vectors of an alphabet's symbols; zeros for those the dictionary does not have."""
    rows = {word: i for i, word in enumerate(words)}
    result = numpy.zeros((len(alphabet), vectors.shape[1]))
    for i, symbol in enumerate(alphabet.symbols):
        row = rows.get(symbol, rows.get(symbol.lower()))
        if row is not None:
            result[i] = vectors[row]
    return result


def _with_dictionary(model: TreeModel, words: Sequence[str], vectors: NDArray) -> TreeModel:
    """Add the words that the dictionary has and the treebank has not. P(word | state) / P(word) is
    linear in the word's vector where the model holds, so it is read off by least squares."""
    known = _from_dictionary(model.alphabet, words, vectors)
    weights = numpy.sqrt(model.frequency[:-1] * known.any(axis=1))[:, None]
    inputs = numpy.column_stack([numpy.ones(len(known)), known])
    solution = numpy.linalg.lstsq(weights * inputs, weights * model.ratios[:-1], rcond=1e-6)[0]
    in_treebank = set(model.alphabet.symbols)
    new = [i for i, word in enumerate(words) if word not in in_treebank]
    ratios = numpy.column_stack([numpy.ones(len(new)), vectors[new]]) @ solution
    return model.extended([words[i] for i in new], numpy.clip(ratios, 0.05, 20.0))
