"""The notebooks run from top to bottom in a fresh kernel."""

import os
import warnings
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
_SECONDS = 600


def printed(notebook: nbformat.NotebookNode) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output.get("text", "") for output in outputs if output.output_type == "stream")


def test_there_is_a_notebook() -> None:
    assert [path.name for path in NOTEBOOKS] == ["first_steps.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_kept_without_outputs(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    kept = [cell.id for cell in cells if cell.get("outputs") or cell.get("execution_count")]
    assert not kept, "outputs grow stale and may hold text of notes"


def test_first_steps_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    # A kernel that reads no settings of the person who runs the tests.
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))))
    notebook = nbformat.read(ROOT / "notebooks" / "first_steps.ipynb", as_version=4)
    client = NotebookClient(
        notebook, timeout=_SECONDS, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    with warnings.catch_warnings():
        # What Jupyter's own libraries deprecate is not this project's to mend.
        warnings.simplefilter("ignore", DeprecationWarning)
        client.execute()
    said = printed(notebook)
    assert "change O to B-" in said, "rules are shown"
    assert "[DATE]" in said, "a note is shown without its dates"
    assert "recall" in said
