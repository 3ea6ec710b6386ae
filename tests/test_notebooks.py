"""The notebooks run from top to bottom in a fresh kernel, and are kept with what they printed then."""

import os
import re
import runpy
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
_LARGEST = 60_000
_MACHINE = re.compile(r"/(home|root|tmp|work|Users|var|mnt)/|[A-Z]:\\\\")


def printed(cells: list[nbformat.NotebookNode]) -> str:
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    return "".join(output.get("text", "") for output in outputs if output.output_type == "stream")


def code(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def test_there_are_three_notebooks() -> None:
    assert [path.name for path in NOTEBOOKS] == ["first_steps.ipynb", "own_corpus.ipynb", "rules.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_outputs_are_kept_small_and_say_nothing_of_the_machine(path: Path) -> None:
    cells = code(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), "run `make notebooks`"
    for cell in cells:
        assert cell.outputs, "every cell shows something"
        assert {output.output_type for output in cell.outputs} == {"stream"}
        assert {output.name for output in cell.outputs} == {"stdout"}, "no warning and no error"
        assert not cell.metadata, "no times"
    text = path.read_text(encoding="utf-8")
    assert len(text) < _LARGEST
    assert not _MACHINE.search(text)


def test_no_notebook_reads_the_test_notes() -> None:
    """What is shown of notes, and of what is missed in them, comes from train and dev."""
    for path in NOTEBOOKS:
        assert not any(re.search("demo[:/]test", cell.source) for cell in code(path))


def run(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[nbformat.NotebookNode]:
    """Return the cells of code of a notebook that has been run now."""
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "OMP_NUM_THREADS"):
        # So that what running sets is taken back.
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))))
    notebook = runpy.run_path(str(ROOT / "notebooks" / "execute.py"))["execute"](path)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.long
def test_first_steps_run(monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / "notebooks" / "first_steps.ipynb"
    cells = run(path, monkeypatch)
    said = printed(cells)
    assert "change O to B-" in said, "rules are shown"
    assert "[DATE]" in said, "a note is shown without its dates"
    assert "recall" in said
    # Figures may differ in their last digits from machine to machine; the notes may not.
    assert printed(cells[:2]) == printed(code(path)[:2]), "the notes have changed: run `make notebooks`"


@pytest.mark.long
def test_a_corpus_of_your_own_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / "notebooks" / "own_corpus.ipynb"
    cells = run(path, monkeypatch)
    said = printed(cells)
    assert "FOLDER/broken.jsonl:2: span 0" in said
    assert "36 of 36 notes are the same after brat" in said
    # What `en` finds may differ from machine to machine; what is read may not.
    assert printed(cells[:5]) == printed(code(path)[:5]), "the notes have changed: run `make notebooks`"


@pytest.mark.long
def test_reading_and_editing_rules_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = run(ROOT / "notebooks" / "rules.ipynb", monkeypatch)
    said = printed(cells)
    assert "edited.rules:" in said, "a typing error is reported with its place"
    assert 'if the lower 2 before is "attending"' in said
    assert "the same list as before: True" in said
