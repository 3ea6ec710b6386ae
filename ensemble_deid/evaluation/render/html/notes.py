"""Notes with the spans found in them highlighted, alone or beside what was made of them, as one page.

What Ahmed et al. 2021 show in table 6. The page is written note by note, so that its size is not that of the memory.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from ensemble_deid.atomic import open_atomically
from ensemble_deid.evaluation.render.html.markup import Html, element, join, phi_warning, static_head
from ensemble_deid.note.digits import four_digits
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import I2B2_CATEGORIES, category_of
from ensemble_deid.note.overlaps import drop_overlaps

_OTHER = "OTHER"
# Category -> background in light and in dark mode; the text keeps a contrast of at least 7 to 1 on each.
_COLOURS = {
    "NAME": ("#ffd6a5", "#5f3a00"),
    "PROFESSION": ("#e2d4c0", "#4a3b28"),
    "LOCATION": ("#c3e8c1", "#15471a"),
    "AGE": ("#fdf3a0", "#4d4500"),
    "DATE": ("#bfe0ff", "#0d3f6e"),
    "CONTACT": ("#e5d0ff", "#432a6b"),
    "ID": ("#ffc9d4", "#651a30"),
    _OTHER: ("#dde1e6", "#3a424c"),
}
_STYLE = """
:root{color-scheme:light dark;--bg:#fbfbfa;--card:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d5d9de;--warn:#b3261e}
body{font:16px/1.6 system-ui,sans-serif;max-width:60rem;margin:1rem auto;padding:0 1rem;background:var(--bg);
color:var(--ink);overflow-wrap:anywhere}
.warning{border:2px solid var(--warn);border-radius:.5rem;padding:.6rem 1rem}.warning strong{color:var(--warn)}
section{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.4rem 1rem;margin:1rem 0}
h2{font-size:1.1rem;margin:.3rem 0}.soft{color:var(--soft);font-size:.875rem}
.note{white-space:pre-wrap}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:0 1.5rem}.pair h3{margin:0;font-size:.9rem}
mark{color:inherit;border-radius:.25rem;padding:.05rem .2rem;border-bottom:2px solid currentColor}
mark[data-label]::after{content:" " attr(data-label);font-size:.65rem;font-weight:600;vertical-align:super}
""" + "".join(f"mark.{name.lower()}{{background:{light}}}\n" for name, (light, _) in _COLOURS.items())
_STYLE += (
    "@media (prefers-color-scheme:dark){:root{--bg:#14171b;--card:#1c2026;--ink:#e8eaed;--soft:#a6aeb8;--line:#39414b;"
    "--warn:#ff8a80}\n"
    + "".join(f"mark.{name.lower()}{{background:{dark}}}\n" for name, (_, dark) in _COLOURS.items())
    + "}\n@media print{section{break-inside:avoid-page}}\n"
)


_ABOUT = (
    "Highlighted is what the model finds; what it misses is not marked in any way. Hold the pointer over a span for "
    "its score."
)


@dataclass(slots=True)
class NotesPage:
    """A page that notes are added to, in their order. It contains PHI."""

    stream: BinaryIO = field(repr=False)
    labels: Counter[str] = field(default_factory=Counter)
    notes: int = 0
    withheld: list[str] = field(default_factory=list)

    def add(self, document: Document, after: Document | None = None) -> None:
        """Add a note, its spans highlighted by category, with label and score; beside it, the note `after` them."""
        self.notes += 1
        spans = drop_overlaps(document.spans)
        self.labels.update(span.label for span in spans)
        found = "1 span" if len(spans) == 1 else f"{len(spans)} spans"
        note = element("div", *_highlighted(document, scored=after is not None), class_="note", dir="auto")
        if after is not None:
            new = element("div", *_highlighted(after), class_="note", dir="auto")
            sides = [element("div", element("h3", name), text) for name, text in (("Before", note), ("After", new))]
            note = element("div", *sides, class_="pair")
        self._write(element("section", element("h2", document.id), element("p", found, class_="soft"), note))

    def withhold(self, problem: str) -> None:
        """Record that a note is not on the page, and why; `problem` quotes no text."""
        self.withheld.append(problem)

    def finish(self) -> None:
        rows = [f"{label} {n:,}" for label, n in sorted(self.labels.items(), key=lambda item: (-item[1], item[0]))]
        problems = [element("li", problem) for problem in self.withheld]
        parts = [element("p", f"Notes: {self.notes:,}. Spans by label: {', '.join(rows) or 'none'}.")]
        if problems:
            count = element("strong", f"Withheld, and not on this page: {len(problems):,}.")
            parts += [element("p", count), element("ul", *problems)]
        self._write(element("section", element("h2", "All notes"), *parts))

    def _write(self, html: Html) -> None:
        # Half a character, which a JSON escape can leave in a note, cannot be written to a file.
        self.stream.write(f"{html}\n".encode("utf-8", "replace"))


@contextmanager
def notes_page(path: Path, *, title: str, about: str = _ABOUT) -> Iterator[NotesPage]:
    """Give a page that becomes the file `path` when the block ends without an error; it loads nothing and runs nothing.

    Raises OSError, which names `path`.
    """
    with open_atomically(path) as stream:
        page = NotesPage(stream)
        legend = [element("mark", name.capitalize(), class_=name.lower()) for name in _COLOURS]
        stream.write(b'<!DOCTYPE html>\n<html lang="en">')
        page._write(static_head(title, style=_STYLE))
        stream.write(b"<body>")
        warning = phi_warning(" Keep it where the notes are kept.")
        page._write(join([warning, element("h1", title), element("p", about), element("p", join(legend, " "))]))
        yield page
        page.finish()
        stream.write(b"</body></html>\n")


def _highlighted(document: Document, *, scored: bool = False) -> Iterator[Html | str]:
    end = 0
    for span in drop_overlaps(document.spans):
        yield document.text[end : span.start]
        category = category_of(span.label)
        kind = category if category in I2B2_CATEGORIES and category in _COLOURS else _OTHER
        yield element(
            "mark",
            document.text[span.start : span.end],
            class_=kind.lower(),
            data_label=f"{span.label} {four_digits(span.score)}" if scored else span.label,
            title=f"{span.label}, score {four_digits(span.score)}",
        )
        end = span.end
    yield document.text[end:]
