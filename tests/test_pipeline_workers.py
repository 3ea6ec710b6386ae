"""Work in several processes: in order, and a process that dies is said in one line."""

import os
import signal
import time
from pathlib import Path

import pytest
from joblib import delayed

from ensemble_deid.deidentify.prediction import predict_apart, predict_here
from ensemble_deid.errors import DeidError
from ensemble_deid.model.loading import load_model, model_source
from ensemble_deid.model.options import PredictionOptions
from ensemble_deid.note import reading
from ensemble_deid.note.document import Document
from ensemble_deid.parallel import in_each_process, in_processes

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


def test_each_process_runs_the_call(tmp_path: Path) -> None:
    in_each_process(delayed(note_process)(tmp_path), jobs=2)
    prepared = processes(tmp_path)
    assert len(prepared) == 2
    assert os.getpid() not in prepared
    later = set(in_processes((delayed(os.getpid)() for _ in range(8)), jobs=2))
    assert later <= prepared
    assert in_each_process(delayed(abs)(-3), jobs=2) == 3


def fail_in_one(folder: Path) -> None:
    """Fail in the process that is the first, and take longer in the other."""
    try:
        (folder / "first").mkdir()
    except FileExistsError:
        time.sleep(0.5)
        (folder / "second").mkdir()
    else:
        raise DeidError(MARKER)


def test_what_fails_in_a_process_is_raised_when_all_have_ended(tmp_path: Path) -> None:
    with pytest.raises(DeidError, match=MARKER):
        in_each_process(delayed(fail_in_one)(tmp_path), jobs=2)
    assert (tmp_path / "second").exists()
    assert list(in_processes((delayed(abs)(-k) for k in range(3)), jobs=2)) == [0, 1, 2]


def test_workers_tell_which_notes_are_ordinary(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_ordinary", set())
    texts = ["Seen by Dr. Bell on 3/4/2019.", "Se\u200ben by Dr. Bell on 3/4/2019."]
    notes = [Document(str(k), text) for k, text in enumerate(texts)]
    alone = list(predict_here(load_model(tiny_model)[0], notes, PredictionOptions(batch_size=1)))
    assert reading._ordinary == set()
    options = PredictionOptions(batch_size=1, jobs=2)
    assert list(predict_apart(model_source(tiny_model), notes, options)) == alone
    assert reading._ordinary == {reading._digest(texts[0])}
