"""Work in several processes: in order, and a process that dies is said in one line."""

import os
import signal

import pytest
from joblib import delayed

from ensemble_deid.errors import DeidError
from ensemble_deid.parallel import in_processes

MARKER = "Zyxwvutsr"


def die(text: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return text


def test_a_killed_process_is_said() -> None:
    with pytest.raises(DeidError, match="was killed, as happens when memory runs out") as raised:
        list(in_processes((delayed(die)(MARKER) for _ in range(3)), jobs=2))
    assert MARKER not in str(raised.value)


def test_results_come_in_order() -> None:
    assert list(in_processes((delayed(abs)(-k) for k in range(20)), jobs=2, ahead="2*n_jobs")) == list(range(20))
    assert sorted(in_processes((delayed(abs)(-k) for k in range(5)), jobs=1, ordered=False)) == list(range(5))
