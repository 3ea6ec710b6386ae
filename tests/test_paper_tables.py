"""`research/paper_tables.py`: its steps are commands that the parser takes, over notes that it writes."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from every_command import parser_of

from ensemble_deid.config import load_config
from ensemble_deid.corpora.read import read_corpus


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    """Return the script as a module."""
    path = Path(__file__).parents[1] / "research" / "paper_tables.py"
    spec = importlib.util.spec_from_file_location("paper_tables", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_step_is_a_command_with_settings_that_exist(tables: ModuleType, tmp_path: Path) -> None:
    steps = list(tables.steps(tmp_path))
    assert len({name for name, _ in steps}) == len(steps) > 15
    for _, command in steps:
        options = parser_of(command).parse_args(command)
        overrides = getattr(options, "overrides", [])
        load_config(getattr(options, "config", None), overrides=overrides)
        assert "demo:test" not in command


def test_notes_are_dealt_so_that_nothing_is_scored_that_was_learned_from(tables: ModuleType, tmp_path: Path) -> None:
    tables.prepare(tmp_path)
    parts = {path.stem: read_corpus(path).documents for path in tmp_path.glob("*.jsonl")}
    sites = {name: {note.site for note in notes} for name, notes in parts.items()}
    groups = [sites[f"group-{letter}"] for letter in "abc"]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 12
    assert sites["new-site"] == {"S02"}
    assert sites["new-site"].isdisjoint(sites["elsewhere"])
    assert {note.id for note in parts["unlabelled"]}.isdisjoint(note.id for note in parts["zhao"])
    assert not any(note.spans for note in parts["unlabelled"])
    assert all(note.text for note in parts["unlabelled"])


def test_a_step_that_has_printed_is_not_run_again(
    tables: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "prepare", lambda out: None)
    assert tables.main([str(tmp_path), "--only", "zhao-table2"]) == 0
    printed = tmp_path / "zhao-table2.txt"
    assert "demo:train" in printed.read_text(encoding="utf-8")
    assert "zhao-table2" in capfd.readouterr().err
    assert tables.main([str(tmp_path), "--only", "zhao-table2"]) == 0
    assert capfd.readouterr().err == ""
    # A command that fails stops the run, and says its name; its step is run again.
    assert tables.main([str(tmp_path), "--only", "zhao-table7"]) != 0
    assert "zhao-table7: exit status" in capfd.readouterr().err
    assert not (tmp_path / "zhao-table7.txt").exists()
