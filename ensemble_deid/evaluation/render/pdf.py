"""Headings, paragraphs and tables as a PDF of A4 pages, in the fonts that every reader has: the same bytes each time.

A caption, a heading and a table's head stay with what follows them. These fonts have Western European letters only:
another character is written as its number, such as `U+0141`.
"""

import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ensemble_deid.evaluation.render.results import Heading, Table

_WIDTH, _HEIGHT, _MARGIN = 595, 842, 48
_SIZE, _LEADING, _GAP = 9.0, 11.5, 6.0
_HEADING_SIZE = 12.0
# Of Helvetica, in thousandths of its size, for the characters from the blank to the tilde (Adobe's font metrics).
_WIDTHS = [
    int(width)
    for width in (
        "278 278 355 556 556 889 667 222 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 "
        "556 556 278 278 584 584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 "
        "667 778 722 667 611 722 667 944 667 667 611 278 278 278 469 556 222 556 556 500 556 556 278 556 "
        "556 222 222 500 222 833 556 556 556 556 333 500 278 556 500 722 500 500 500 334 260 334 584 "
    ).split()
]
_OTHER_WIDTH = 600
# Headings are bold, and up to a tenth wider.
_BOLD = 1.1


@dataclass(frozen=True, slots=True)
class _Line:
    """Pieces of text with their distances from the left margin; `together` keeps the line with the next one."""

    pieces: tuple[tuple[float, str], ...]
    size: float = _SIZE
    bold: bool = False
    before: float = 0.0
    together: bool = False


def pdf_of(title: str, parts: Sequence[str | Heading | Table]) -> bytes:
    """Return a PDF with a title, the parts one below the other, and numbered pages."""
    lines = [_Line(((0.0, title),), size=16, bold=True), *(line for part in parts for line in _lines(part))]
    return _file(title, _paged(lines))


def _lines(part: str | Heading | Table) -> Iterator[_Line]:
    if isinstance(part, Table):
        yield from _table(part)
    elif isinstance(part, Heading):
        yield from _paragraph(part, size=_HEADING_SIZE, bold=True, before=2 * _GAP)
    else:
        yield from _paragraph(part)


def _paragraph(text: str, *, size: float = _SIZE, bold: bool = False, before: float = _GAP) -> Iterator[_Line]:
    for number, line in enumerate(_wrapped(text, _WIDTH - 2 * _MARGIN, size * (_BOLD if bold else 1))):
        yield _Line(((0.0, line),), size=size, bold=bold, before=0.0 if number else before, together=bold)


def _table(table: Table) -> Iterator[_Line]:
    rows = [table.columns, *table.rows]
    widths = _column_widths(rows)
    if table.caption:
        yield from _paragraph(table.caption, bold=True)
    lefts = [sum(widths[:column]) for column in range(len(widths))]
    for number, row in enumerate(rows):
        if not number and not any(row):
            continue
        bold = number == 0
        scale = _SIZE * (_BOLD if bold else 1)
        cells = [_wrapped(cell, width - _GAP, scale) for cell, width in zip(row, widths, strict=True)]
        height = max(map(len, cells))
        for index in range(height):
            pieces = tuple((left, cell[index]) for left, cell in zip(lefts, cells, strict=True) if index < len(cell))
            yield _Line(pieces, bold=bold, before=0.0 if index else 1.5, together=bold or index < height - 1)


def _column_widths(rows: Sequence[Sequence[str]]) -> list[float]:
    """Return the width of each column: what its cells need, the widest made narrower until all fit."""
    widths = [max(_width(cell, _SIZE * _BOLD) for cell in cells) + _GAP for cells in zip(*rows, strict=True)]
    room = float(_WIDTH - 2 * _MARGIN)
    while sum(widths) > room:
        widest = max(range(len(widths)), key=widths.__getitem__)
        others = [width for column, width in enumerate(widths) if column != widest]
        excess = sum(widths) - room
        widths[widest] -= min(excess, max(widths[widest] - max(others, default=0.0), 1.0))
    return widths


