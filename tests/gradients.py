"""Gradients of layers beside finite differences."""

import numpy
import pytest

# The first row of embeddings is that of unknown strings, which is not learnt.
UNKNOWN = {"embeddings": [0]}


def nodes_of(layers):
    """All layers inside of layers that have weights."""
    return [node for layer in layers for node in layer.walk() if node.param_names]


def clear_gradients(layers):
    for node in nodes_of(layers):
        for name in node.param_names:
            node.set_grad(name, numpy.zeros_like(node.get_param(name)))


def check_gradients(layers, loss, *, only=None, unmoved=UNKNOWN, step=1e-3, within=0.05):
    """Compare the gradient of every parameter with the slope of the loss along a random direction.

    loss: Adds the gradients to those of the layers, and gives the loss.
    only: The names of the layers that are looked at; by default all.
    unmoved: By the name of a layer, rows of its embeddings that stay as they are.
    step: How far to go: not far, as there are kinks.
    within: How far off the slope may be, relative and absolute.
    RETURNS: The gradients, by layer and name.
    """
    nodes = nodes_of(layers)
    clear_gradients(layers)
    loss()
    gradients = {(n.id, name): n.get_grad(name).copy() for n in nodes for name in n.param_names}
    rng = numpy.random.default_rng(0)
    for node in nodes:
        if only is not None and node.name not in only:
            continue
        for name in node.param_names:
            value = node.get_param(name)
            direction = rng.normal(size=value.shape).astype("float32")
            if node.name in unmoved and name != "root":
                direction[unmoved[node.name]] = 0
            direction /= max(float(numpy.sqrt((direction**2).sum())), 1e-6)
            losses = []
            for sign in (1, -1):
                node.set_param(name, value + sign * step * direction)
                losses.append(loss())
            node.set_param(name, value)
            slope = (losses[0] - losses[1]) / (2 * step)
            own = float((gradients[node.id, name] * direction).sum())
            assert own == pytest.approx(slope, rel=within, abs=within), (node.name, name)
    return gradients
