"""Everything that a component saves, opened down to its last field, and ways to change a field."""

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import Any, NamedTuple

import numpy
import srsly

from spacy_spectral.base.files import MAGIC, pack, read_header


class Packed(NamedTuple):
    """Bytes in the package's own format."""

    kind: str
    version: int
    payload: Any


class Message(NamedTuple):
    """Bytes of msgpack."""

    payload: Any


class Npy(NamedTuple):
    """Bytes of a numpy array as a file."""

    payload: Any


CONTAINERS = (Packed, Message, Npy)
_LARGE = 60


def opened(value: Any) -> Any:
    """RETURNS (Any): The value with everything opened that is packed inside of it."""
    if isinstance(value, dict):
        return {key: opened(item) for key, item in value.items()}
    if isinstance(value, list) and len(value) < 200:
        return [opened(item) for item in value]
    if not isinstance(value, bytes) or not value:
        return value
    if value.startswith(MAGIC):
        kind, version, _, body = read_header(value)
        return Packed(kind, version, opened(srsly.msgpack_loads(body)))
    if value.startswith(b"\x93NUMPY"):
        return Npy(numpy.load(BytesIO(value)))
    try:
        inner = srsly.msgpack_loads(value)
    except Exception:
        return value
    return Message(opened(inner)) if isinstance(inner, (dict, list)) else value


