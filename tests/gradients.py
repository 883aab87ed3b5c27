"""Gradients of layers beside finite differences."""

import numpy
import pytest


def nodes_of(layers):
    """All layers inside of layers that have weights."""
    return [node for layer in layers for node in layer.walk() if node.param_names]


def clear_gradients(layers):
    for node in nodes_of(layers):
        for name in node.param_names:
            node.set_grad(name, numpy.zeros_like(node.get_param(name)))


def check_gradients(layers, loss):
    """Compare the gradient of every parameter with the slope of the loss along a random direction.

    loss: Adds the gradients to those of the layers, and gives the loss.
    """
    nodes = nodes_of(layers)
    loss()
    expected = {(id(n), name): n.get_grad(name).copy() for n in nodes for name in n.param_names}
    rng = numpy.random.default_rng(0)
    for node in nodes:
        for name in node.param_names:
            value = node.get_param(name)
            wanted = expected[id(node), name]
            direction = rng.normal(size=value.shape).astype("float32")
            # rows of unknown strings are not moved
            if node.name == "embeddings" and name != "root":
                direction[0] = 0
            direction /= numpy.sqrt((direction**2).sum()) + 1e-9
            step = 1e-3  # small: there are kinks
            value += step * direction
            up = loss()
            value -= 2 * step * direction
            down = loss()
            value += step * direction
            slope = (up - down) / (2 * step)
            assert slope == pytest.approx(float((wanted * direction).sum()), rel=0.03, abs=0.03), (
                node.name,
                name,
            )
            clear_gradients(layers)
