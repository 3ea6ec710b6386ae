"""Numerical libraries held to one thread: sums in another order differ in their last digits."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Let BLAS and OpenMP libraries use one thread within the block, so that results do not depend on the cores.

    Does what `threadpoolctl.threadpool_limits(1)` does, which searches the memory map of the process for libraries at
    every call: for a short note that takes longer than the model.
    """
    # A library is loaded with the module that needs it, so only a module imported since can have brought another one.
    with _libraries(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    return ThreadpoolController()
