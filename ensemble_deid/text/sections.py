"""The structure of a note as its layout shows it: the label before a value, and the section of a line."""

import itertools
import re
from collections.abc import Sequence

import numpy as np

from ensemble_deid.text.document import Document
from ensemble_deid.text.normal_form import normal_form
from ensemble_deid.text.tokens import TokenTable

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
            form = normal_form(document.text[begin:end])
            line = document.text[begin:end] if form is None else form.text
            heading = _HEADING.fullmatch(line)
            if heading and (heading.group(2) or line.isupper()):
                section = heading.group(1).lower()
            labels = [
                (begin + (m.end() if form is None else form.original(*m.span())[1]), m.group()[:-1].strip().lower())
                for m in _LABEL.finditer(line)
            ]
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
