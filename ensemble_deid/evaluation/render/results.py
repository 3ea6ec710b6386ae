"""What a command found, in every form: text, Markdown, CSV, LaTeX, JSON, HTML, a picture."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.evaluation.render.html.markup import Html, element, static_page

FILE_FORMS = (".md", ".csv", ".tex", ".json", ".html", ".svg")
"""The forms of a file, chosen by its name; `.txt` is what a terminal shows."""
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": "$-$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


@dataclass(frozen=True, slots=True)
class Table:
    """Cells by row; `columns` are the heads, the first of which is over the names of the rows.

    Raises EvaluationError where a row is longer or shorter than the heads.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise EvaluationError("a row of the table has another number of cells than the table has columns")

    def to_text(self) -> str:
        widths = [max(map(len, cells)) for cells in zip(self.columns, *self.rows, strict=True)]

        def line(cells: Sequence[str]) -> str:
            rest = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
            return "  ".join((cells[0].ljust(widths[0]), *rest)).rstrip()

        ruled = [line(self.columns), "  ".join("-" * width for width in widths), *map(line, self.rows)]
        return "\n".join([self.caption, *ruled] if self.caption else ruled)

    def to_csv(self) -> str:
        return csv_text([self.columns, *self.rows])

    def to_markdown(self) -> str:
        """Return the caption and a Markdown table, numbers to the right as in LaTeX."""
        marks = ["---", *["--:"] * (len(self.columns) - 1)]
        lines = [_markdown(row) for row in (self.columns, marks, *self.rows)]
        return "\n".join([*([self.caption, ""] if self.caption else []), *lines]) + "\n"

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

    def to_html(self) -> Html:
        head = element("tr", *(element("th", cell, scope="col") for cell in self.columns))
        body = [
            element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in rest))
            for first, *rest in self.rows
        ]
        return element("table", element("caption", self.caption), element("thead", head), element("tbody", *body))


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def _latex(cell: str) -> str:
    return "".join(_LATEX.get(character, character) for character in " ".join(cell.split()))


def _markdown(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


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


class Heading(str):
    """A line above what belongs together."""

    __slots__ = ()


Block = Sequence[str | Table]
"""Lines and tables that belong together."""
_STYLE = (
    "body{font:15px/1.5 sans-serif;margin:2em}table{border-collapse:collapse;margin:1em 0}caption{text-align:left}"
    "th,td{padding:.2em .7em;border-bottom:1px solid #ccc;text-align:right}tr>:first-child{text-align:left}"
)


@dataclass(frozen=True, slots=True)
class Results:
    """What a command found: `blocks` to read, `data` for JSON, a `picture` as SVG.

    `csv` is for programs, numbers as they are; without it CSV has the cells of the tables.
    """

    blocks: Sequence[Block] = field(repr=False)
    data: Any = field(repr=False)
    picture: str = field(repr=False)
    csv: str | None = field(default=None, repr=False)

    @property
    def tables(self) -> list[Table]:
        return [part for part in self._parts() if isinstance(part, Table)]

    def render(self, form: str) -> str:
        """Return one of `FILE_FORMS`, or `.txt`. Raises EvaluationError for another."""
        if form == ".txt":
            return render_blocks(self.blocks)
        if form == ".csv":
            return self.csv if self.csv is not None else "\n".join(table.to_csv() for table in self.tables)
        if form == ".json":
            return json.dumps(self.data, indent=1, ensure_ascii=False) + "\n"
        if form == ".svg":
            return self.picture
        if form == ".tex":
            return "\n".join(table.to_latex() for table in self.tables)
        if form == ".md":
            return "\n".join(part.to_markdown() if isinstance(part, Table) else f"{part}\n" for part in self._parts())
        if form == ".html":
            parts = (part.to_html() if isinstance(part, Table) else element("p", part) for part in self._parts())
            return static_page("Results", element("body", *parts), style=_STYLE)
        forms = ", ".join(FILE_FORMS)
        raise EvaluationError(f"results are written as {forms}, not as {form or 'a file without suffix'}")

    def _parts(self) -> Iterator[str | Table]:
        yield from (part for block in self.blocks for part in block)

    def write(self, path: Path) -> None:
        """Write the form that the file's name asks for, whole or not at all."""
        write_text_atomically(path, self.render(path.suffix))

    def write_all(self, folder: Path, stem: str) -> None:
        """Write text, CSV, LaTeX, JSON and the picture as files of one name."""
        for path in result_files(folder, stem):
            self.write(path)


def render_blocks(blocks: Iterable[Block]) -> str:
    texts = ("\n".join(p.to_text() if isinstance(p, Table) else p for p in block) for block in blocks)
    return "\n\n".join(text for text in texts if text) + "\n"


def result_files(folder: Path, stem: str) -> Iterator[Path]:
    for form in (".txt", ".csv", ".tex", ".json", ".svg"):
        yield folder / f"{stem}{form}"
