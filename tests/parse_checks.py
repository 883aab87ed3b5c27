"""What parses of any parser must be like."""


def parse_of(doc):
    return [(token.head.i, token.dep_) for token in doc]


def check_batches_and_processes(nlp, docs):
    """However documents are batched, they have the same parses."""
    expected = [parse_of(nlp(doc.copy())) for doc in docs]
    for size in (1, 7, 1000):
        batch = nlp.pipe([doc.copy() for doc in docs], batch_size=size)
        assert [parse_of(doc) for doc in batch] == expected
    parallel = list(nlp.pipe([doc.copy() for doc in docs], n_process=2))
    assert [parse_of(doc) for doc in parallel] == expected
    assert all(token._.head_prob is not None for doc in parallel for token in doc)
