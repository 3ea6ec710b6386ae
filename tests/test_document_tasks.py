"""The pages of docs/tasks are run from top to bottom, each in one folder, as a reader would."""

import contextlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import tiny_stack
from document_blocks import ROOT, SHELL, TASKS, Block, blocks
from document_workplace import make_workplace
from http_service import Service, running
from test_documents import ON_SPARK

from ensemble_deid.cli.main import main

_FILE_NAME = re.compile(r"# ([\w.-]+\.toml)\n")


def pages() -> list[object]:
    shown = [path for path in TASKS if path.name != "README.md"]
    return [pytest.param(p, id=p.stem, marks=ON_SPARK if p.stem == "spark" else ()) for p in shown]


def without_scores(text: str) -> Any:
    """Return a JSON value without scores, which depend on the model."""
    return json.loads(text, object_hook=lambda table: {k: v for k, v in table.items() if k != "score"})


@dataclass
class Reader:
    """Somebody who does what a page says; `answer` is what the last request brought."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    stack: contextlib.ExitStack
    service: Service | None = None
    answer: str = ""
    done: list[str] = field(default_factory=list)

    def follow(self, block: Block) -> None:
        if block.not_run:
            return
        match block.language:
            case "csv":
                (self.folder / "notes.csv").write_text(block.code, encoding="utf-8", newline="")
            case "toml":
                name = _FILE_NAME.match(block.code)
                assert name is not None, "the first line names the file"
                (self.folder / name[1]).write_text(block.code, encoding="utf-8")
            case "json":
                assert without_scores(self.answer) == without_scores(block.code), block.name
            case "python":
                exec(compile(block.code, block.name, "exec"), {"__name__": "shown"})
            case language:
                assert language in SHELL, block.name
                for command in block.commands:
                    self.run(command)
                    self.done.append(command)

    def run(self, command: str) -> None:
        program, *words = shlex.split(command, comments=True)
        if program == "pip":
            return
        if program == "python":
            self.shell(shlex.quote(sys.executable) + command.removeprefix("python"))
        elif program == "curl":
            assert self.service is not None, "the page has started no server"
            self.answer = self.shell(command.replace("localhost:8000", f"{self.service.host}:{self.service.port}"))
        elif words[0] == "serve":
            assert words[1:] == ["model", "--port", "8000"]
            self.service = self.stack.enter_context(running(self.folder / "model", self.folder))
        else:
            self.main(words)

    def shell(self, command: str) -> str:
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def main(self, words: list[str]) -> None:
        if words[0] == "train":
            words[1:1] = tiny_stack.settings(self.folder)
        assert main(words) == 0, words
        said = self.capsys.readouterr()
        notices = [line for line in said.err.splitlines() if not line.startswith("ensemble-deid: patterns: ")]
        assert not notices
        assert said.out


@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("curl")), reason="the pages need bash and curl")
@pytest.mark.parametrize("page", pages())
def test_a_task_is_done_as_its_page_says(
    page: Path,
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_workplace(tiny_model, tmp_path)
    monkeypatch.chdir(tmp_path)
    if page.stem == "csv-with-surrogates":
        (tmp_path / "key").unlink()
    with contextlib.ExitStack() as stack:
        reader = Reader(tmp_path, capsys, stack)
        for block in blocks(page):
            reader.follow(block)
    assert reader.done
    if page.stem == "csv-with-surrogates":
        clean = (tmp_path / "clean.csv").read_text(encoding="utf-8")
        assert clean.startswith("note_id,mrn,seen,ward,text\n")
        assert "2019" not in clean.replace("2019-", "")
        assert "Anna Bell" not in clean
    if page.stem == "own-labels":
        assert json.loads((tmp_path / "own_model" / "manifest.json").read_text())["labels"] == [
            "CITY",
            "DATE",
            "PERSON",
        ]


def test_the_list_of_tasks_is_complete() -> None:
    listed = (ROOT / "docs" / "tasks" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in TASKS if path.name != "README.md" and f"({path.name})" not in listed] == []
