"""A table of text cells in the forms that papers and spreadsheets take: Markdown, CSV, LaTeX."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from ensemble_deid.evaluation.pairs import EvaluationError

FORMS = (".md", ".csv", ".tex")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": "$-$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


@dataclass(frozen=True, slots=True)
class Table:
    """Cells by row; `columns` are the heads, the first of which stands over the names of the rows.

    Raises EvaluationError where a row is longer or shorter than the heads.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise EvaluationError("a row of the table has another number of cells than the table has columns")

    def render(self, form: str) -> str:
        """Return the table in one of `FORMS`. Raises EvaluationError for another."""
        if form not in FORMS:
            raise EvaluationError(f"a table is written as {', '.join(FORMS)}, not as {form or 'a file without suffix'}")
        return {".md": self.to_markdown, ".csv": self.to_csv, ".tex": self.to_latex}[form]()

    def to_csv(self) -> str:
        """Return the heads and rows as CSV, without the caption."""
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows([self.columns, *self.rows])
        return stream.getvalue()

    def to_markdown(self) -> str:
        """Return the caption and a Markdown table; numbers stand on the right, as in LaTeX."""
        marks = ["---", *["--:"] * (len(self.columns) - 1)]
        lines = [_markdown(row) for row in (self.columns, marks, *self.rows)]
        return "\n".join([self.caption, "", *lines]) + "\n"

    def to_latex(self) -> str:
        """Return a `table` with rules of the package booktabs; what LaTeX reads as commands is escaped."""
        head, *rows = [" & ".join(map(_latex, row)) + r" \\" for row in (self.columns, *self.rows)]
        alignment = "l" + "r" * (len(self.columns) - 1)
        lines = [
            r"\begin{table}",
            rf"\caption{{{_latex(self.caption)}}}",
            rf"\begin{{tabular}}{{{alignment}}}",
            r"\toprule",
            head,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"


def _latex(cell: str) -> str:
    return "".join(_LATEX.get(character, character) for character in " ".join(cell.split()))


def _markdown(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
