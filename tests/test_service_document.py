"""What docs/service.md shows, sent to a real server: every command, and the answer that stands below it."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from http_service import running

DOCUMENT = (Path(__file__).parents[1] / "docs" / "service.md").read_text(encoding="utf-8")
_EXAMPLE = re.compile(r"^```sh\n(.*?)^```\n\n```json\n(.*?)^```", re.MULTILINE | re.DOTALL)


def values(text: str) -> list[Any]:
    """Return the JSON values of a text, without scores, which depend on the model."""
    decoder = json.JSONDecoder(object_pairs_hook=lambda pairs: {k: v for k, v in pairs if k != "score"})
    found = []
    while text := text.lstrip():
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:]
    return found


@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("curl")), reason="the examples need bash and curl")
def test_shown_requests_have_the_shown_answers(tiny_model: Path, tmp_path: Path) -> None:
    (command,) = re.findall(r"^    ensemble-deid serve (.*)$", DOCUMENT, re.MULTILINE)
    assert shlex.split(command) == ["MODEL", "--port", "8000"]
    examples = _EXAMPLE.findall(DOCUMENT)
    assert len(examples) == DOCUMENT.count("```sh") == 4
    with running(tiny_model, tmp_path) as service:
        for shown, answer in examples:
            script = shown.replace("localhost:8000", f"{service.host}:{service.port}")
            done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=120)
            assert values(done.stdout) == values(answer), shown


def test_every_path_and_option_is_documented() -> None:
    from ensemble_deid.cli.main import build_parser
    from ensemble_deid.service.app import PATHS

    assert [path for path in PATHS if path not in DOCUMENT] == []
    actions = next(a for a in build_parser()._actions if a.dest == "command").choices["serve"]._actions
    options = [name for action in actions for name in action.option_strings if not name.startswith(("-h", "--help"))]
    assert [name for name in options if name not in DOCUMENT] == []
