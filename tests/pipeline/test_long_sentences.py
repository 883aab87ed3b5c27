"""Sentences of any length: a text without punctuation is one."""

import pytest
import spacy

from memory import peak_memory

TOK2VEC = {
    "@architectures": "spacy.HashEmbedCNN.v2",
    "width": 32,
    "depth": 1,
    "embed_size": 300,
    "window_size": 1,
    "maxout_pieces": 2,
    "subword_features": True,
    "pretrained_vectors": None,
}
MODELS = {
    "SHAG": {"max_length": 120, "states": 4},
    "LogLinear": {"epochs": 1},
    "Refined": {"states": 60},
    "Biaffine": {
        "tok2vec": TOK2VEC,
        "max_length": 120,
        "scan_size": 16,
        "arc_size": 16,
        "label_size": 16,
    },
}
# in a process of its own, for the sake of its memory
PARSE = """
    import sys
    import numpy
    import spacy
    from spacy.tokens import Doc
    from spacy_spectral.trees._eisner import is_projective_tree

    nlp = spacy.load(sys.argv[1])
    parser = nlp.get_pipe("spectral_parser")
    words = "the dog saw a man with the telescope and ran".split()
    tags = "DT NN VBD DT NN IN DT NN CC VBD".split()
    for n in map(int, sys.argv[2:]):
        spread = numpy.random.default_rng(n).integers(0, len(words), n)
        doc = Doc(
            nlp.vocab, words=[words[i] for i in spread], tags=[tags[i] for i in spread],
            sent_starts=[1] + [-1] * (n - 1),
        )
        nlp(doc)
        assert len(list(doc.sents)) == 1 and numpy.isfinite(doc[:]._.parse_logprob)
        _, parses = parser.parse([doc])
        assert is_projective_tree(parses.heads)
        assert numpy.isfinite(parses.log_probs()).all() and (parses.log_probs() < 0).all()
        arcs = parses.arcs(0, min_prob=1e-5)
        sums = numpy.bincount(arcs.modifiers, arcs.probs)[1:]
        assert len(sums) == n and 0.9 < sums.min() <= sums.max() < 1 + 1e-5
        labelled = parses.arcs(0, labelled=True, min_prob=1e-3)
        assert (numpy.bincount(labelled.modifiers, labelled.probs) < 1 + 1e-5).all()
        found = parses.k_best(0, 8)
        assert len({parse.heads.tobytes() for parse in found}) == 8
        logs = [parse.log_prob for parse in found]
        assert logs == sorted(logs, reverse=True) and numpy.isfinite(logs).all()
        assert all(is_projective_tree(parse.heads) for parse in found)
"""


@pytest.fixture(scope="module", params=MODELS)
def saved(request, examples, tmp_path_factory):
    nlp = spacy.blank("en")
    model = {"@architectures": f"spacy-spectral.{request.param}.v1", **MODELS[request.param]}
    nlp.add_pipe("spectral_parser", config={"model": model})
    if request.param == "Refined":
        # in the tree and over all trees
        nlp.add_pipe("spectral_refiner", config={"model": model})
        blind = {"model": model, "use_heads": False}
        nlp.add_pipe("spectral_refiner", name="blind_refiner", config=blind)
    some = examples(nlp)[:60]
    optimizer = nlp.initialize(lambda: some)
    for _ in range(3):
        nlp.update(some, sgd=optimizer)
    path = tmp_path_factory.mktemp("long") / request.param
    nlp.to_disk(path)
    return path


def test_finite_and_small(saved):
    assert peak_memory(PARSE, str(saved), "800", "2000", "10000") < 500
