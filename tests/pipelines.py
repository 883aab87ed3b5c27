"""Small pipelines that several test files train."""

import spacy

from spacy_spectral.readers import Corpus

TOKENIZER = {"nlp": {"tokenizer": {"@tokenizers": "spacy-spectral.Tokenizer.v1"}}}
FROM_RAW_TEXT = ("spectral_senter", "spectral_tagger", "spectral_lemmatizer", "spectral_parser")


def hash_embed(width):
    """The config of a small tok2vec."""
    return {
        "@architectures": "spacy.HashEmbedCNN.v2",
        "width": width,
        "depth": 1,
        "embed_size": 300,
        "window_size": 1,
        "maxout_pieces": 2,
        "subword_features": True,
        "pretrained_vectors": None,
    }


def initialized(nlp, path, *, annotations=("sents",), limit=0):
    """The pipeline, trained on a treebank whose documents have some of their annotations beforehand."""
    corpus = Corpus(path, annotations=annotations, limit=limit)
    nlp.initialize(lambda: corpus(nlp))
    return nlp


def from_raw_text(path, *, limit=0, **config):
    """A pipeline from raw text to trees, trained; settings of its components by their names."""
    nlp = spacy.blank("en", config=TOKENIZER)
    for name in FROM_RAW_TEXT:
        nlp.add_pipe(name, config=config.get(name, {}))
    return initialized(nlp, path, limit=limit)


def with_reranker(trained, model, **config):
    """A pipeline with the trained parser and a reranker, not trained."""
    nlp = spacy.blank("en", vocab=trained.vocab)
    nlp.add_pipe("spectral_parser", source=trained)
    nlp.add_pipe("spectral_reranker", config={"model": model, "n": 10} | config)
    return nlp


def trained_reranker(trained, model, examples):
    """A pipeline with the trained parser and a trained reranker, which keeps all candidates."""
    nlp = with_reranker(trained, model, store=["parses"])
    nlp.get_pipe("spectral_reranker").initialize(lambda: examples(nlp), nlp=nlp)
    return nlp
