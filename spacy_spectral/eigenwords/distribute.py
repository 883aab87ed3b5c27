"""Sharing out parts of a corpus: in this process, among processes, or on a Dask cluster.

Counts are integers and addition is exact, so who counted what makes no difference to the result.
"""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import reduce
from itertools import pairwise
from typing import Any

from ..errors import Errors
from .sources import Part

# results are merged in groups of this size on the workers of a cluster before they travel
_FAN_IN = 4


def run(
    function: Callable[..., Any],
    parts: list[Part],
    shared: Any,
    merge: Callable[[Any, Any], Any],
    *,
    workers: int,
    scheduler: str | None,
    progress: bool,
    label: str,
) -> Any:
    """Apply a function to all parts and merge what comes back.

    function (Callable): Takes a list of parts and `shared`; a module-level function.
    parts (List[Part]): The parts, at least one.
    shared (Any): Given to every call.
    merge (Callable): Adds two results.
    workers (int): Number of processes.
    scheduler (Optional[str]): Address of a Dask scheduler, or "local".
    progress (bool): Whether to show a progress bar.
    label (str): What the progress bar says.
    RETURNS (Any): The merged result.
    """
    from tqdm import tqdm

    if workers < 1:
        raise ValueError(Errors.S210.format(workers=workers))
    total = sum(part.size for part in parts)
    with tqdm(total=total, desc=label, unit="B", unit_scale=True, disable=not progress) as bar:
        if scheduler is not None:
            return _run_on_dask(function, parts, shared, merge, workers, scheduler, bar)
        if workers == 1 or len(parts) == 1:
            return function(parts, shared, bar.update)
        shares = _shares(parts, workers)
        # "spawn" is the one start method that is safe on every platform and beside threads
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(workers, len(shares)), mp_context=context) as executor:
            results = executor.map(function, shares, [shared] * len(shares))
            return reduce(merge, _reported(results, shares, bar))


def _shares(parts: list[Part], workers: int) -> list[list[Part]]:
    """Consecutive parts, a few shares per worker so that none is left waiting for long."""
    n_shares = min(len(parts), 2 * workers)
    edges = [round(i * len(parts) / n_shares) for i in range(n_shares + 1)]
    return [parts[a:b] for a, b in pairwise(edges)]


def _reported(results: Any, shares: list[list[Part]], bar: Any) -> Any:
    for result, share in zip(results, shares, strict=True):
        bar.update(sum(part.size for part in share))
        yield result


def _run_on_dask(
    function: Callable[..., Any],
    parts: list[Part],
    shared: Any,
    merge: Callable[[Any, Any], Any],
    workers: int,
    scheduler: str,
    bar: Any,
) -> Any:
    try:
        from dask.distributed import Client, LocalCluster, as_completed
    except ImportError as error:
        raise ValueError(Errors.S211) from error
    if scheduler == "local":
        target: Any = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    else:
        target = scheduler
    try:
        client = Client(target)
    except (OSError, ValueError) as error:
        raise ValueError(Errors.S212.format(scheduler=scheduler, reason=error)) from error
    try:
        n_workers = max(1, len(client.scheduler_info()["workers"]))
        shares = _shares(parts, n_workers)
        table = client.scatter(shared, broadcast=True)
        futures = client.map(function, shares, shared=table, pure=False)
        sizes = {f.key: sum(p.size for p in s) for f, s in zip(futures, shares, strict=True)}
        for future in as_completed(futures):
            bar.update(sizes[future.key])
        while len(futures) > 1:
            groups = [futures[i : i + _FAN_IN] for i in range(0, len(futures), _FAN_IN)]
            futures = [client.submit(_merge_all, merge, group, pure=False) for group in groups]
        return futures[0].result()
    finally:
        client.close()
        if scheduler == "local":
            target.close()


def _merge_all(merge: Callable[[Any, Any], Any], results: list[Any]) -> Any:
    return reduce(merge, results)
