"""Features of a token's position: sentence length, place in the line, field label before it, section."""

import itertools
import re
from collections.abc import Sequence

import numpy as np

from ensemble_deid.arrays import Int32s
from ensemble_deid.features.table import Column
from ensemble_deid.note.document import Document
from ensemble_deid.note.tokens import TokenTable, first_rows

# The structure of a note as its layout shows it: the label before a value, and the section of a line.


# A label starts at the start of a word, and the white space after a heading is matched possessively: otherwise the
# search would backtrack, in time quadratic in the length of a line without words.
_LABEL = re.compile(r"(?<![^\W\d_])[^\W\d_]+(?:[ ./]+[^\W\d_]+){0,3}[.º°#]?\s?:")
_HEADING = re.compile(r"([^\W\d_]+(?:[ /&,()-]+[^\W\d_]+){0,5})\s*+(:?)\s*+")
NONE = "-"


def line_labels(documents: Sequence[Document], tokens: TokenTable) -> tuple[list[str], list[str], list[str]]:
    """Return for every token the line's first label (`Name:`), the nearest label before it, and its section.

    All in lower case, `-` where there is none. A label is one to four words before a colon; a section starts at a line
    that contains only a heading (words, either followed by a colon or all in capitals).
    """
    prefixes: list[str] = []
    nearest: list[str] = []
    sections: list[str] = []
    bounds = tokens.document_starts.tolist()
    for document, low, high in zip(documents, bounds, bounds[1:], strict=False):
        section = NONE
        line_of = tokens.line[low:high]
        edges = [0, *(np.flatnonzero(line_of[1:] != line_of[:-1]) + 1).tolist(), high - low]
        for a, b in itertools.pairwise(edges):
            if a == b:
                continue
            begin, end = int(tokens.start[low + a]), int(tokens.end[low + b - 1])
            line = document.text[begin:end]
            heading = _HEADING.fullmatch(line)
            if heading and (heading.group(2) or line.isupper()):
                section = heading.group(1).lower()
            labels = [(begin + m.end(), m.group()[:-1].strip().lower()) for m in _LABEL.finditer(line)]
            first = labels[0][1] if labels else NONE
            current, k = NONE, 0
            for start in tokens.start[low + a : low + b].tolist():
                while k < len(labels) and labels[k][0] <= start:
                    current = labels[k][1]
                    k += 1
                nearest.append(current)
                prefixes.append(first if current != NONE else NONE)
            sections.extend([section] * (b - a))
    return prefixes, nearest, sections


_EDGES = (1, 2, 3, 4, 6, 9, 13, 20, 40)
_NAMES = ("0", "1", "2", "3", "4-5", "6-8", "9-12", "13-19", "20-39", "40+")


def _bucketed(numbers: Int32s) -> Column:
    """Return small numbers as they are, larger ones in increasingly wide buckets."""
    return Column(np.searchsorted(_EDGES, numbers, side="right").astype(np.int32), _NAMES)


def _rank_within(groups: Int32s) -> tuple[Int32s, Int32s]:
    """Return each row's rank in its run of equal values, and the run's length."""
    starts = first_rows(groups)
    sizes = np.diff(np.append(starts, len(groups))).astype(np.int32)
    rank = np.arange(len(groups), dtype=np.int32) - np.repeat(starts, sizes)
    return rank.astype(np.int32), np.repeat(sizes, sizes)


def position_columns(documents: Sequence[Document], tokens: TokenTable) -> dict[str, Column]:
    """Return the columns that depend on layout and position."""
    _, sentence_size = _rank_within(tokens.sentence)
    in_line, _ = _rank_within(tokens.line)
    starts_after_space = np.ones(len(tokens), dtype=np.int32)
    if len(tokens):
        same_line = tokens.line[1:] == tokens.line[:-1]
        starts_after_space[1:] = (tokens.start[1:] > tokens.end[:-1]) | ~same_line
    prefix, nearest, section = line_labels(documents, tokens)
    return {
        "position_in_line": _bucketed(in_line),
        "sentence_length": _bucketed(sentence_size),
        "spaced": Column(starts_after_space, ("glued", "spaced")),
        "line_prefix": Column.from_strings(prefix),
        "field": Column.from_strings(nearest),
        "section": Column.from_strings(section),
    }
