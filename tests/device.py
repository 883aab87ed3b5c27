"""A pretended device. Its arrays are like those of a GPU: they do not become NumPy arrays unless they are
asked to, by `ops.to_numpy`, and do not mix with them."""

import numpy
from numpy.lib.mixins import NDArrayOperatorsMixin
from thinc.api import Model, NumpyOps, Ops


class DeviceArray(NDArrayOperatorsMixin):
    """An array that is elsewhere."""

    def __init__(self, host):
        self.host = host

    def __array__(self, dtype=None, copy=None):
        raise TypeError("an array of the device must be asked to become one of NumPy")

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        if out is not None:
            options["out"] = tuple(map(to_host, out))
        result = to_device(getattr(ufunc, method)(*map(to_host, inputs), **options))
        return result if out is None else out[0]

    def __array_function__(self, function, types, args, kwargs):
        return to_device(function(*to_host(args), **to_host(kwargs)))

    def __getattr__(self, name):
        if name in ("shape", "dtype", "ndim", "size", "T"):
            return to_device(getattr(self.host, name))
        if name in ("sum", "max", "astype", "ravel", "reshape", "copy"):
            return lambda *args, **kwargs: to_device(getattr(self.host, name)(*args, **kwargs))
        raise AttributeError(name)

    def __len__(self):
        return len(self.host)

    def __float__(self):
        return float(self.host)

    def __getitem__(self, key):
        return to_device(self.host[to_host(key)])

    def __setitem__(self, key, value):
        self.host[to_host(key)] = to_host(value)


def to_device(value):
    return DeviceArray(value) if isinstance(value, numpy.ndarray | numpy.generic) else value


def to_host(value):
    """What stands for a value in computations on the device."""
    if isinstance(value, DeviceArray):
        return value.host
    if isinstance(value, list | tuple):
        return type(value)(map(to_host, value))
    if isinstance(value, dict):
        return {name: to_host(own) for name, own in value.items()}
    if isinstance(value, numpy.ndarray):
        raise TypeError("an array of NumPy among those of the device")
    return value


class DeviceModule:
    """What NumPy's functions are to its own arrays."""

    ndarray = DeviceArray
    add = numpy.add

    def __getattr__(self, name):
        function = getattr(numpy, name)
        if name in ("array", "asarray"):
            return lambda data, **options: to_device(
                function(data.host if isinstance(data, DeviceArray) else data, **options)
            )
        if not callable(function) or isinstance(function, type):
            return function
        return lambda *args, **options: to_device(function(*to_host(args), **to_host(options)))


class DeviceOps(Ops):
    name = "device"
    xp = DeviceModule()

    def to_numpy(self, data, *, byte_order=None):
        return data.host if isinstance(data, DeviceArray) else data

    def scatter_add(self, table, indices, values):
        numpy.add.at(to_host(table), to_host(indices), to_host(values))

    def get_dropout_mask(self, shape, drop):
        return to_device(NumpyOps().get_dropout_mask(shape, drop))


def moved(model):
    """A copy of a parser's model on the device; its tok2vec computes elsewhere."""
    copy, ops = model.copy(), DeviceOps()
    vectors = next(node for node in copy.walk() if node.name == "sentence_vectors")
    tok2vec = vectors.layers[0]

    def forward(layer, docs, is_train):
        found, backprop = tok2vec(docs, is_train)
        return [to_device(own) for own in found], lambda d: backprop([own.host for own in d])

    inside = set(map(id, tok2vec.walk()))
    for node in list(copy.walk()):
        if id(node) not in inside:
            node.ops = ops
            for name in filter(node.has_param, node.param_names):
                node.set_param(name, to_device(node.get_param(name)))
                node.set_grad(name, to_device(node.get_grad(name)))
    vectors.layers[0] = Model("elsewhere", forward)
    return copy
