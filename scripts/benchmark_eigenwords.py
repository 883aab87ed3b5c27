"""How good and how fast eigenwords are: everything is measured in this one run.

    python scripts/benchmark_eigenwords.py DATA [--quality]

DATA has text/english.txt, treebanks/UD_English-EWT and sts2012/*.train.tsv.

Prints: time and memory over 1/4, 1/2, 1 and 2 copies of the text; V-measure of 100 clusters of the
2,000 most frequent words against their majority UPOS, beside PPMI+SVD and word2vec of the same size
on the same tokens; the nearest neighbours of 20 words; Pearson's correlation of sentence similarity
with and without eigenwords. `--quality` leaves out time and memory. Needs scikit-learn; without gensim
there is no row of word2vec. Set OMP_NUM_THREADS=1 for one core.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy
import spacy

from spacy_spectral.base.linalg import unit_rows
from spacy_spectral.models.eigenwords.model import Eigenwords, estimate_vectors, truncated_svd
from spacy_spectral.models.eigenwords.similarity import (
    SimilarityModel,
    pair_features,
    read_pairs,
    score_datasets,
)
from spacy_spectral.models.eigenwords.statistics import count_files
from spacy_spectral.models.eigenwords.vectors import (
    make_pipeline,
    nearest_words,
    spacy_tokenizer,
)
from spacy_spectral.viz.plots import majority_tags

K, N_CLUSTERS, N_WORDS, SEEDS = 100, 100, 2000, 5
WORDS = [
    *("the", "of", "and", "could", "said", "make", "good", "quickly", "two", "London"),
    *(
        "Monday",
        "president",
        "house",
        "money",
        "woman",
        "he",
        "because",
        "?",
        "running",
        "Congress",
    ),
]
COPIES = (0.25, 0.5, 1, 2)


def measure(path: str, tokenized: bool) -> dict[str, float]:
    """Count, solve, cluster and write, in this process; seconds of each step and megabytes."""
    steps = {}

    def timed(name, function):
        started, cpu = time.perf_counter(), time.process_time()
        result = function()
        steps[name] = time.perf_counter() - started
        steps[f"{name} (CPU)"] = time.process_time() - cpu
        return result

    tokenize = None if tokenized else spacy_tokenizer(spacy.blank("en"))
    counts = timed("count", lambda: count_files([path], tokenize=tokenize))
    model = timed("solve+clusters", lambda: Eigenwords.estimate(counts, k=K))
    with tempfile.TemporaryDirectory() as directory:
        timed("write", lambda: make_pipeline(model, meta={}).to_disk(directory))
    steps["tokens"] = counts.pairs.n_tokens
    steps["MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return steps


def print_scaling(text: Path) -> None:
    print("\n## Time and memory (CPU seconds; wall seconds in brackets)\n")
    print("| text | tokens | count | tokens/s | solve+clusters | write | whole run | MB |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    lines = text.read_bytes().splitlines(keepends=True)
    for tokenized in (True, False):
        for copies in COPIES:
            with tempfile.NamedTemporaryFile(suffix=".txt") as file:
                file.writelines(lines[: int(len(lines) * copies)] if copies < 1 else lines)
                file.writelines(lines if copies == 2 else [])
                file.flush()
                command = [sys.executable, __file__, "-", "--measure", file.name]
                command += ["--tokenized"] * tokenized
                result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            s = json.loads(result.stdout)
            whole, whole_cpu = (
                sum(s[f"{step}{suffix}"] for step in ("count", "solve+clusters", "write"))
                for suffix in ("", " (CPU)")
            )
            kind = "whitespace" if tokenized else "spaCy's tokenizer"
            cells = [f"{s[f'{step} (CPU)']:.1f} ({s[step]:.1f})" for step in ("count",)]
            print(
                f"| {copies} x, {kind} | {s['tokens']:,.0f} | {cells[0]} | "
                f"{s['tokens'] / s['count (CPU)']:,.0f} | "
                f"{s['solve+clusters (CPU)']:.1f} ({s['solve+clusters']:.1f}) | "
                f"{s['write (CPU)']:.1f} ({s['write']:.1f}) | {whole_cpu:.1f} ({whole:.1f}) | "
                f"{s['MB']:.0f} |",
                flush=True,
            )


def v_measure(vectors: numpy.ndarray, tags: list[str]) -> tuple[float, float]:
    """Mean and standard deviation over seeds of k-means."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import v_measure_score

    scores = []
    for seed in range(SEEDS):
        found = KMeans(N_CLUSTERS, n_init=1, random_state=seed).fit_predict(vectors)
        scores.append(v_measure_score(tags, found))
    return float(numpy.mean(scores)), float(numpy.std(scores))


def ppmi_svd(counts) -> numpy.ndarray:
    """Positive pointwise mutual information of the same contexts, U sqrt(S)."""
    from scipy.sparse import hstack

    after = [counts.successors(d) for d in (1, 2)]
    matrix = hstack([*(m.T for m in after), *after], format="csr")[:-1].tocoo()
    rows, columns = (numpy.asarray(matrix.sum(axis=a)).ravel() for a in (1, 0))
    expected = rows[matrix.row] * columns[matrix.col] / matrix.sum()
    matrix.data = numpy.maximum(numpy.log(matrix.data / expected), 0)
    left, values, _ = truncated_svd(matrix.tocsr(), K)
    return unit_rows(left * numpy.sqrt(values))


