"""The code blocks of the documents: where they stand, their language, and why one is not run, where it is not.

A block that no test can run has a comment above it, in the document, that says why: `<!-- not run: WHY -->`.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
REPORTS = (ROOT / "research" / "reports").glob("*.md")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "data" / "README.md", *REPORTS])
SHELL = ("sh", "console")
_NOT_RUN = re.compile(r"<!-- not run: (.{10,}) -->")
_ENSEMBLE = re.compile(r"^(ensemble-deid|python -m (research|tools)) ", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code; `line` is that of its first line in the document, and an indented block is `indented`."""

    document: Path
    line: int
    language: str
    code: str = field(repr=False)
    not_run: str | None = None

    @property
    def name(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """The commands of a shell block, each in one line, without prompts, comments and what is printed."""
        lines = self.code.replace("\\\n", " ").splitlines()
        if self.language == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        if self.language == "indented" and not _ENSEMBLE.search(self.code):
            return []
        return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def blocks(document: Path) -> list[Block]:
    """Return the blocks of a document in their order."""
    found = []
    reason = None
    for token in MarkdownIt().parse(document.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            language = "indented" if token.type == "code_block" else token.info.strip()
            line = token.map[0] + (2 if token.type == "fence" else 1)
            found.append(Block(document, line, language, token.content, reason))
        if token.type == "html_block":
            comment = _NOT_RUN.fullmatch(token.content.strip())
            reason = comment[1] if comment else None
        elif token.nesting <= 0:
            reason = None
    assert reason is None, f"{document.name}: a comment that belongs to no block"
    return found


ALL = [block for document in DOCUMENTS for block in blocks(document)]
