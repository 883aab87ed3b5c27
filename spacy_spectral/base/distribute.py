"""Sharing out work: in this process, among processes, or on a Dask cluster.

What is shared out are parts of data, with their size in bytes, and functions of a module. Which
worker does what makes no difference: sums are of integers, and a stream of results comes in the order of its
parts.
"""

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, ProcessPoolExecutor
from contextlib import contextmanager
from functools import reduce
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from .errors import Errors, SpectralError

# results are merged in groups of this size on the workers of a cluster before they travel
_FAN_IN = 4
# parts that wait for each worker, so that none is left without work
_AHEAD = 2


class Sized(Protocol):
    """A part of the data, with the number of its bytes."""

    @property
    def size(self) -> int: ...


P = TypeVar("P", bound=Sized)


class Workers:
    """Works in this process."""

    def reduce(
        self,
        function: Callable[..., Any],
        parts: list[Any],
        shared: Any,
        merge: Callable[[Any, Any], Any],
        report: Callable[[int], Any],
    ) -> Any:
        """Apply a module's function to lists of parts and the shared value, and add up what comes back;
        in this process it is told `report`, too."""
        return function(parts, shared, report)

    def stream(self, function: Callable[[P], Any], parts: Iterable[P]) -> Iterator[tuple[P, Any]]:
        """Apply a function to parts, of which a few are in memory at a time: each part with its result,
        in order."""
        for part in parts:
            yield part, function(part)


class _Executing(Workers):
    """Works in other processes."""

    def __init__(self, executor: Executor, n: int) -> None:
        self._executor = executor
        self._n = n

    def reduce(
        self, function: Any, parts: list[Any], shared: Any, merge: Any, report: Callable[[int], Any]
    ) -> Any:
        shares = _shares(parts, self._n)
        results = self._executor.map(function, shares, [shared] * len(shares))

        def reported() -> Iterator[Any]:
            for result, share in zip(results, shares, strict=True):
                report(_size(share))
                yield result

        with self._whole():
            return reduce(merge, reported())

    def stream(self, function: Callable[[P], Any], parts: Iterable[P]) -> Iterator[tuple[P, Any]]:
        waiting: deque[tuple[P, Any]] = deque()

        def first() -> tuple[P, Any]:
            part, future = waiting.popleft()
            return part, future.result()

        try:
            with self._whole():
                for part in parts:
                    if len(waiting) == (1 + _AHEAD) * self._n:
                        yield first()
                    waiting.append((part, self._executor.submit(function, part)))
                while waiting:
                    yield first()
        finally:
            for _, future in waiting:
                future.cancel()

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Say what has died."""
        try:
            yield
        except BrokenExecutor as error:
            raise SpectralError(Errors.S230.format(reason=error)) from error


class _OnDask(_Executing):
    """Works on a cluster: sums are made there."""

    def __init__(self, client: Any) -> None:
        self._client = client
        n = max(1, len(client.scheduler_info()["workers"]))
        super().__init__(client.get_executor(pure=False), n)

    def reduce(
        self, function: Any, parts: list[Any], shared: Any, merge: Any, report: Callable[[int], Any]
    ) -> Any:
        from dask.distributed import as_completed

        client, shares = self._client, _shares(parts, self._n)
        with self._whole():
            table = client.scatter(shared, broadcast=True)
            futures = client.map(function, shares, shared=table, pure=False)
            sizes = {f.key: _size(share) for f, share in zip(futures, shares, strict=True)}
            for future in as_completed(futures):
                report(sizes[future.key])
            while len(futures) > 1:
                groups = [futures[i : i + _FAN_IN] for i in range(0, len(futures), _FAN_IN)]
                futures = [client.submit(reduce, merge, group, pure=False) for group in groups]
            return futures[0].result()

    @contextmanager
    def _whole(self) -> Iterator[None]:
        from dask.distributed import KilledWorker
        from distributed.comm import CommClosedError

        try:
            yield
        # a scheduler that has gone takes all its futures with it
        except (CancelledError, CommClosedError) as error:
            raise SpectralError(Errors.S622.format(reason=str(error) or "no connection")) from error
        except KilledWorker as error:
            raise SpectralError(Errors.S230.format(reason=error)) from error


@contextmanager
def open_workers(*, workers: int, scheduler: str | None) -> Iterator[Workers]:
    """Start workers, and stop them in the end; of a Dask scheduler, or "local" for a cluster here."""
    if workers < 1:
        raise SpectralError(Errors.S210.format(workers=workers))
    if scheduler is not None:
        with _dask_client(workers, scheduler) as client:
            yield _OnDask(client)
    elif workers == 1:
        yield Workers()
    else:
        # "spawn" is the one start method that is safe on every platform and beside threads
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, context, initializer=_end_in_silence) as pool:
            yield _Executing(pool, workers)


def _end_in_silence() -> None:
    """Ctrl-C ends a worker without a traceback: the process that started it says what there is to say."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def _dask_client(workers: int, scheduler: str) -> Iterator[Any]:
    try:
        from dask.distributed import Client, LocalCluster
    except ImportError as error:
        raise SpectralError(Errors.S211) from error
    if scheduler == "local":
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = Client(scheduler)
    except (OSError, ValueError) as error:
        raise SpectralError(Errors.S212.format(scheduler=scheduler, reason=error)) from error
    with client:
        yield client


def _shares(parts: list[Any], workers: int) -> list[list[Any]]:
    """Consecutive parts, a few shares per worker so that none is left waiting for long."""
    n_shares = min(len(parts), 2 * workers)
    edges = [round(i * len(parts) / n_shares) for i in range(n_shares + 1)]
    return [parts[a:b] for a, b in pairwise(edges)]


def _size(parts: list[Any]) -> int:
    return sum(part.size for part in parts)
