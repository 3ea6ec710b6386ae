"""Every code block of the documents is run or read by a test, or says in the document why it is not.

Each document is run from top to bottom by tests/test_documents.py. What `make` and `pip install` would do takes too
long for a test: the target and the extra must exist.
"""

import configparser
import csv
import json
import re
import shlex
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from document_blocks import ALL, ROOT, SHELL, Block
from every_command import parser_of

from ensemble_deid.cli import options
from ensemble_deid.cli.main import build_parser
from ensemble_deid.corpora.record_map import RecordMap
from ensemble_deid.features.pattern_text import failed_examples
from ensemble_deid.features.patterns import parse_patterns
from ensemble_deid.features.shared_words import inline_word_lists
from ensemble_deid.note.label_map import load_label_map
from ensemble_deid.taggers.tbed import parse_templates

# How many blocks of a document are not run. A new one needs a reason in the document, and a change here.
NOT_RUN = {
    "README.md": 1,
    "docs/administrator.md": 1,
    "docs/new-language.md": 1,
    "docs/privacy-officer.md": 2,
    "docs/quick-start.md": 1,
    "docs/researcher.md": 5,
    "docs/results.md": 5,
    "docs/reviewer.md": 1,
    "research/reports/2026-11-other-members.md": 1,
    "research/reports/2026-11-paper-tables.md": 1,
    "research/reports/2026-11-quicker.md": 1,
    "research/reports/2026-11-rules-for-people.md": 2,
    "research/reports/2026-11-rules-map.md": 1,
    "research/reports/2026-11-systems-elsewhere.md": 1,
}
_PROGRAMS = ("ensemble-deid", "make", "pip", "python", "python3")


def is_shell(block: Block) -> bool:
    """Whether a block is a shell's: by its language or, indented, by the program that it begins with."""
    return block.language in SHELL or (block.language == "indented" and block.code.split()[0] in _PROGRAMS)


def test_the_blocks_that_are_not_run_are_counted() -> None:
    counted = Counter(str(block.document.relative_to(ROOT)) for block in ALL if block.not_run)
    assert dict(counted) == NOT_RUN


@pytest.mark.parametrize("block", [b for b in ALL if is_shell(b)], ids=lambda block: block.name)
def test_shell_blocks_are_commands(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each can be read by the program it is for; that also holds for those that take too long to run."""
    # Models are looked for while arguments are read; here they may have any name.
    monkeypatch.setattr(options, "find_model", lambda path: path)
    if "curl" in block.code:
        return
    parser = build_parser()
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = block.code.replace("\\\n", " ").splitlines()
    commands = block.commands or [line.strip() for line in lines if line.strip()]
    for command in commands:
        program, *words = shlex.split(command, comments=True)
        if (program, *words[:2]) in (("python", "-m", "research"), ("python", "-m", "tools")):
            parser_of(words[2:]).parse_args(words[2:])
        elif program == "ensemble-deid":
            parser.parse_args(words[: words.index(">")] if ">" in words else words)
        elif program == "make":
            assert words[0] in targets, command
        elif (program, *words[:1]) == ("pip", "install"):
            for extra in re.findall(r"ensemble_deid\[(\w+)\]", command):
                assert extra in setup["options.extras_require"], command
        elif program == "python" and words[0] == "-c":
            compile(words[1], block.name, "exec")
        else:
            assert block.not_run, f"nothing runs {command!r}: add a test, or a comment that says why not"


@pytest.mark.parametrize("block", [b for b in ALL if b.language not in (*SHELL, "indented")], ids=lambda b: b.name)
def test_other_blocks_are_what_they_say(block: Block, tmp_path: Path) -> None:
    match block.language:
        case "python":
            compile(block.code, block.name, "exec")
        case "json":
            check_json(block.code)
        case "toml":
            check_toml(block.code, tmp_path)
        case "csv":
            rows = list(csv.reader(block.code.splitlines(keepends=True)))
            assert {len(row) for row in rows} == {len(rows[0])}
        case "text":
            # What a program prints, or a file holds: the tests of that page compare it.
            pass
        case language:
            pytest.fail(f"nothing checks blocks in {language!r}")


def check_json(text: str) -> None:
    decoder = json.JSONDecoder()
    while text := text.strip():
        _, end = decoder.raw_decode(text)
        text = text[end:]


def check_toml(text: str, folder: Path) -> None:
    """Read a file as the program does that reads files of its kind."""
    table = tomllib.loads(text)
    path = folder / "shown.toml"
    path.write_text(text, encoding="utf-8")
    if "pattern" in table:
        named = text if "name" in table else f'name = "shown"\n{text}'
        patterns = parse_patterns(inline_word_lists(named, ROOT / "rules" / "patterns" / "shown.toml")).patterns
        assert [failed_examples(pattern) for pattern in patterns] == [[]] * len(patterns)
    elif "templates" in table:
        assert parse_templates(table["templates"])
    elif "columns" in table:
        assert RecordMap.parse(table, "shown.toml").columns
    elif "labels" in table:
        assert load_label_map(str(path))
    else:
        pytest.fail("a file of no known kind")
