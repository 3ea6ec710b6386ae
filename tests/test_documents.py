"""What the documents say can be done: links lead somewhere, shown commands parse, shown Python compiles and imports."""

import ast
import importlib
import re
import shlex
from pathlib import Path

import pytest

from ensemble_deid.cli.main import build_parser

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "data" / "README.md"])
_LINK = re.compile(r"\]\(([^)\s#]+)(#[^)]*)?\)")
# Up to a redirection, which is the shell's.
_COMMAND = re.compile(r"^(?:    |\$ )ensemble-deid ([^>|\n]*)", re.MULTILINE)
_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_lead_somewhere(document: Path) -> None:
    targets = [match[1] for match in _LINK.finditer(document.read_text(encoding="utf-8"))]
    dead = [target for target in targets if "://" not in target and not (document.parent / target).exists()]
    assert not dead


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_shown_commands_parse(document: Path) -> None:
    parser = build_parser()
    for match in _COMMAND.finditer(document.read_text(encoding="utf-8")):
        parser.parse_args(shlex.split(match[1], comments=True))


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_shown_python_imports(document: Path) -> None:
    for match in _PYTHON.finditer(document.read_text(encoding="utf-8")):
        for node in ast.walk(ast.parse(match[1])):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("ensemble_deid"):
                module = importlib.import_module(node.module)
                assert all(hasattr(module, alias.name) for alias in node.names), ast.unparse(node)
