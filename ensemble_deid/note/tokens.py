"""Tokens of a batch of documents with their exact offsets, as columns.

A token is a run of letters with their marks, a run of digits, or one other character; letters are split before an
upper-case letter after a lower-case one (`SamLee`), and before one that begins a word after capitals (`DRAlberto`)
(Zhao et al. 2020, "Preprocessing"). There is only white space between tokens.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ensemble_deid.arrays import Int32s, Int64s
from ensemble_deid.note.document import Document

# Where to split a line into sentences: never after an abbreviation, which would cut names in two.

ABBREVIATIONS = frozenset(
    # English titles, addresses, months, clinical shorthand
    "dr drs mr mrs ms prof rev sr jr st ave blvd rd ln apt ste hwy pkwy ct pl sq no nos vs etc inc ltd co corp dept "
    "univ hosp ctr med jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun "
    "pt pts hx dx rx tx sx fx approx ext tel fax fig vol ed eds al eg ie cf wt ht temp resp min max avg "
    # Spanish titles, addresses, clinical shorthand
    "sra srta d dra dres doña avda avd av c cl ctra pza plza pº urb bº edif esc izq izda dcha dpto núm num tlf "
    "tfno telf ud uds vd vds pág pag art cía cia hnos gral ntra sto sta mª fdo lic fco".split()
)


def sentence_breaks(text: str, starts: Int32s, ends: Int32s) -> Int32s:
    """Return 1 for each token that starts a sentence after sentence-final punctuation, (n_tokens,).

    A token starts a sentence when there is white space before it, it begins with an upper-case letter or a digit, and
    the token before it is `?`, `!`, or a `.` that ends a word of two or more letters which is no abbreviation,
    a number, or a closing bracket.
    """
    breaks = np.zeros(len(starts), dtype=np.int32)
    if len(starts) < 3:
        return breaks
    gap_before = np.flatnonzero(starts[2:] > ends[1:-1]) + 2
    for i in gap_before.tolist():
        mark = text[starts[i - 1] : ends[i - 1]]
        if mark not in ".?!" or not (text[starts[i]].isupper() or text[starts[i]].isdigit()):
            continue
        word = text[starts[i - 2] : ends[i - 2]]
        if mark == "." and not _may_end_sentence(word, starts[i - 1] == ends[i - 2]):
            continue
        breaks[i] = 1
    return breaks


def _may_end_sentence(word: str, adjacent: bool) -> bool:
    """True when a full stop after `word` can end a sentence."""
    if not adjacent:
        return True
    if word.isalpha():
        return len(word) > 1 and word.lower() not in ABBREVIATIONS
    return word.isdigit() or word in ")]}\"'%"


_SPACE, _LETTER, _DIGIT, _OTHER = 0, 1, 2, 3
_UPPER, _LOWER, _NEWLINE, _MARK = 4, 8, 16, 32
_KIND = 3
_NEWLINES = frozenset("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")


@dataclass(frozen=True, slots=True, eq=False)
class TokenTable:
    """Tokens of a batch in text order, one row per token, all columns int32 (n_tokens,).

    `start` and `end` are character offsets in the token's own document; `document` indexes the batch; `line` and
    `sentence` are numbered through the batch and never cross a document. `document_starts` is int32 (n_documents + 1,):
    the tokens of document d are the rows `document_starts[d]` to `document_starts[d + 1]`.
    """

    start: Int32s
    end: Int32s
    document: Int32s
    line: Int32s
    sentence: Int32s
    document_starts: Int32s

    def __len__(self) -> int:
        return len(self.start)

    def words(self, documents: Sequence[Document]) -> list[str]:
        words: list[str] = []
        starts, ends = self.start.tolist(), self.end.tolist()
        bounds = self.document_starts.tolist()
        for document, low, high in zip(documents, bounds, bounds[1:], strict=False):
            text = document.text
            words.extend([text[a:b] for a, b in zip(starts[low:high], ends[low:high], strict=True)])
        return words

    def rows_in(self, document: int, starts: ArrayLike, ends: ArrayLike) -> tuple[Int64s, Int64s]:
        """Return the first of a document's tokens with characters of each `[start, end)`, and that after the last."""
        low, high = self.document_starts[document : document + 2].tolist()
        first = np.searchsorted(self.end[low:high], np.asarray(starts, np.int64), side="right")
        after = np.searchsorted(self.start[low:high], np.asarray(ends, np.int64), side="left")
        return first + low, after + low

    @property
    def sentence_starts(self) -> Int32s:
        return first_rows(self.sentence)


