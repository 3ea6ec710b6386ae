"""What an experiment found, in every form that is asked for: text, Markdown, CSV, LaTeX, JSON and a picture."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.evaluation.render.html.markup import Html, element

# Plain tables for a terminal.


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: first column to the left, the others to the right; nothing without rows."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        rest = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
        return "  ".join((cells[0].ljust(widths[0]), *rest)).rstrip()

    return [line(header), "  ".join("-" * width for width in widths), *(line(row) for row in rows)]


# A table of text cells in the forms that papers and spreadsheets take: Markdown, CSV, LaTeX.


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

    def to_text(self) -> str:
        """Return the heads and rows in columns, without the caption."""
        return "\n".join(table(self.columns, self.rows)) + "\n"

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


# A picture of a table of figures: a point for each row, with the interval where there is one, as SVG.


_ROW, _TOP, _LEFT, _SPAN, _RIGHT, _BOTTOM = 22, 14, 250, 340, 70, 44
_INK, _GRID = "#333", "#ddd"


@dataclass(frozen=True, slots=True)
class Point:
    """A row of the picture: a figure between 0 and 1 and the ends of its interval; None where undefined."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None


def draw_points(points: Sequence[Point], *, measure: str) -> str:
    """Return the SVG of the points, one below the other, over an axis from 0 to 1 that is named for the measure."""
    height = _TOP + _ROW * len(points) + _BOTTOM
    parts = _axis(_TOP + _ROW * len(points), measure)
    for number, point in enumerate(points):
        parts += _row(point, _TOP + _ROW * number + _ROW / 2)
    drawing = element(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_LEFT + _SPAN + _RIGHT} {height}",
        width=_LEFT + _SPAN + _RIGHT,
        font_family="sans-serif",
        font_size=12,
        role="img",
        aria_label=f"{measure} by row",
    )
    return f"{drawing}\n"


def _axis(bottom: float, measure: str) -> list[Html]:
    parts: list[Html] = []
    for step in range(6):
        x = _x(step / 5)
        parts.append(element("line", x1=x, x2=x, y1=_TOP, y2=bottom, stroke=_GRID))
        parts.append(element("text", f"{step / 5:.1f}", x=x, y=bottom + 16, text_anchor="middle", fill=_INK))
    parts.append(element("text", measure, x=_x(0.5), y=bottom + 34, text_anchor="middle", fill=_INK))
    return parts


def _row(point: Point, y: float) -> list[Html]:
    parts = [element("text", point.name, x=_LEFT - 8, y=y + 4, text_anchor="end", fill=_INK)]
    if point.value is None:
        return [*parts, element("text", "undefined", x=_LEFT + _SPAN + 8, y=y + 4, fill=_INK)]
    if point.low is not None and point.high is not None:
        parts.append(element("line", x1=_x(point.low), x2=_x(point.high), y1=y, y2=y, stroke=_INK, stroke_width=2))
    parts.append(element("circle", cx=_x(point.value), cy=y, r=4, fill="#1f5fa8"))
    return [*parts, element("text", f"{point.value:.4f}", x=_LEFT + _SPAN + 8, y=y + 4, fill=_INK)]


def _x(value: float) -> float:
    return round(_LEFT + _SPAN * min(max(value, 0.0), 1.0), 2)


FILE_FORMS = (*FORMS, ".json", ".svg")
"""The forms of a single file, chosen by its name."""


@dataclass(frozen=True, slots=True)
class Results:
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
    """Yield the files that `Results.write_all` writes."""
    for form in (".txt", ".csv", ".tex", ".json", ".svg"):
        yield folder / f"{stem}{form}"


def check_form(form: str, forms: tuple[str, ...] = FILE_FORMS) -> None:
    """Raise EvaluationError where a file's suffix is none of the forms; commands ask before they begin to work."""
    if form not in forms:
        raise EvaluationError(f"a table is written as {', '.join(forms)}, not as {form or 'a file without suffix'}")
