"""Run a command and check what must hold whatever its input is."""

import io
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from hostile import MARKER

from ensemble_deid.cli.main import main

STATUSES = (0, 1, 2, 3)


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def run(arguments: Sequence[object], *, inputs: Sequence[Path] = (), quotes: bool = False) -> tuple[int, str, str]:
    """Return exit status, output and messages of a command that may not touch its inputs, quote a note, or crash."""
    before = [contents(folder) for folder in inputs]
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as error:  # argparse
            status = int(error.code or 0)
    said = err.getvalue()
    shown = f"{arguments}: {status}\n{said}"
    assert status in STATUSES, shown
    assert "unforeseen" not in said, shown
    assert "Traceback" not in said, shown
    assert [contents(folder) for folder in inputs] == before, shown
    if not quotes:
        assert MARKER not in said, shown
        assert MARKER not in out.getvalue(), shown
    if status == 2:
        assert said.startswith(("ensemble-deid: ", "usage: ")), shown
        assert said.startswith("usage: ") or said.count("\nensemble-deid: ") < 6, shown
    return status, out.getvalue(), said