def first_rows(column: Int32s) -> Int32s:
    """Return the rows at which a column's value changes, and the first row."""
    if not len(column):
        return np.zeros(0, np.int32)
    changed = np.flatnonzero(column[1:] != column[:-1]) + 1
    return np.concatenate([[0], changed]).astype(np.int32)


def _character_class(character: str) -> int:
    """Return the kind and flags of a character; a combining mark counts as a letter."""
    if character.isspace():
        return _SPACE | (_NEWLINE if character in _NEWLINES else 0)
    if character.isdecimal():
        return _DIGIT
    if character.isalpha():
        return _LETTER | (_UPPER if character.isupper() else 0) | (_LOWER if character.islower() else 0)
    if unicodedata.category(character).startswith("M"):
        return _LETTER | _MARK
    return _OTHER


def _classes(text: str) -> NDArray[np.uint8]:
    """Return the class of every character, (n_characters,); each distinct character is classified once."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    distinct, inverse = np.unique(points, return_inverse=True)
    table = np.array([_character_class(chr(point)) for point in distinct.tolist()], dtype=np.uint8)
    return table[inverse] if len(table) else np.zeros(0, np.uint8)


def _base_characters(classes: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Return the positions of all characters but combining marks after a letter."""
    joins = (classes & _MARK) > 0
    if not joins.any():
        return np.arange(len(classes))
    # The position of the last character that joins none, -1 before the first.
    base = np.maximum.accumulate(np.where(joins, -1, np.arange(len(classes))))
    return np.flatnonzero(~(joins & (base >= 0) & ((classes[base] & _KIND) == _LETTER)))


def _tokenize_text(text: str) -> tuple[Int32s, Int32s, Int32s]:
    """Return starts, ends and line numbers of one text's tokens."""
    classes = _classes(text)
    places = _base_characters(classes)
    classes = classes[places]
    kind = classes & _KIND
    begins = np.empty(len(kind) + 1, dtype=bool)
    begins[0] = begins[-1] = True
    begins[1:-1] = kind[1:] != kind[:-1]
    begins[:-1] |= kind == _OTHER
    upper, lower = (classes & _UPPER) > 0, (classes & _LOWER) > 0
    begins[1:-1] |= lower[:-1] & upper[1:]
    begins[1:-2] |= upper[:-2] & upper[1:-1] & lower[2:]
    edges = np.flatnonzero(begins)
    solid = kind[edges[:-1]] != _SPACE
    first, after = edges[:-1][solid], edges[1:][solid]
    _, lines = np.unique(np.cumsum((classes & _NEWLINE) > 0)[first], return_inverse=True)
    places = np.append(places, len(text))
    return places[first].astype(np.int32), places[after].astype(np.int32), lines.astype(np.int32)


def tokenize(documents: Sequence[Document], *, split_lines: bool = False) -> TokenTable:
    """Split a batch of documents into tokens, lines and sentences.

    A sentence is a line or, with `split_lines`, the part of a line up to sentence-final punctuation that does not end
    an abbreviation.
    """
    parts: list[tuple[Int32s, Int32s, Int32s, Int32s]] = []
    line_count = sentence_count = 0
    sizes = [0]
    for document in documents:
        starts, ends, lines = _tokenize_text(document.text)
        breaks = np.zeros(len(starts), dtype=np.int32)
        if len(starts):
            breaks[1:] = lines[1:] != lines[:-1]
            if split_lines:
                breaks |= sentence_breaks(document.text, starts, ends)
        sentences = np.cumsum(breaks).astype(np.int32)
        parts.append((starts, ends, lines + line_count, sentences + sentence_count))
        if len(starts):
            line_count += int(lines[-1]) + 1
            sentence_count += int(sentences[-1]) + 1
        sizes.append(len(starts))
    empty = np.zeros(0, np.int32)
    columns = [np.concatenate([empty, *(part[i] for part in parts)]).astype(np.int32) for i in range(4)]
    owners = np.repeat(np.arange(len(documents), dtype=np.int32), np.array(sizes[1:], np.int64))
    return TokenTable(
        start=columns[0],
        end=columns[1],
        document=owners,
        line=columns[2],
        sentence=columns[3],
        document_starts=np.cumsum(sizes).astype(np.int32),
    )
