"""Work over several processes, whose number never changes a result."""

import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from joblib import Parallel

from ensemble_deid.errors import DeidError


def in_processes(calls: Iterable[Any], *, jobs: int, ordered: bool = True, ahead: str = "all") -> Iterator[Any]:
    """Yield the result of each `joblib.delayed` call, in order or as they are done; `ahead` calls wait at most.

    joblib renews a worker whose memory has grown, and warns of it though no call is lost: that is to be expected of
    training, and no news to a user. Raises DeidError when a process is killed.
    """
    kind = "generator" if ordered else "generator_unordered"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given", category=UserWarning)
        try:
            yield from Parallel(n_jobs=jobs, return_as=kind, pre_dispatch=ahead)(calls)
        except BrokenProcessPool:
            raise DeidError(
                f"one of {jobs} processes was killed, as happens when memory runs out: try with fewer --jobs"
            ) from None
