"""Numerical libraries are held to one thread within a block, and are searched for once only."""

import sys

import numpy  # noqa: F401 (brings a BLAS library)
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from ensemble_deid import reproducible as threads
from ensemble_deid.reproducible import one_thread


def _threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info()]


def test_one_thread_within_the_block_and_as_before_after_it() -> None:
    with threadpool_limits(2):
        before = _threads()
        assert max(before) == 2
        with one_thread():
            assert set(_threads()) == {1}
        assert _threads() == before


def test_the_memory_map_is_searched_again_only_after_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = 0

    def search() -> ThreadpoolController:
        nonlocal searches
        searches += 1
        return ThreadpoolController()

    monkeypatch.setattr(threads, "ThreadpoolController", search)
    threads._libraries.cache_clear()
    for _ in range(3):
        with one_thread():
            pass
    assert searches == 1
    monkeypatch.setitem(sys.modules, "a_module_imported_since", threads)
    with one_thread():
        pass
    assert searches == 2
