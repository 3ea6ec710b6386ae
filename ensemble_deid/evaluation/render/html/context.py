"""A stretch of a note with its gold and system annotations marked."""

from collections.abc import Sequence
from itertools import pairwise

from ensemble_deid.evaluation.pairs import Pair
from ensemble_deid.evaluation.render.html.markup import Html, element, join
from ensemble_deid.text.span import Span

AROUND = 90
"""Characters of context shown on either side of an error."""


def snippet(pair: Pair, start: int, end: int) -> Html:
    """Return the text around `[start, end)`, cut where words begin and end, all annotations in it marked."""
    text = pair.gold.text
    first, last = _widen(text, start, end)
    children: list[Html | str] = ["… " if first else ""]
    children += marked(text, first, last, pair.gold.spans, pair.system.spans, focus=(start, end))
    children.append(" …" if last < len(text) else "")
    return element("div", *children, class_="context", dir="auto")


def marked(
    text: str, first: int, last: int, golds: Sequence[Span], systems: Sequence[Span], *, focus: tuple[int, int]
) -> list[Html]:
    """Return `text[first:last]` in pieces, each marked g (gold), s (system) and f (in focus) where it is.

    Annotations may overlap: the text is cut wherever one begins or ends.
    """
    near = [span for span in (*golds, *systems) if span.start < last and first < span.end]
    edges = {edge for span in near for edge in (span.start, span.end)} | set(focus)
    cuts = sorted({first, last, *(edge for edge in edges if first < edge < last)})
    pieces: list[Html] = []
    for start, end in pairwise(cuts):
        gold = [span for span in golds if span.start < end and start < span.end]
        system = [span for span in systems if span.start < end and start < span.end]
        if not gold and not system:
            pieces.append(join([text[start:end]]))
            continue
        names = "g" * bool(gold), "s" * bool(system), "f" * (focus[0] < end and start < focus[1])
        labels = [f"gold {span.label}" for span in gold] + [f"system {span.label}" for span in system]
        css = " ".join(name for name in names if name)
        pieces.append(element("mark", text[start:end], class_=css, title="; ".join(labels)))
    return pieces


def _widen(text: str, start: int, end: int) -> tuple[int, int]:
    first, last = max(0, start - AROUND), min(len(text), end + AROUND)
    while 0 < first < start and not text[first - 1].isspace():
        first += 1
    while end < last < len(text) and not text[last].isspace():
        last -= 1
    return first, last
