"""What the log-linear parser sees of a tagger's second guesses."""

import numpy

from spacy_spectral.models.loglinear.encode import second_names


def test_classes_of_probabilities():
    bounds = [float(numpy.float32(bound)) for bound in (0.02, 0.1, 0.3)]
    below = [float(numpy.nextafter(numpy.float32(bound), numpy.float32(0))) for bound in bounds]
    pairs = [None, *(("NN", prob) for prob in (0.0, below[0], bounds[0], below[1], bounds[1]))]
    pairs += [("VB", prob) for prob in (below[2], bounds[2], 0.5)]
    found = second_names(pairs)
    assert found == ["", "", "", "NN:0", "NN:0", "NN:1", "VB:1", "VB:2", "VB:2"]
    assert second_names([]) == []
