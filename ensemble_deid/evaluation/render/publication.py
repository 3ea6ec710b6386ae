"""What an experiment found, in every form that is asked for: text, Markdown, CSV, LaTeX, JSON and a picture."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.evaluation.render.tables import FORMS, Table

FILE_FORMS = (*FORMS, ".json", ".svg")
"""The forms of a single file, chosen by its name."""


@dataclass(frozen=True, slots=True)
class Publication:
    """One table, what JSON has of it, a picture as SVG, and the text for a terminal where it is not the Markdown one.

    `csv` is for programs: numbers as they are, not the table's cells.
    """

    table: Table
    content: Any = field(repr=False)
    picture: str = field(repr=False)
    text: str | None = field(default=None, repr=False)
    csv: str | None = field(default=None, repr=False)

    def render(self, form: str) -> str:
        """Return one of `FILE_FORMS`, or `.txt`. Raises EvaluationError for another."""
        check_form(form, (*FILE_FORMS, ".txt"))
        if form == ".json":
            return json.dumps(self.content, indent=1, ensure_ascii=False) + "\n"
        if form == ".svg":
            return self.picture
        if form == ".txt":
            return self.table.to_markdown() if self.text is None else self.text
        if form == ".csv" and self.csv is not None:
            return self.csv
        return self.table.render(form)

    def write(self, path: Path) -> None:
        """Write the form that the file's name asks for, whole or not at all."""
        write_text_atomically(path, self.render(path.suffix))

    def write_all(self, folder: Path, stem: str) -> None:
        """Write text, CSV, LaTeX, JSON and the picture as files of one name."""
        for path in published_files(folder, stem):
            self.write(path)


def published_files(folder: Path, stem: str) -> Iterator[Path]:
    """Yield the files that `Publication.write_all` writes."""
    for form in (".txt", ".csv", ".tex", ".json", ".svg"):
        yield folder / f"{stem}{form}"


def check_form(form: str, forms: tuple[str, ...] = FILE_FORMS) -> None:
    """Raise EvaluationError where a file's suffix is none of the forms; commands ask before they begin to work."""
    if form not in forms:
        raise EvaluationError(f"a table is written as {', '.join(forms)}, not as {form or 'a file without suffix'}")
