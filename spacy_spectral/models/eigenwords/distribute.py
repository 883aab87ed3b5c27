"""Sharing out parts of a corpus: in this process, among processes, or on a Dask cluster.

Counts are integers and addition is exact, so who counted what makes no difference to the result.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial, reduce
from itertools import pairwise
from typing import Any

from ...base.errors import Errors
from .sources import Part

# takes a function of (list of parts, shared value), the parts, the shared value, a function that
# adds two results, and one that is told how many bytes are done; gives the sum of all results
Executor = Callable[
    [Callable[..., Any], list[Part], Any, Callable[[Any, Any], Any], Callable[[int], Any]], Any
]
# results are merged in groups of this size on the workers of a cluster before they travel
_FAN_IN = 4


@contextmanager
def open_workers(*, workers: int, scheduler: str | None) -> Iterator[Executor]:
    """Start workers, and stop them in the end.

    workers (int): Number of processes.
    scheduler (Optional[str]): Address of a Dask scheduler, or "local" for a cluster here.
    YIELDS (Executor): Applies a module-level function to parts and merges what comes back.
    """
    if workers < 1:
        raise ValueError(Errors.S210.format(workers=workers))
    if scheduler is not None:
        with _dask_client(workers, scheduler) as client:
            yield partial(_on_dask, client)
    elif workers == 1:
        yield _in_this_process
    else:
        # "spawn" is the one start method that is safe on every platform and beside threads
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            yield partial(_in_processes, pool, workers)


def _in_this_process(function: Any, parts: Any, shared: Any, merge: Any, report: Any) -> Any:
    return function(parts, shared, report)


def _in_processes(
    pool: Any, workers: int, function: Any, parts: Any, shared: Any, merge: Any, report: Any
) -> Any:
    shares = _shares(parts, workers)
    results = pool.map(function, shares, [shared] * len(shares))

    def reported() -> Iterator[Any]:
        for result, share in zip(results, shares, strict=True):
            report(_size(share))
            yield result

    return reduce(merge, reported())


def _on_dask(client: Any, function: Any, parts: Any, shared: Any, merge: Any, report: Any) -> Any:
    from dask.distributed import as_completed

    shares = _shares(parts, max(1, len(client.scheduler_info()["workers"])))
    table = client.scatter(shared, broadcast=True)
    futures = client.map(function, shares, shared=table, pure=False)
    sizes = {future.key: _size(share) for future, share in zip(futures, shares, strict=True)}
    for future in as_completed(futures):
        report(sizes[future.key])
    while len(futures) > 1:
        groups = [futures[i : i + _FAN_IN] for i in range(0, len(futures), _FAN_IN)]
        futures = [client.submit(reduce, merge, group, pure=False) for group in groups]
    return futures[0].result()


@contextmanager
def _dask_client(workers: int, scheduler: str) -> Iterator[Any]:
    try:
        from dask.distributed import Client, LocalCluster
    except ImportError as error:
        raise ValueError(Errors.S211) from error
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
        raise ValueError(Errors.S212.format(scheduler=scheduler, reason=error)) from error
    with client:
        yield client


def _shares(parts: list[Part], workers: int) -> list[list[Part]]:
    """Consecutive parts, a few shares per worker so that none is left waiting for long."""
    n_shares = min(len(parts), 2 * workers)
    edges = [round(i * len(parts) / n_shares) for i in range(n_shares + 1)]
    return [parts[a:b] for a, b in pairwise(edges)]


def _size(parts: list[Part]) -> int:
    return sum(part.size for part in parts)
