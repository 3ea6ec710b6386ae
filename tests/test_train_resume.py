"""A training that is broken off goes on with the tasks that are done, and gives the same model."""

import re
from pathlib import Path

import numpy as np
import pytest
import tiny_stack

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import ConfigError
from ensemble_deid.note.span import Span
from ensemble_deid.taggers.base import Proposals, TokenScores
from ensemble_deid.training import fold_training
from ensemble_deid.training.run_folder import PartFolder, read_proposals, write_proposals

TASKS = ("neural-all", "neural-fold-1", "neural-fold-2", "crf-all", "crf-fold-1", "crf-fold-2")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.jsonl"
    write_corpus(tiny_stack.notes(), path, "jsonl")
    return path


def arguments(notes: Path, out: Path, *more: str) -> list[str]:
    return ["train", str(notes), "--out", str(out), *tiny_stack.settings(notes.parent), *more]


def train_until(task: str, given: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Train, and fail when the task begins; return the tasks that were begun before."""
    begun: list[str] = []
    run = fold_training.run_task

    def counted(of: fold_training.Task, *args: object, **options: object) -> object:
        if of.name == task:
            raise OSError("the power failed")
        begun.append(of.name)
        return run(of, *args, **options)

    monkeypatch.setattr(fold_training, "run_task", counted)
    status = main(given)
    monkeypatch.setattr(fold_training, "run_task", run)
    assert status == (2 if task else 0)
    return begun


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_resumed_training_gives_the_model_of_one_that_was_not_broken_off(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    everything = train_until("", arguments(notes, whole), monkeypatch)
    assert set(TASKS) < set(everything)
    assert not (tmp_path / "whole.part").exists()
    first = train_until("tbed-fold-1", arguments(notes, broken), monkeypatch)
    assert 0 < len(first) < len(everything)
    assert not broken.exists()
    for given, said in (
        ((), r"broken\.part: holds a run already; --resume continues it; else remove it"),
        (("--resume", "--seed=7"), r"run\.json: the run was begun with another config\.seed, and cannot be continued"),
        (("--resume", "--folds=3"), r"the run was begun with another config\.folds,"),
    ):
        capsys.readouterr()
        assert main(arguments(notes, broken, *given)) == 2
        assert re.search(said, capsys.readouterr().err)
    second = train_until("", arguments(notes, broken, "--resume"), monkeypatch)
    assert sorted([*first, *second]) == sorted(everything)
    assert contents(broken) == contents(whole)
    assert not (tmp_path / "broken.part").exists()


def test_other_notes_and_other_patterns_are_refused(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model"
    given = arguments(notes, out, "--submodels=regex,tbed")
    train_until("regex-fold-1", given, monkeypatch)
    patterns = tmp_path / "tiny.toml"
    before = patterns.read_text(encoding="utf-8")
    patterns.write_text(before.replace("slashed", "other"), encoding="utf-8")
    assert main([*given, "--resume"]) == 2
    assert "begun with another files.regex.patterns" in capsys.readouterr().err
    patterns.write_text(before, encoding="utf-8")
    write_corpus(tiny_stack.notes()[::-1], notes, "jsonl")
    assert main([*given, "--resume"]) == 2
    assert "begun with another corpus.train" in capsys.readouterr().err


def test_a_part_folder_without_a_result_begins_anew(tmp_path: Path) -> None:
    PartFolder.begin(tmp_path / "part", {"config": {"seed": 1}}, resume=False)
    part = PartFolder.begin(tmp_path / "part", {"config": {"seed": 2}}, resume=False)
    part.keep("crf-all", lambda folder: (folder / "crf").write_text("x", encoding="utf-8") and None)
    assert part.kept("crf-fold-1") is None
    assert part.kept("crf-all") == part.path / "crf-all"
    (part.path / "crf-all" / "crf").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"crf-all: damaged \(its files are not those that were written\); remove it"):
        part.kept("crf-all")


def test_proposals_come_back_as_they_were(tmp_path: Path) -> None:
    spans = (Span(0, 3, "DATE", 1 / 3, "pattern"), Span(4, 6, "ID", 0.1 + 0.2))
    scores = [TokenScores(np.array(phi, np.float32), np.arange(len(phi), dtype=np.int16)) for phi in ([0.1, 1.0], [])]
    for proposals in (Proposals((spans[:1], ()), (spans, ()), tuple(scores)), Proposals(((),), (spans,))):
        folder = tmp_path / str(len(proposals.best))
        folder.mkdir()
        write_proposals(proposals, folder)
        assert read_proposals(folder) == proposals
    (tmp_path / "1" / "proposals.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="damaged"):
        read_proposals(tmp_path / "1")
