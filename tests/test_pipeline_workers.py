"""Work in several processes: in order, and a process that dies is said in one line."""

import os
import signal
import time
from pathlib import Path

import pytest
from joblib import delayed

from ensemble_deid.errors import DeidError
from ensemble_deid.parallel import beside, in_processes

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


def note_process(folder: Path) -> None:
    # Long enough for the other process to take the other call.
    time.sleep(0.5)
    (folder / str(os.getpid())).touch()


def processes(folder: Path) -> set[int]:
    return {int(path.name) for path in folder.iterdir()}


def test_each_process_is_prepared_while_the_block_runs(tmp_path: Path) -> None:
    with beside(delayed(note_process)(tmp_path), jobs=2):
        inside = "the block runs"
    assert inside
    prepared = processes(tmp_path)
    assert len(prepared) == 2
    assert os.getpid() not in prepared
    later = set(in_processes((delayed(os.getpid)() for _ in range(8)), jobs=2))
    assert later <= prepared


def fail() -> None:
    raise ValueError(MARKER)


def test_what_fails_beside_the_block_is_left_to_those_who_need_it() -> None:
    with beside(delayed(fail)(), jobs=2):
        pass
    with pytest.raises(KeyError), beside(delayed(abs)(1), jobs=2):
        raise KeyError
    assert list(in_processes((delayed(abs)(-k) for k in range(3)), jobs=2)) == [0, 1, 2]
