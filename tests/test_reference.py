"""The references in docs/reference are those that the code gives."""

from pathlib import Path

import pytest
from every_command import main

ROOT = Path(__file__).parents[1]


def test_the_references_are_up_to_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reference", str(tmp_path)]) == 0
    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    stored = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").iterdir()}
    assert written == stored, "run `python -m tools reference`"
    assert "commands.md" in capsys.readouterr().out
