"""A note as patterns, learners and lists read it: one view of its text, with a map to the text itself.

A text can be written so that nothing finds its words: letters of NFD, full-width or look-alike letters, invisible
characters, entities and tags of HTML, RTF, encodings of mail, letters apart. `read` undoes what it finds evidence of;
an ordinary text is its own reading. What is found in a reading is mapped back: offsets are always the text's own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.note import characters, layout, markup, rtf
from ensemble_deid.note.document import Document
from ensemble_deid.note.markup import Change
from ensemble_deid.note.overlaps import join_overlaps
from ensemble_deid.note.span import Span

Places = Int64s
_Step = Callable[[str], Sequence[Change]]

REVERSED, NESTED, OBJECTS = "reversed", "nested deeper than is read", "pictures and objects"
COLUMNS, LOWER_CASE = "two columns", "lower case"
_ENCODINGS: tuple[tuple[str, _Step], ...] = (
    (OBJECTS, rtf.rtf_objects),
    (OBJECTS, markup.uuencoded),
    ("RTF", rtf.rtf),
    ("encoded words", markup.encoded_words),
    ("quoted-printable", markup.quoted_printable),
    ("base64", markup.base64_blocks),
    ("percent-encoding", markup.percent_encoding),
    ("HTML tags", markup.tags),
    ("HTML entities", markup.entities),
)
_CHARACTERS: tuple[tuple[str, _Step], ...] = (
    ("styled letters", characters.styled),
    ("digits of other scripts", characters.digits),
    ("blanks and hyphens", characters.alike),
    ("zero-width spaces", characters.fillers),
    ("marks and invisible characters", characters.marks),
    ("blanks and hyphens", characters.composed),
    ("marks and invisible characters", characters.overmarked),
    ("look-alikes", characters.confusables),
)
_LAYOUT: tuple[tuple[str, _Step], ...] = (
    ("letters apart", layout.letters_apart),
    ("written blanks", layout.written_blanks),
    ("words cut at line ends", layout.line_end_hyphens),
    ("dashes in numbers", layout.dashes),
    ("blanks in numbers", layout.blanks_in_numbers),
    ("misread characters", characters.misread),
    ("one word a line", layout.words_on_lines),
)
_CASE: tuple[tuple[str, _Step], ...] = ((LOWER_CASE, layout.lower_case),)
ROUNDS = 4
"""So many encodings inside each other are undone."""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """A text as it is read; character k of it stands for `[starts[k], ends[k])` of the original.

    `starts` and `ends`, int64 (characters,), are None where every character stands for the one in its place.
    `forms` has the forms that were found, each with the share of the text's characters that it concerns: those undone,
    and `capitals` and `nested deeper than is read`, which are not. `unread` is the number of characters
    that look encoded and could not be read: blocks of base64 and the like, pictures and objects in RTF, uuencoded
    files, all of a text whose encodings are nested too deep.
    """

    text: str = field(repr=False)
    starts: Places | None = None
    ends: Places | None = None
    forms: Mapping[str, float] = field(default_factory=dict)
    unread: int = 0
    in_order: bool = True

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return where `[start, end)`, which is not empty, stands in the original, with all that is between."""
        if self.starts is None or self.ends is None:
            return start, end
        if self.in_order:
            return int(self.starts[start]), int(self.ends[end - 1])
        return int(self.starts[start:end].min()), int(self.ends[start:end].max())

    def here(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the characters of the reading that stand for any of `[start, end)` of the original; None for none."""
        if self.starts is None or self.ends is None:
            return start, end
        if self.in_order:
            first = int(np.searchsorted(self.ends, start, "right"))
            after = int(np.searchsorted(self.starts, end, "left"))
            return (first, after) if first < after else None
        inside = np.flatnonzero((self.starts < end) & (self.ends > start))
        return (int(inside[0]), int(inside[-1]) + 1) if len(inside) else None

    def spans(self, originals: Iterable[Span]) -> list[Span | None]:
        """Return each span of the original where it is in the reading; None for what the reading leaves out."""
        places = ((span, self.here(span.start, span.end)) for span in originals)
        return [None if place is None else replace(span, start=place[0], end=place[1]) for span, place in places]

    def original_spans(self, spans: Iterable[Span]) -> tuple[Span, ...]:
        """Return spans of the reading as spans of the original; those that overlap there are joined.

        A span over two lines of a column becomes two spans, without the other column between them.
        """
        if self.starts is None:
            return tuple(spans)
        places = self._in_one if self.in_order else self._in_parts()
        moved = [replace(span, start=start, end=end) for span in spans for start, end in places(span.start, span.end)]
        return tuple(join_overlaps(moved, prefer=lambda span: span.score))

    def _in_one(self, start: int, end: int) -> list[tuple[int, int]]:
        return [self.original(start, end)]

    def _in_parts(self) -> Callable[[int, int], list[tuple[int, int]]]:
        """Return a function that finds the contiguous parts of the original that `[start, end)` comes from."""
        starts, ends = self.starts, self.ends
        if starts is None or ends is None:
            return self._in_one
        solid = np.flatnonzero([not character.isspace() for character in self.text])
        shown = solid[np.argsort(starts[solid], kind="stable")]

        def parts(start: int, end: int) -> list[tuple[int, int]]:
            inside = np.flatnonzero((start <= shown) & (shown < end))
            found = np.split(shown[inside], np.flatnonzero(np.diff(inside) > 1) + 1)
            if len(found) == 1:
                return self._in_one(start, end)
            return [(int(starts[part].min()), int(ends[part].max())) for part in found]

        return parts

    def document(self, original: Document) -> Document:
        """Return the document with this reading for its text, and its spans where they are in it."""
        if self.text == original.text:
            return original
        spans, *given = (
            tuple(span for span in self.spans(found) if span is not None)
            for found in (original.spans, *original.given.values())
        )
        return replace(original, text=self.text, spans=spans, given=dict(zip(original.given, given, strict=True)))


def read(text: str, *, usual_case: bool = True) -> Reading:
    """Return the reading of a text; without `usual_case`, lower case stays. Reading a reading changes nothing.

    Recent ones are kept: the model reads several notes together, then the gate, the finder of repeats and the replacer
    read them one after the other.
    """
    if _ordinary and _digest(text) in _ordinary:
        return Reading(text)
    read_kept = _read_long_kept if len(text) > _LONG else _read_kept
    reading, is_lower = read_kept(text, False)
    return read_kept(text, True)[0] if usual_case and is_lower else reading


_MOST_ORDINARY = 100_000
_ordinary: set[bytes] = set()
"""Digests of texts that are their own readings, from this process or another; 9 MB of them at most."""


def is_ordinary(text: str) -> bool:
    """Return whether a text is its own reading, and nothing is to be said of its form; false for long ones."""
    if len(text) > _LONG:
        # Few readings of long texts are kept, so this one would be made again.
        return False
    reading = read(text)
    return reading.text == text and reading.starts is None and not reading.forms and not reading.unread


def remember_ordinary(texts: Iterable[str]) -> None:
    """Let `read` know that texts are ordinary: those will not be read again, here or after another process did."""
    for text in texts:
        if len(_ordinary) >= _MOST_ORDINARY:
            _ordinary.clear()
        _ordinary.add(_digest(text))


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _read(text: str, usual_case: bool) -> tuple[Reading, bool]:
    """Return the reading, and whether it would be another one in the usual case."""
    view, is_lower = _View(text), False
    # Of the text itself alone, as the output leaves it out.
    view.apply([(rtf.DATA, rtf.rtf_data)])
    for _ in range(ROUNDS):
        before = view.text
        view.apply(_ENCODINGS)
        if not view.text.isascii():
            view.reverse()
            view.apply(_CHARACTERS)
        view.part()
        view.apply(_LAYOUT)
        if usual_case:
            view.apply(_CASE)
        else:
            is_lower = is_lower or bool(layout.lower_case(view.text))
        if view.text == before:
            return view.reading(unread=view.touched.get(OBJECTS, 0) + markup.unread_characters(view.text)), is_lower
    view.touched[NESTED] = view.size
    return view.reading(unread=view.size), is_lower


_LONG = 20_000
"""Characters from which on a note is long: of such notes fewer readings are kept."""
# Two for each note of a batch (`BATCH_SIZE`), of which lower case needs a second one, and some.
_read_kept, _read_long_kept = lru_cache(maxsize=72)(_read), lru_cache(maxsize=4)(_read)


def as_read(document: Document) -> Document:
    """Return a document as it is read, its spans with it; an ordinary document itself."""
    return read(document.text).document(document)


class _View:
    """A text on its way to its reading."""

    def __init__(self, text: str) -> None:
        self.size = len(text)
        self.text = text
        self.starts: Places | None = None
        self.ends: Places | None = None
        self.in_order = True
        self.touched: dict[str, int] = {}

    def reading(self, *, unread: int) -> Reading:
        seen = {**self.touched, **layout.unread_layouts(self.text)}
        forms = {name: min(1.0, count / self.size) for name, count in seen.items()}
        return Reading(self.text, self.starts, self.ends, forms, unread=unread, in_order=self.in_order)

    def apply(self, steps: Sequence[tuple[str, _Step]]) -> None:
        for name, step in steps:
            changes = step(self.text)
            if changes:
                self._change(changes)
                concerned = sum(end - start for start, end, _ in changes)
                self.touched[name] = self.touched.get(name, 0) + concerned

    def reverse(self) -> None:
        """Put what a right-to-left override shows reversed in the order in which it is read."""
        runs = characters.reversed_runs(self.text)
        if not runs:
            return
        order: list[Int64s] = []
        position = 0
        for start, end, after in runs:
            order += [np.arange(position, start - 1), np.arange(start, end)[::-1]]
            position = after
        order.append(np.arange(position, len(self.text)))
        places = np.concatenate(order)
        self._reorder("".join(map(self.text.__getitem__, places.tolist())), places, places + 1)
        self.touched[REVERSED] = sum(end - start for start, end, _ in runs)

    def part(self) -> None:
        """Put two columns one after the other."""
        pieces = layout.columns(self.text)
        if not pieces:
            return
        self.touched[COLUMNS] = len(self.text)
        low, high = [], []
        for start, end, value in pieces:
            same = end - start == len(value)
            low.append(np.arange(start, end) if same else np.full(len(value), start))
            high.append(low[-1] + 1 if same else np.full(len(value), end))
        self._reorder("".join(value for *_, value in pieces), np.concatenate(low), np.concatenate(high))

    def _reorder(self, text: str, low: Places, high: Places) -> None:
        """Replace this text by another, whose characters come from the ranges `[low, high)`."""
        self.starts, self.ends = self._at(low, high)
        self.text = text
        self.in_order = False

    def _change(self, changes: Sequence[Change]) -> None:
        parts: list[str] = []
        position = 0
        for start, end, value in changes:
            parts += (self.text[position:start], value)
            position = end
        parts.append(self.text[position:])
        if self.starts is not None or any(end - start != 1 or len(value) != 1 for start, end, value in changes):
            low = np.array([change[0] for change in changes])
            high = np.array([change[1] for change in changes])
            size = np.array([len(change[2]) for change in changes])
            self.starts, self.ends = self._at(*_sources(len(self.text), low, high, size))
        self.text = "".join(parts)

    def _at(self, low: Places, high: Places) -> tuple[Places, Places]:
        """Return where in the original the ranges `[low, high)` of this text begin and end."""
        if self.starts is None or self.ends is None:
            return low, high
        if self.in_order or not len(low):
            return self.starts[low], self.ends[high - 1]
        single = high - low == 1
        starts, ends = self.starts[low], self.ends[high - 1]
        for k in np.flatnonzero(~single).tolist():
            starts[k] = self.starts[low[k] : high[k]].min()
            ends[k] = self.ends[low[k] : high[k]].max()
        return starts, ends


def _sources(length: int, low: Places, high: Places, size: Places) -> tuple[Places, Places]:
    """Return for each character after some changes of a text where in it its source begins and ends."""
    same = high - low == size
    kept = low - np.concatenate([[0], high[:-1]])
    lengths = np.empty(2 * len(low) + 1, np.int64)
    lengths[0:-1:2], lengths[1::2], lengths[-1] = kept, size, length - high[-1]
    begins = np.empty(len(lengths), np.int64)
    begins[0:-1:2], begins[1::2], begins[-1] = np.concatenate([[0], high[:-1]]), low, high[-1]
    stays = np.empty(len(lengths), bool)
    stays[0::2], stays[1::2] = True, same
    segment = np.repeat(np.arange(len(lengths)), lengths)
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    ends = np.empty(len(lengths), np.int64)
    ends[0::2], ends[1::2] = 0, high
    at = begins[segment] + np.where(stays[segment], within, 0)
    return at, np.where(stays[segment], at + 1, ends[segment])
