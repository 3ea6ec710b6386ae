"""Run the notebooks in this folder from top to bottom in fresh kernels, and keep their outputs (`make notebooks`)."""

import os
import tempfile
import warnings
from pathlib import Path

import nbformat
from nbclient import NotebookClient

_SECONDS = 900
_ENGLISH = Path(__file__).resolve().parents[1] / "models" / "ensemble_deid_en" / "ensemble_deid_en" / "model"


def execute(path: Path) -> nbformat.NotebookNode:
    """Run a notebook in an empty folder and return it with its outputs, without times and paths of this machine."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # What Jupyter's own libraries deprecate is not this project's to mend.
        warnings.simplefilter("ignore", DeprecationWarning)
        # A kernel that reads no settings of the person who runs it.
        os.environ |= {"IPYTHONDIR": f"{folder}/ipython", "JUPYTER_RUNTIME_DIR": f"{folder}/runtime"}
        os.environ |= {"OMP_NUM_THREADS": "1"}
        # The English model of this checkout, whether or not it is installed.
        (Path(folder) / "en").symlink_to(_ENGLISH)
        place = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=_SECONDS, kernel_name="python3", resources=place, record_timing=False)
        client.execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
    names = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = nbformat.from_dict({"kernelspec": names, "language_info": {"name": "python"}})
    return notebook


def _joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Join pieces of one stream, which are cut wherever the kernel happened to send them."""
    joined: list[nbformat.NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last is not None and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


if __name__ == "__main__":
    for notebook_path in sorted(Path(__file__).parent.glob("*.ipynb")):
        nbformat.write(execute(notebook_path), notebook_path)
