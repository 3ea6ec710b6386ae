"""Work over several processes, whose number never changes a result."""

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from joblib import Parallel


def in_processes(calls: Iterable[Any], *, jobs: int, ordered: bool = True, ahead: str = "all") -> Iterator[Any]:
    """Yield the result of each `joblib.delayed` call, in order or as they are done; `ahead` calls wait at most.

    joblib renews a worker whose memory has grown, and warns of it though no call is lost: that is to be expected of
    training, and no news to a user.
    """
    kind = "generator" if ordered else "generator_unordered"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given", category=UserWarning)
        yield from Parallel(n_jobs=jobs, return_as=kind, pre_dispatch=ahead)(calls)
