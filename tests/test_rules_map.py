"""The map of TBED: a sample's learners are trained once for all starts, and cells of other notes are refused."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_stack

from ensemble_deid.cli.terminal import BAD_INPUT
from ensemble_deid.config import Config
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.training.fold_training import train_submodels
from research import rules_map
from research.rules_map import Cell, Map, main

TRAIN, DEV = tiny_stack.notes(300, patients=8), tiny_stack.notes(600, patients=3)


def lines(cells: Map, start: str) -> list[dict[str, Any]]:
    """Return the lines of a cell without its seconds."""
    found = list(cells.run(Cell("stack", start, 12, 13)))
    assert all(line.pop("seconds") > 0 for line in found)
    return found


def test_learners_of_another_start_are_those_of_a_training_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[str] = []

    def spy(*given: Any, config: Config, **others: Any) -> Any:
        trained.extend(config.submodels)
        return train_submodels(*given, config=config, **others)

    monkeypatch.setattr(rules_map, "train_submodels", spy)
    shared, alone = (Map(TRAIN, DEV, patterns="en-i2b2", folder=tmp_path) for _ in range(2))
    lines(shared, "none")
    again = lines(shared, "20")
    # Only what sees the patterns is trained for each start.
    assert trained == ["tbed", "crf", "regex", "tbed"]
    assert again == lines(alone, "20")
    assert [line["system"] for line in again] == ["with TBED", "without TBED"]
    assert sum(found for found, _, _ in again[0]["tokens"]) > 0


def test_a_file_with_cells_of_other_notes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, notes in (("train", TRAIN), ("other", tiny_stack.notes(400, patients=8)), ("dev", DEV)):
        write_corpus(notes, tmp_path / name, "jsonl")

    def run(train: str, parts: str) -> int:
        options = ["--parts", parts, "--starts", "20", "--sizes", "12", "--seeds", "13", "--out", str(tmp_path / "map")]
        monkeypatch.setattr(sys, "argv", ["rules_map", str(tmp_path / train), str(tmp_path / "dev"), *options])
        return main()

    assert run("train", "rules") == 0
    cells = (tmp_path / "map").read_text(encoding="utf-8")
    assert {json.loads(line)["system"] for line in cells.splitlines()} == {"patterns", "TBED"}
    assert run("train", "rules") == 0
    assert run("other", "") == 0  # tables alone
    assert run("other", "rules") == BAD_INPUT
    assert "its cells are of other notes" in capsys.readouterr().err
    assert (tmp_path / "map").read_text(encoding="utf-8") == cells
