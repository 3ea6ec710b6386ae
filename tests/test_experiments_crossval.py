"""Cross-validation of the whole stack: what is held out, what is written, and that a killed run continues."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny_stack

from ensemble_deid.cli.main import main
from ensemble_deid.config import Config, make_config
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.counts import strict_counts
from ensemble_deid.parallel import Step
from ensemble_deid.training.crossval import crossval
from ensemble_deid.training.train import train

FOLDS = 4


def config_in(folder: Path, **others: object) -> Config:
    patterns = folder / "tiny.toml"
    patterns.write_text(tiny_stack.PATTERNS, encoding="utf-8")
    grid = {"c_grid": [1.0], "gamma_grid": [0.01], "weight_grid": [1.0]}
    content = {"submodels": ["regex", "tbed"], "folds": 2, "jobs": 1, "stack": grid, **others}
    return make_config({**content, "regex": {"patterns": str(patterns)}})


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != "log.txt"}


def quiet(step: Step) -> None:
    """Report nothing."""


def test_every_note_is_predicted_by_a_stack_that_has_not_seen_its_patient(tmp_path: Path) -> None:
    notes, config = tiny_stack.notes(300, patients=4), config_in(tmp_path)
    result = crossval(notes, tmp_path / "run", config=config, folds=2, report=quiet)
    parts = [json.loads((tmp_path / "run" / f"fold-0{k}.json").read_text())["notes"] for k in (1, 2)]
    assert sorted([*parts[0], *parts[1]]) == sorted(note.id for note in notes)
    patients = [{note.patient for note in notes if note.id in part} for part in parts]
    assert not patients[0] & patients[1]
    others = [note for note in notes if note.id not in parts[0]]
    ensemble = train(others, config=config, notify=lambda line: None).ensemble
    held_out = [note for note in notes if note.id in parts[0]]
    expected = {n.id: [s.key for s in spans] for n, spans in zip(held_out, ensemble.predict(held_out), strict=True)}
    found = {note.id: [span.key for span in note.spans] for note in result.predictions if note.id in parts[0]}
    assert found == expected
    last = result.systems[-1]
    assert last.name == "ensemble"
    assert last.counts == strict_counts((n.spans for n in notes), (n.spans for n in result.predictions))
    assert sum(fold.gold for fold in last.by_fold) == last.counts.gold == sum(len(note.spans) for note in notes)
    written = read_corpus(str(tmp_path / "run" / "predictions.jsonl")).documents
    assert {note.id: [span.key for span in note.spans] for note in written} == {
        note.id: [span.key for span in note.spans] for note in result.predictions
    }


def test_sites_and_processes(tmp_path: Path) -> None:
    """Folds keep sites together, and their number in parallel, or a bound on the memory, changes no byte."""
    from dataclasses import replace

    notes = [replace(n, site=f"S{int(n.patient) // 2}") for n in tiny_stack.notes(300, patients=6)]
    config = config_in(tmp_path, group_by="site")
    crossval(notes, tmp_path / "one", config=config, folds=3, report=quiet)
    parts = [json.loads((tmp_path / "one" / f"fold-0{k}.json").read_text())["notes"] for k in (1, 2, 3)]
    assert all(len({note.site for note in notes if note.id in part}) == 1 for part in parts)
    two = config_in(tmp_path, group_by="site", jobs=2)
    crossval(notes, tmp_path / "two", config=two, folds=3, max_memory=1000, report=quiet)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert "at the same time" in (tmp_path / "two" / "log.txt").read_text()
    with pytest.raises(ConfigError, match=r"a fold takes .* GiB, more than --max-memory 0\.001; its result is kept"):
        crossval(notes, tmp_path / "three", config=config, folds=3, max_memory=0.001, report=quiet)
    assert (tmp_path / "three" / "fold-01.json").is_file()


@pytest.mark.long
def test_a_killed_run_continues_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    write_corpus(tiny_stack.notes(300, patients=8), tmp_path / "notes", "i2b2")
    settings = tiny_stack.settings(tmp_path, folds="2")[1:]
    common = ["research", "crossval", str(tmp_path / "notes"), f"--folds={FOLDS}", "--submodels=regex,tbed", *settings]
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    command = [sys.executable, "-m", "ensemble_deid", *common, "--out", str(broken)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    end = time.monotonic() + 300
    while not (broken / "fold-01.json").is_file():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (broken / "figures.json").exists()
    first = (broken / "fold-01.json").stat()
    assert main([*common, "--out", str(broken)]) == 2
    assert main([*common, "--out", str(broken), "--resume"]) == 0
    assert (broken / "fold-01.json").stat().st_mtime_ns == first.st_mtime_ns
    assert main([*common, "--out", str(whole)]) == 0
    assert files_of(broken) == files_of(whole)
    assert {"run.json", "figures.json", "predictions.jsonl", "fold-04.json"} < set(files_of(whole))
    assert {"figures.txt", "figures.csv", "figures.tex", "figures.svg"} < set(files_of(whole))


def test_what_cannot_be_run_is_refused(tmp_path: Path) -> None:
    notes, config = tiny_stack.notes(300, patients=3), config_in(tmp_path)
    with pytest.raises(CorpusError, match="4 folds need at least two and no more than there are patients"):
        crossval(notes, tmp_path / "run", config=config, folds=4, report=quiet)
    with pytest.raises(CorpusError, match="several notes have the same id"):
        crossval([*notes, notes[0]], tmp_path / "run", config=config, folds=2, report=quiet)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("x")
    with pytest.raises(ConfigError, match="is not empty, and holds no run"):
        crossval(notes, tmp_path / "other", config=config, folds=3, report=quiet)
    crossval(notes, tmp_path / "run", config=config, folds=3, report=quiet)
    with pytest.raises(ConfigError, match="holds a run already; --resume continues it"):
        crossval(notes, tmp_path / "run", config=config, folds=3, report=quiet)
    other = config_in(tmp_path, seed=14)
    with pytest.raises(ConfigError, match=r"run\.json: the run was begun with another config\.seed"):
        crossval(notes, tmp_path / "run", config=other, folds=3, resume=True, report=quiet)
    (tmp_path / "run" / "fold-02.json").write_text("{")
    with pytest.raises(ConfigError, match=r"fold-02\.json: damaged \(JSONDecodeError\); remove it"):
        crossval(notes, tmp_path / "run", config=config, folds=3, resume=True, report=quiet)
    (tmp_path / "run" / "fold-02.json").write_bytes((tmp_path / "run" / "fold-01.json").read_bytes())
    with pytest.raises(ConfigError, match=r"fold-02\.json: damaged \(other notes\)"):
        crossval(notes, tmp_path / "run", config=config, folds=3, resume=True, report=quiet)