def word2vec(text: Path, words: list[str], tokenize) -> numpy.ndarray:
    """gensim's skip-gram with negative sampling on the same tokens; digits are made alike too."""
    from gensim.models import Word2Vec

    from spacy_spectral.models.eigenwords.vocabulary import normalize

    lines = text.read_text(encoding="utf8").splitlines()
    chunks = sorted({chunk for line in lines for chunk in line.split()})
    tokens = {
        chunk: [normalize(t) for t in found]
        for chunk, found in zip(chunks, tokenize(chunks), strict=True)
    }
    sentences = [[t for chunk in line.split() for t in tokens[chunk]] for line in lines]
    model = Word2Vec(
        sentences, vector_size=K, window=2, min_count=5, sg=1, epochs=5, workers=1, seed=0
    )
    return unit_rows(numpy.array([model.wv[word] for word in words]))


def print_quality(text: Path, conllu: Path) -> spacy.Language:
    tokenize = spacy_tokenizer(spacy.blank("en"))
    columns = [line.split("\t") for line in conllu.read_text(encoding="utf8").splitlines()]
    tags = majority_tags((c[1], c[3]) for c in columns if len(c) == 10 and c[0].isdigit())
    results = []

    def timed(name, function):
        started = time.process_time()
        vectors = function()
        results.append((name, vectors, time.process_time() - started))

    counts = count_files([text], tokenize=tokenize, window=4)
    words = counts.vocabulary.words
    rows = [i for i, word in enumerate(words) if word in tags][:N_WORDS]
    chosen = [words[i] for i in rows]
    timed("eigenwords (list, window 2)", lambda: estimate_vectors(counts, k=K)[0][rows])
    timed("eigenwords, window 1", lambda: estimate_vectors(counts, k=K, window=1)[0][rows])
    timed("eigenwords, bag", lambda: estimate_vectors(counts, k=K, context="bag")[0][rows])
    timed(
        "eigenwords, two steps (LR-MVL), window 1",
        lambda: estimate_vectors(counts, k=K, window=1, two_step=True)[0][rows],
    )
    timed("PPMI + SVD (same contexts)", lambda: ppmi_svd(counts)[rows])
    if find_spec("gensim") is not None:
        timed("word2vec (gensim, window 2)", lambda: word2vec(text, chosen, tokenize))
    print(f"\n## {N_CLUSTERS} clusters of {len(rows)} frequent words against UPOS\n")
    print(f"| vectors (k = {K}) | V-measure | CPU s |\n|---|---:|---:|")
    for name, vectors, seconds in results:
        mean, deviation = v_measure(vectors, [tags[word] for word in chosen])
        print(f"| {name} | {mean:.3f} ± {deviation:.3f} | {seconds:.0f} |", flush=True)
    return make_pipeline(Eigenwords.estimate(counts, k=K), meta={})


def print_neighbors(nlp: spacy.Language) -> None:
    print("\n## Nearest neighbours\n\n| word | neighbours |\n|---|---|")
    for word in WORDS:
        print(f"| {word} | {', '.join(name for name, _ in nearest_words(nlp.vocab, word, n=6))} |")


def print_similarity(nlp: spacy.Language, paths: list[Path]) -> None:
    """Train on one half of every dataset, test on the other, both ways."""
    pairs = {path.name.split(".")[0]: read_pairs(path) for path in paths}
    print("\n## Sentence similarity: Pearson, trained on one half and tested on the other\n")
    names = [*pairs, "ALL", "ALLnrm", "Mean"]
    print(f"| features | tested on | {' | '.join(names)} |\n|---|---|{'---:|' * len(names)}")
    for label, eigenwords in (("surface", False), ("surface + eigenwords", True)):
        features = {n: pair_features(nlp, p, eigenwords=eigenwords) for n, p in pairs.items()}
        totals = []
        for half in ("second half", "first half"):
            train, test = {}, {}
            for name, rows in features.items():
                middle = len(rows) // 2
                gold = [pair.score for pair in pairs[name]]
                first, second = (rows[:middle], gold[:middle]), (rows[middle:], gold[middle:])
                train[name], test[name] = (
                    (first, second) if half == "second half" else (second, first)
                )
            model = SimilarityModel.train(train, eigenwords=eigenwords)
            predicted = {name: model.predict(name, rows) for name, (rows, _) in test.items()}
            scores = score_datasets(predicted, {name: gold for name, (_, gold) in test.items()})
            totals.append([scores[name] for name in names])
            cells = " | ".join(f"{score:.3f}" for score in totals[-1])
            print(f"| {label} | {half} | {cells} |")
        cells = " | ".join(f"{score:.3f}" for score in numpy.mean(totals, axis=0))
        print(f"| {label} | mean of both | {cells} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, help="Directory of texts and treebanks")
    parser.add_argument("--quality", action="store_true", help="Leave out time and memory")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--tokenized", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.tokenized)))
        return
    text = arguments.data / "text" / "english.txt"
    if not arguments.quality:
        print_scaling(text)
    treebank = arguments.data / "treebanks" / "UD_English-EWT" / "en_ewt-ud-train.conllu"
    nlp = print_quality(text, treebank)
    print_neighbors(nlp)
    print_similarity(nlp, sorted((arguments.data / "sts2012").glob("*.train.tsv")))


if __name__ == "__main__":
    main()
