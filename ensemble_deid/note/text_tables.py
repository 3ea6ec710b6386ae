"""Tables drawn in a note's text: bed boards, rotas, flow sheets, lines of CSV; a column's cells share a heading.

Three lines of three cells make a table; a line that has no cells may come between two of them. Tabs, bars, two or more
blanks, semicolons or commas separate cells. Between blanks, a column is where cells begin.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.note.document import Document
from ensemble_deid.note.tokens import TokenTable

_LEAST_LINES = 3
_AROUND = sorted(range(-3, 4), key=abs)
"""Characters by which the cells of a column may begin apart, the nearest first."""
_LONGEST_HEADING = 24
_LINE = re.compile(r"^[^\n]*$", re.M)
_RULE = re.compile(r"[^\S\n]*[^\w\s][^\w\n]*")
_GAPS = tuple(
    (re.compile(gap), least) for gap, least in ((r"\t", 2), (r"\|", 2), (r"(?<=\S)[^\S\n]{2,}+", 2), (";", 3), (",", 3))
)
_BLANKS = 2
"""The index in `_GAPS` of cells between blanks, whose columns the text's layout tells; others are counted."""


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell: its place in the note, its column, numbered over all tables, and the column's heading.

    The heading is in lower case, and empty where the table has none. That of a heading, which `is_heading`, is itself.
    """

    start: int
    end: int
    column: int
    heading: str
    is_heading: bool


def cells_of_tokens(documents: Sequence[Document], tokens: TokenTable) -> tuple[Int64s, list[TableCell]]:
    """Return the cell of each token, int64 (n_tokens,), as an index in the list of all cells, -1 outside tables.

    Each cell has a token, and its tokens are adjacent.
    """
    which = np.full(len(tokens), -1, dtype=np.int64)
    cells: list[TableCell] = []
    columns = before = 0
    for number, document in enumerate(documents):
        found = table_cells(document.text, first_column=columns)
        columns = max((cell.column + 1 for cell in found), default=columns)
        ranges = tokens.rows_in(number, [cell.start for cell in found], [cell.end for cell in found])
        for cell, first, after in zip(found, *(bounds.tolist() for bounds in ranges), strict=True):
            # A mark that joins the letter before it may begin a cell, but not a token.
            first, before = max(first, before), max(after, before)
            if first < after:
                which[first:after] = len(cells)
                cells.append(cell)
    return which, cells


def table_cells(text: str, *, first_column: int = 0) -> list[TableCell]:
    """Return the cells of a text's tables that have a word in them, in order; columns are numbered from the first."""
    found: list[TableCell] = []
    for rows in _tables(text):
        names, top = next(((named, row) for row in rows[:2] if (named := _headings(text, row))), ({}, None))
        keys = sorted({key for row in rows for key, _, _ in row})
        order = {key: column for column, key in enumerate(keys, first_column)}
        first_column += len(order)
        for row in rows:
            found += [TableCell(start, end, order[key], names.get(key, ""), row is top) for key, start, end in row]
    return found


_Place = tuple[int, int, int]
"""The column of a cell, by number or by where it begins in its line, and where the cell begins and ends in the note."""


def _tables(text: str) -> Iterator[list[list[_Place]]]:
    lines = [(match, *_separated(match[0])) for match in _LINE.finditer(text) if not _RULE.fullmatch(match[0])]
    kinds = [kind for _, kind, _ in lines]
    # A line between two of a table's does not end it, but an empty one does.
    bridged = {
        k
        for k, (match, kind, _) in enumerate(lines[1:-1], 1)
        if kinds[k - 1] == kinds[k + 1] >= 0 and kind != kinds[k - 1] and match[0].strip()
    }
    kept = [line for k, line in enumerate(lines) if k not in bridged]
    for (kind, _), group in groupby(kept, key=lambda line: (line[1], line[2] if line[1] > _BLANKS else 0)):
        run = list(group)
        if kind >= 0 and len(run) >= _LEAST_LINES:
            rows = [row for match, _, _ in run if (row := list(_cells(match, kind)))]
            yield _aligned(rows) if kind == _BLANKS else rows


def _separated(line: str) -> tuple[int, int]:
    """Return what separates the cells of a line, as an index in `_GAPS`, and how often; -1 where nothing does."""
    stripped = line.strip(" \r")
    for kind, (gap, least) in enumerate(_GAPS):
        if (count := len(gap.findall(stripped))) >= least:
            return kind, count
    return -1, 0


def _cells(match: re.Match[str], kind: int) -> Iterator[_Place]:
    gap, _ = _GAPS[kind]
    line, begin, number = match[0], 0, 0
    for low, high in [*(found.span() for found in gap.finditer(line)), (len(line), len(line))]:
        cell = line[begin:low]
        if re.search(r"\w", cell):
            indent, size = len(cell) - len(cell.lstrip()), len(cell.strip())
            start = match.start() + begin + indent
            yield begin + indent if kind == _BLANKS else number, start, start + size
        begin, number = high, number + 1


def _aligned(rows: list[list[_Place]]) -> list[list[_Place]]:
    """Return rows whose cells have the column nearest to where they begin: the places where most cells do."""
    counts = Counter(begin for row in rows for begin, _, _ in row)
    nearest: dict[int, int] = {}
    for begin, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if not any(begin + d in nearest for d in _AROUND):
            nearest[begin] = begin
    columns = set(nearest)
    nearest |= {begin: next(begin + d for d in _AROUND if begin + d in columns) for begin in counts}
    return [[(nearest[begin], start, end) for begin, start, end in row] for row in rows]


def _headings(text: str, row: list[_Place]) -> dict[int, str]:
    """Return a row's words by column; none where several cells have digits, as data have."""
    if sum(any(map(str.isdigit, text[start:end])) for _, start, end in row) > 1:
        return {}
    return {key: " ".join(re.findall(r"\w+", text[start:end].lower()))[:_LONGEST_HEADING] for key, start, end in row}