def _wrapped(text: str, width: float, size: float) -> list[str]:
    """Return the lines of a text; a word that is too long is broken."""
    lines: list[str] = []
    line = ""
    for word in _written(text).split():
        for piece in _fitting(word, width, size):
            joined = f"{line} {piece}" if line else piece
            if line and _width(joined, size) > width:
                lines.append(line)
                line = piece
            else:
                line = joined
    return [*lines, line]


def _fitting(word: str, width: float, size: float) -> Sequence[str]:
    most = len(word)
    while most > 1 and any(_width(piece, size) > width for piece in textwrap.wrap(word, most)):
        most -= 1
    return textwrap.wrap(word, most)


def _written(text: str) -> str:
    """Return a text in characters that the fonts have."""
    return "".join(c if _encoded(c) else f"U+{ord(c):04X}" for c in unicodedata.normalize("NFC", text))


def _encoded(character: str) -> bytes:
    """Return a character as the fonts have it, nothing for one that they lack."""
    return character.encode("cp1252", "ignore") if character.isprintable() or character.isspace() else b""


def _width(text: str, size: float) -> float:
    total = 0
    for character in text:
        # A letter is as wide with an accent as without.
        base = unicodedata.normalize("NFD", character)[0]
        place = ord(base) - 32
        total += _WIDTHS[place] if 0 <= place < len(_WIDTHS) else _OTHER_WIDTH
    return total * size / 1000


_Page = list[tuple[float, _Line]]
"""Lines with their heights on the page."""


def _paged(lines: Sequence[_Line]) -> list[_Page]:
    """Divide the lines among pages: those that stay together are moved to the next page together."""
    pages: list[_Page] = [[]]
    y, start = float(_HEIGHT - _MARGIN), 0
    while start < len(lines):
        end = start
        while end < len(lines) - 1 and lines[end].together:
            end += 1
        block = lines[start : end + 1]
        if y - sum(map(_height, block)) < _MARGIN and pages[-1]:
            pages.append([])
            y = float(_HEIGHT - _MARGIN)
        for line in block:
            y -= _height(line)
            pages[-1].append((y, line))
        start = end + 1
    return pages


def _height(line: _Line) -> float:
    return line.before + line.size * _LEADING / _SIZE


def _file(title: str, pages: Sequence[_Page]) -> bytes:
    kids = " ".join(f"{6 + 2 * number} 0 R" for number in range(len(pages)))
    fonts = [
        f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>".encode()
        for name in ("Helvetica", "Helvetica-Bold")
    ]
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R /Lang (en) >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        *fonts,
        b"<< /Title (" + _escaped(title) + b") >>",
    ]
    for number, page in enumerate(pages, start=1):
        content = _content(page, f"{number} of {len(pages)}")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {_WIDTH} {_HEIGHT}] /Resources << /Font << /F1 3 0 R "
            f"/F2 4 0 R >> >> /Contents {len(objects) + 2} 0 R >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
    data = b"%PDF-1.4\n"
    offsets: list[int] = []
    for number, found in enumerate(objects, start=1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, found)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    head = b"xref\n0 %d\n0000000000 65535 f \n" % size
    return (
        data
        + head
        + table
        + b"trailer\n<< /Size %d /Root 1 0 R /Info 5 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(data))
    )


def _content(page: _Page, foot: str) -> bytes:
    drawn = [*page, (_MARGIN / 2, _Line(((0.0, foot),), size=8))]
    return b"\n".join(
        b"BT /F%d %.1f Tf %.2f %.2f Td (%s) Tj ET" % (1 + line.bold, line.size, _MARGIN + left, y, _escaped(text))
        for y, line in drawn
        for left, text in line.pieces
        if text
    )


def _escaped(text: str) -> bytes:
    encoded = b"".join(_encoded(character) for character in _written(text))
    return encoded.replace(b"\\", rb"\\").replace(b"(", rb"\(").replace(b")", rb"\)")
