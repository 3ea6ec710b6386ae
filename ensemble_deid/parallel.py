"""Work in several processes, whose number never changes a result, and progress reports."""

import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ensemble_deid.errors import DeidError


@dataclass(frozen=True, slots=True)
class Step:
    """A step that was completed: `done` of `total` units of work (None if unknown), and a line of text."""

    done: float
    total: float | None
    message: str


Reporter = Callable[[Step], None]


_SECONDS = 1.0
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def delayed(function: Callable[..., Any]) -> Callable[..., Call]:
    """Return what keeps a call of a function for another process, as `joblib.delayed` does."""
    return lambda *args, **options: (function, args, options)


def in_processes(
    calls: Iterable[Call], *, jobs: int, ordered: bool = True, ahead: str = "all"
) -> Generator[Any, None, None]:
    """Yield the result of each `delayed` call, in order or as they are done; `ahead` calls wait at most.

    joblib renews a worker whose memory has grown, and warns of it though no call is lost: that is to be expected of
    training, and no news to a user. When the caller stops, the calls that wait are dropped. Raises DeidError when a
    process is killed.
    """
    # Here, not above: one process needs none of it, and it takes a while to load.
    from concurrent.futures.process import BrokenProcessPool

    from joblib import Parallel

    own = os.getpid()
    bound = (delayed(_run_for)(own, function, args, options) for function, args, options in calls)
    with _joblib_quiet():
        kind = "generator" if ordered else "generator_unordered"
        results = Parallel(n_jobs=jobs, return_as=kind, pre_dispatch=ahead)(bound)
        try:
            # Not `yield from`: when the caller stops, the workers are to be stopped here and now.
            for result in results:  # noqa: UP028
                yield result
        except BrokenProcessPool:
            raise DeidError(
                f"one of {jobs} processes was killed, as happens when memory runs out: try with fewer --jobs"
            ) from None
        finally:
            results.close()


def in_each_process(call: Call, *, jobs: int) -> Any:
    """Run a `delayed` call, such as loading a model, in each process that `in_processes` will use; return one result.

    Raises what the call raises, but only when it has ended in all processes.
    """
    function, args, options = call
    outcomes = list(in_processes([delayed(_result_or_error)(function, args, options)] * jobs, jobs=jobs))
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    return outcomes[0]


def _result_or_error(function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    try:
        return function(*args, **options)
    except Exception as error:  # noqa: BLE001 (the caller raises it)
        return error


@contextmanager
def _joblib_quiet() -> Iterator[None]:
    """Keep joblib from writing of workers that it renews or stops to standard error; what fails, it raises."""
    log = logging.getLogger("concurrent.futures")
    before = log.disabled
    with warnings.catch_warnings():
        for said in ("A worker stopped while some jobs were given", r"\d+ tasks (have been|which were)"):
            warnings.filterwarnings("ignore", message=said, category=UserWarning)
        log.disabled = True
        try:
            yield
        finally:
            log.disabled = before


def _run_for(parent: int, function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    if os.getpid() != parent:
        _end_with(parent)
    return function(*args, **options)


@lru_cache(maxsize=1)
def _end_with(parent: int) -> None:
    """Let this worker end when its parent does, even where that is killed: it would wait for ever, with notes in it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
