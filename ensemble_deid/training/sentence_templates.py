r"""A sentence as a syntax template and a PHI template, and the regexes of a syntax template (Murugadoss et al. 2021).

In the syntax template the words of PHI are replaced by their class: `W` (letters), `N` (digits) or `A` (both); all else
stands as it is, so `Signed: LEE, ANN on 03/04/2020` becomes `Signed: W, W on N/N/N`. The PHI template says which words
of it are PHI, and with which label. Words of PHI are runs of letters and digits, whatever the tokenizer makes of them.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import regex

from ensemble_deid.features.patterns import Pattern
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import overlapping_pairs
from ensemble_deid.note.span import Span
from ensemble_deid.note.tokens import tokenize

LETTERS, DIGITS, MIXED, LITERAL = "W", "N", "A", ""
# Blanks, tabs and the like; a line end is none of them.
_GAP = r"\h+"
_CLASSES = {LETTERS: r"[\p{L}\p{M}]+", DIGITS: r"\p{Nd}+", MIXED: r"[\p{L}\p{M}\p{Nd}]+"}
_EXAMPLES = {LETTERS: "Abcde", DIGITS: "12", MIXED: "Ab12"}
_FINAL = ".?!"
_START = rf"(?:^\h*|(?<=[{_FINAL}])\h+)"
_LINE_END = r"\h*\r?$"


@dataclass(frozen=True, slots=True, order=True)
class SentenceItem:
    """A word or sign of a syntax template: a class, or `LITERAL` with its text; `spaced` after white space."""

    kind: str
    text: str
    spaced: bool


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """PHI in a syntax template: the items `[first, after)`, and their label."""

    first: int
    after: int
    label: str


Syntax = tuple[SentenceItem, ...]
Slots = tuple[Slot, ...]


def templates_of(document: Document) -> Iterator[tuple[Syntax, Slots]]:
    """Yield the templates of every sentence with PHI.

    Left out are sentences of which a span crosses the end, cuts a word, touches another word or overlaps another span.
    """
    tokens = tokenize([document], split_lines=True)
    places = list(zip(tokens.start.tolist(), tokens.end.tolist(), strict=True))
    bounds = [*tokens.sentence_starts.tolist(), len(places)]
    spans = sorted(document.spans)
    bad = {span for pair in overlapping_pairs(spans) for span in pair}
    at = 0
    for low, high in pairwise(bounds):
        start, end = places[low][0], places[high - 1][1]
        inside: list[Span] = []
        while at < len(spans) and spans[at].start < end:
            inside.append(spans[at])
            at += 1
        whole = all(span.start >= start and span.end <= end and span not in bad for span in inside)
        if inside and inside[-1].end > end:
            at -= 1  # it spoils the next sentence, too
        if inside and whole and (found := _templates(document.text, places[low:high], inside)) is not None:
            yield found


def _templates(text: str, places: list[tuple[int, int]], spans: list[Span]) -> tuple[Syntax, Slots] | None:
    """Return the templates of one sentence, None where a span cuts a token."""
    items: list[SentenceItem] = []
    slots: list[Slot] = []
    k = 0
    for span in spans:
        while k < len(places) and places[k][0] < span.start:
            items.append(_literal(text, places, k))
            k += 1
        first, words = len(items), k
        while k < len(places) and places[k][0] < span.end:
            k += 1
        if words == k or places[words][0] != span.start or places[k - 1][1] != span.end:
            return None
        items += _masked(text, places, words, k)
        slots.append(Slot(first, len(items), span.label))
    items += [_literal(text, places, rest) for rest in range(k, len(places))]
    return None if any(map(_run_together, items, items[1:])) else (tuple(items), tuple(slots))


def _run_together(before: SentenceItem, item: SentenceItem) -> bool:
    """Whether a word of PHI and another word touch: where one ends and the other begins is then not told by classes."""
    if item.spaced or not (before.kind or item.kind):
        return False
    return all(part.kind or _class_of(part.text) for part in (before, item))


def _literal(text: str, places: list[tuple[int, int]], k: int) -> SentenceItem:
    start, end = places[k]
    return SentenceItem(LITERAL, text[start:end], k > 0 and places[k - 1][1] < start)


def _masked(text: str, places: list[tuple[int, int]], low: int, high: int) -> list[SentenceItem]:
    """Return the items of the tokens of one span; adjacent letters and digits are one word."""
    items: list[SentenceItem] = []
    joins = False
    for k in range(low, high):
        item = _literal(text, places, k)
        kind = _class_of(item.text)
        if kind == LITERAL:
            items.append(item)
        elif joins and not item.spaced:
            before = items[-1]
            items[-1] = SentenceItem(kind if kind == before.kind else MIXED, "", before.spaced)
        else:
            items.append(SentenceItem(kind, "", item.spaced))
        joins = kind != LITERAL
    return items


def _class_of(token: str) -> str:
    first = token[0]
    if first.isdecimal():
        return DIGITS
    return LETTERS if first.isalpha() or unicodedata.category(first).startswith("M") else LITERAL


def has_word(syntax: Syntax) -> bool:
    """Whether a template holds a word as it stands: without one it would fit any sentence of that many words."""
    return any(item.kind == LITERAL and item.text[0].isalpha() for item in syntax)


def patterns_of(syntax: Syntax, slots: Slots, *, confidence: float | None = None) -> tuple[Pattern, ...]:
    """Return a pattern for each PHI of a template; each matches the whole sentence, and its group is the PHI."""
    # The same digits in every harvest.
    stem = f"harvested-{hashlib.sha256(repr((syntax, slots)).encode()).hexdigest()[:8]}"
    names = [stem if len(slots) == 1 else f"{stem}-{number}" for number in range(1, len(slots) + 1)]
    return tuple(_pattern(syntax, slot, name, confidence) for name, slot in zip(names, slots, strict=True))


def _pattern(syntax: Syntax, slot: Slot, name: str, confidence: float | None) -> Pattern:
    parts, example = [_START], []
    for k, item in enumerate(syntax):
        if k and item.spaced:
            parts.append(_GAP)
            example.append(" ")
        if k == slot.first:
            parts.append("(?P<phi>")
            example.append("«")
        parts.append(re.escape(item.text) if item.kind == LITERAL else _CLASSES[item.kind])
        example.append(item.text if item.kind == LITERAL else _EXAMPLES[item.kind])
        if k == slot.after - 1:
            parts.append(")")
            example.append("»")
    last = syntax[-1]
    parts.append(r"(?!\S)" if last.kind == LITERAL and last.text in _FINAL else _LINE_END)
    compiled = regex.compile("".join(parts), regex.MULTILINE)
    return Pattern(
        name, slot.label, regex=compiled, group="phi", positive=("".join(example),), negative=(), confidence=confidence
    )


def in_words(syntax: Syntax) -> str:
    return "".join(f"{' ' if item.spaced else ''}{item.text or item.kind}" for item in syntax)