def closed(value: Any) -> Any:
    """RETURNS (Any): The reverse of `opened`."""
    if isinstance(value, Packed):
        return pack(value.kind, value.version, closed(value.payload))
    if isinstance(value, Message):
        return srsly.msgpack_dumps(closed(value.payload))
    if isinstance(value, Npy):
        file = BytesIO()
        numpy.save(file, value.payload, allow_pickle=False)
        return file.getvalue()
    if isinstance(value, dict):
        return {key: closed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [closed(item) for item in value]
    return value


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """YIELDS (Tuple): The paths of all fields; of large tables those of a few entries."""
    value = value.payload if isinstance(value, CONTAINERS) else value
    keys: Sequence = ()
    if isinstance(value, dict):
        keys = list(value) if len(value) < _LARGE else list(value)[:3]
    elif isinstance(value, list) and any(
        isinstance(item, (*CONTAINERS, dict, list)) for item in value
    ):
        keys = range(len(value)) if len(value) < _LARGE else range(3)
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def damaged(value: Any, path: tuple, change: Callable[[dict | list, Any], None]) -> Any:
    """RETURNS (Any): A copy in which the field of that path was changed; all others are shared."""
    if isinstance(value, CONTAINERS):
        return value._replace(payload=damaged(value.payload, path, change))
    value = copy.copy(value)
    if len(path) == 1:
        change(value, path[0])
    else:
        value[path[0]] = damaged(value[path[0]], path[1:], change)
    return value


OTHERS = [
    *(None, True, 0, -1, 3, 1 << 33, 1 << 63, 1.5, float("nan"), float("inf"), "", "x", b"", b"x"),
    *(
        [],
        [1],
        ["a", "b"],
        {},
        numpy.zeros(3),
        numpy.zeros((2, 2), "int32"),
        numpy.zeros(0, "float32"),
    ),
    numpy.array(["a"]),
]
DTYPES = [
    "bool",
    "int8",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    ">f4",
]


def _array_damages(
    array: numpy.ndarray,
) -> dict[str, Callable[[numpy.ndarray, random.Random], Any]]:
    def put(value: Any) -> Callable:
        def damage(array: numpy.ndarray, rng: random.Random) -> numpy.ndarray:
            array = array.copy()
            array.flat[rng.randrange(array.size)] = value
            return array

        return damage

    def everything(function: Callable) -> Callable:
        return lambda array, rng: function(array).astype(array.dtype)

    def permuted(array: numpy.ndarray, rng: random.Random) -> numpy.ndarray:
        return (
            numpy.random.default_rng(rng.randrange(1 << 30))
            .permutation(array.ravel())
            .reshape(array.shape)
        )

    def swapped(array: numpy.ndarray, rng: random.Random) -> numpy.ndarray:
        array, at = array.copy(), rng.randrange(max(array.size - 1, 1))
        array.flat[[at, at + 1]] = array.flat[[at + 1, at]]
        return array

    result: dict[str, Callable] = {
        f"as {dtype}": (lambda array, rng, dtype=dtype: array.astype(dtype)) for dtype in DTYPES
    }
    result |= {
        "transposed": lambda array, rng: array.T.copy(),
        "flat": lambda array, rng: array.ravel(),
        "one more axis": lambda array, rng: array[..., None],
        "empty": lambda array, rng: array[:0],
        "one less": lambda array, rng: array[:-1],
        "halved": lambda array, rng: array[: len(array) // 2],
        "halved last": lambda array, rng: array[..., : array.shape[-1] // 2],
        "one more": lambda array, rng: numpy.concatenate([array, array[-1:]]),
        "doubled": lambda array, rng: numpy.concatenate([array, array]),
        "100 times": lambda array, rng: numpy.concatenate(
            [array] * min(100, 1 + 10**6 // (array.size + 1))
        ),
    }
    if array.ndim > 1:
        result |= {
            "long and empty": lambda array, rng: numpy.zeros(
                (1 << 33, *array.shape[1:-1], 0), array.dtype
            ),
            "empty and wide": lambda array, rng: numpy.zeros(
                (0, *array.shape[1:-1], 1 << 33), array.dtype
            ),
        }
    if not array.size:
        return result
    result |= {
        "permuted": permuted,
        "reversed": lambda array, rng: array[::-1].copy(),
        "two swapped": swapped,
        "all 0": everything(numpy.zeros_like),
        "all 1": everything(numpy.ones_like),
        "all as the first": lambda array, rng: numpy.full_like(array, array.flat[0]),
    }
    if array.dtype.kind == "f":
        limit = float(numpy.finfo(array.dtype).max)
        values = [numpy.nan, numpy.inf, -numpy.inf, limit, -limit, -1.0, 0.0, 1e-300, 1e4, -1e4]
        result |= {f"one {value:.3g}": put(value) for value in values}
        result |= {
            "all large": everything(
                lambda array: numpy.full_like(array, 1e5 if limit > 1e5 else limit)
            ),
            "times 1000": everything(lambda array: numpy.clip(array * 1000.0, -limit, limit)),
            "negated": lambda array, rng: -array,
        }
    elif array.dtype.kind in "iu":
        info, top = numpy.iinfo(array.dtype), int(array.max())
        values = {info.min, info.max, -1, 0, 1, top + 1, top - 1, int(array.min()) - 1, top * 2 + 3}
        result |= {f"one {v}": put(v) for v in sorted(values) if info.min <= v <= info.max}
        result |= {
            "all + 1": everything(lambda array: array + array.dtype.type(1)),
            "all - 1": everything(lambda array: array - array.dtype.type(1)),
            "all largest": lambda array, rng: numpy.full_like(array, info.max),
        }
    return result


def _list_damages(value: list) -> dict[str, Callable[[list, random.Random], Any]]:
    def put(item: Any) -> Callable:
        def damage(values: list, rng: random.Random) -> list:
            at = rng.randrange(len(values))
            return [*values[:at], item, *values[at + 1 :]]

        return damage

    result: dict[str, Callable] = {
        "one more": lambda values, rng: [*values, *values[-1:]],
        "one string more": lambda values, rng: [*values, "x"],
        "one less": lambda values, rng: values[:-1],
        "halved": lambda values, rng: values[: len(values) // 2],
        "doubled": lambda values, rng: values + values,
        "as a dict": lambda values, rng: dict(enumerate(values)),
    }
    if value:
        result |= {
            "reversed": lambda values, rng: values[::-1],
            "shuffled": lambda values, rng: rng.sample(values, len(values)),
            "first twice": lambda values, rng: [values[0], *values[:-1]],
        }
        result |= {
            f"one {item!r}": put(item)
            for item in (None, 1, 1.5, "", "x", "a|b=c", "x||y", [], -5, 2**40)
        }
    return result


def _bytes_damages(data: bytes) -> dict[str, Callable[[bytes, random.Random], bytes]]:
    def flipped(data: bytes, rng: random.Random) -> bytes:
        at = rng.randrange(len(data))
        return data[:at] + bytes([data[at] ^ rng.randrange(1, 256)]) + data[at + 1 :]

    def inserted(data: bytes, rng: random.Random) -> bytes:
        at = rng.randrange(len(data))
        return data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:]

    return (
        {
            "flipped": flipped,
            "inserted": inserted,
            "cut": lambda data, rng: data[: rng.randrange(len(data))],
            "cut out": lambda data, rng: (
                data[: rng.randrange(len(data))] + data[rng.randrange(len(data)) :]
            ),
            "random": lambda data, rng: rng.randbytes(rng.randrange(200)),
        }
        if data
        else {}
    )


def damages(value: Any) -> dict[str, Callable[[Any, random.Random], Any]]:
    """RETURNS (Dict[str, Callable]): Ways to change a value, by name."""
    result: dict[str, Callable] = {
        f"{other!r}"[:40]: (lambda v, rng, o=other: o) for other in OTHERS
    }
    if isinstance(value, numpy.ndarray):
        result |= _array_damages(value)
    elif isinstance(value, list):
        result |= _list_damages(value)
    elif isinstance(value, bytes):
        result |= _bytes_damages(value)
    elif isinstance(value, CONTAINERS):
        result |= {f"its bytes {name}": _on_bytes(d) for name, d in _bytes_damages(b"x").items()}
        if isinstance(value, Npy):
            inner = _array_damages(value.payload)
            result |= {
                name: (lambda v, rng, d=d: Npy(d(v.payload, rng))) for name, d in inner.items()
            }
    elif isinstance(value, bool):
        result["the other"] = lambda v, rng: not v
    elif isinstance(value, (int, float)):
        changed = [
            value + 1,
            value - 1,
            -value,
            value * 2,
            value / 2,
            value * 1000,
            1 << 6,
            1 << 14,
            1 << 24,
            1 << 62,
            1e308,
        ]
        result |= {f"{v!r}": (lambda old, rng, v=v: v) for v in changed}
    elif isinstance(value, str):
        result |= {
            f"{v[:9]!r}": (lambda old, rng, v=v: v)
            for v in (value + "x", value[:-1], "x" * 10**5, "a|b")
        }
    return result


def _on_bytes(damage: Callable) -> Callable:
    return lambda value, rng: damage(closed(value), rng)


class Mutation(NamedTuple):
    """path (Optional[Tuple]): The field; None for what is saved as a whole.
    damage (str): What is done to it; "missing" takes it out."""

    path: tuple | None
    damage: str

    def __str__(self) -> str:
        place = "" if self.path is None else ".".join(map(str, self.path))
        return f"{place or 'everything'}: {self.damage}"


def mutations(state: Any) -> list[Mutation]:
    """RETURNS (List[Mutation]): All of them, of every field."""
    result = [Mutation(None, damage) for damage in _bytes_damages(b"x")]
    for path in places(state):
        value = state
        for key in path:
            value = (value.payload if isinstance(value, CONTAINERS) else value)[key]
        result += [Mutation(path, name) for name in ("missing", *damages(value))]
    return result


def mutate(state: Any, mutation: Mutation, rng: random.Random) -> Any:
    """RETURNS (Any): The state with that change, closed."""
    if mutation.path is None:
        whole = closed(state)
        if isinstance(whole, bytes):
            return _bytes_damages(whole)[mutation.damage](whole, rng)
        key = rng.choice(
            [key for key, value in whole.items() if isinstance(value, bytes) and value]
        )
        return {**whole, key: _bytes_damages(whole[key])[mutation.damage](whole[key], rng)}

    def change(holder: dict | list, key: Any) -> None:
        if mutation.damage == "missing":
            del holder[key]
        else:
            holder[key] = damages(holder[key])[mutation.damage](holder[key], rng)

    return closed(damaged(state, mutation.path, change))
