"""Somebody who does what a document says, from top to bottom, in one folder."""

import contextlib
import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import tiny_stack
from document_blocks import SHELL, Block
from every_command import main
from http_service import Service, running

from ensemble_deid import Config, Trained, load_config
from ensemble_deid.training import train as training

# What a document shows as the reader's own, or would take too long in a test -> what it is in the workplace.
STAND_INS = {
    "demo:test": "my/test",
    "demo:dev": "my/dev",
    "demo:train": "my/train",
    # The notes of the workplace have no ages.
    'by_type=["NAME", "LOCATION", "DATE+AGE"]': 'by_type=["NAME", "LOCATION", "DATE"]',
    # With so few notes, no threshold has few false positives.
    "--out better": "--out better --false-positives 100",
    # The rule list of the model here is short.
    "1,2,5": "1,2",
}
_FILE_NAME = re.compile(r"# ([\w.-]+\.toml)\n")
# Installing and building take too long; that targets and extras exist is tested with the blocks.
_NOT_OURS = ("pip", "make")
# `train` says which patterns it takes, and that a CRF starts from nothing; nothing else has anything to warn of.
_EXPECTED = (
    "ensemble-deid: patterns: ",
    "ensemble-deid: TBED: ",
    "ensemble-deid: crf: cannot start from a trained model",
)


def is_on_spark(block: Block) -> bool:
    return "pyspark" in block.code or "ensemble-deid spark" in block.code


def without_scores(text: str) -> list[Any]:
    """Return the JSON values of a text, without scores, which depend on the model."""
    decoder = json.JSONDecoder(object_pairs_hook=lambda pairs: {k: v for k, v in pairs if k != "score"})
    found = []
    while text := text.lstrip():
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:]
    return found


@dataclass
class Reader:
    """`answer` is what the last request brought."""

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
                if name := _FILE_NAME.match(block.code):
                    (self.folder / name[1]).write_text(block.code, encoding="utf-8")
            case "json":
                assert without_scores(self.answer) == without_scores(block.code), block.name
            case "python":
                self.execute(block)
            case language if language in SHELL and "curl" in block.code:
                self.ask(block.code)
            case language if language in (*SHELL, "indented"):
                for command in block.commands:
                    self.run(command)

    def execute(self, block: Block) -> None:
        """Run Python as it is shown, but for training, which is small here."""
        train = training._train

        def quickly(*documents: object, config: Config, **others: object) -> Trained:
            settings = tiny_stack.settings(self.folder)
            overrides = [setting for setting in settings if "=" in setting and not setting.startswith("--")]
            tiny = load_config(overrides=overrides, folds=2, jobs=1)
            return train(*documents, config=tiny.model_copy(update={"crf": config.crf}), **others)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(training, "_train", quickly)
            exec(compile(block.code, block.name, "exec"), {"__name__": "shown"})
        self.done.append(block.name)

    def ask(self, script: str) -> None:
        """Send the requests of a block to the server that the document has started."""
        assert self.service is not None, "the document has started no server"
        self.answer = self.shell(script.replace("localhost:8000", f"{self.service.host}:{self.service.port}"))

    def shell(self, command: str) -> str:
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, command: str) -> None:
        program, *words = shlex.split(command, comments=True)
        if program in _NOT_OURS:
            return
        if program == "python" and words[0] == "-c":
            self.shell(shlex.quote(sys.executable) + command.removeprefix("python"))
        elif words[0] == "keygen":
            # The workplace has a key, and none is overwritten.
            (self.folder / words[1]).unlink(missing_ok=True)
            self.main(words, command)
        elif words[0] == "serve":
            assert words[1:] == ["model", "--port", "8000"]
            self.service = self.stack.enter_context(running(self.folder / "model", self.folder))
        else:
            # What follows the sign is the shell's.
            words = words[: words.index(">")] if ">" in words else words
            self.main(words[2:] if program == "python" else words, command)
        self.done.append(command)

    def main(self, words: list[str], command: str) -> None:
        words = [STAND_INS.get(word, word) for word in words]
        if words[0] == "train":
            # First, so that what the document sets is what counts.
            words[1:1] = tiny_stack.settings(self.folder)
        self.capsys.readouterr()
        status = main(words)
        said = self.capsys.readouterr()
        assert status == 0, f"{command}: {said.err}"
        warnings = [line for line in said.err.splitlines() if not line.startswith(_EXPECTED)]
        assert not warnings, f"{command}: {said.err}"
        assert said.out, command
