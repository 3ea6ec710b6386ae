"""The feature columns of tokens: the word, its place in the note, and the rest of the note."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from ensemble_deid.arrays import Int32s
from ensemble_deid.errors import ConfigError, needs_extra
from ensemble_deid.features.table import Column
from ensemble_deid.note.document import Document
from ensemble_deid.note.text_tables import cells_of_tokens
from ensemble_deid.note.tokens import TokenTable, first_rows

AFFIX_LENGTHS = (2, 3, 4)


def shape(word: str) -> str:
    """Return the word with upper case as `X`, lower case as `x`, digits as `d`, the rest as itself."""
    return "".join(map(_shape_of_character, word))


@cache
def _shape_of_character(c: str) -> str:
    return "X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else "x" if c.isalpha() else c


def short_shape(word: str) -> str:
    """Return the shape with each run of the same character reduced to one."""
    return _without_runs(shape(word))


def _without_runs(shaped: str) -> str:
    return re.sub(r"(.)\1+", r"\1", shaped, flags=re.S)


def length_class(word: str) -> str:
    """Return the number of characters, `10+` from ten on."""
    return str(len(word)) if len(word) < 10 else "10+"


def digit_class(word: str) -> str:
    """Return `none` for a word; for a number `day` up to 31, `year` from 1900 to 2199, else how many digits it has."""
    if not word.isdecimal():
        return "none"
    if len(word) == 4 and word.isascii() and 1900 <= int(word) <= 2199:
        return "year"
    if len(word) <= 2 and int(word) <= 31:
        return "day"
    return f"digits{min(len(word), 10)}"


def case_class(word: str) -> str:
    """Return how the word is written: `upper`, `initial` (one capital), `title`, `lower`, `mixed` or `none`."""
    if not word.isalpha():
        return "none"
    if word.isupper():
        return "upper" if len(word) > 1 else "initial"
    if word.islower():
        return "lower"
    return "title" if word[0].isupper() and word[1:].islower() else "mixed"


def _prefix(length: int) -> Callable[[str], str]:
    return lambda word: word[:length].lower()


def _suffix(length: int) -> Callable[[str], str]:
    return lambda word: word[-length:].lower()


def word_columns(word: Column) -> dict[str, Column]:
    """Return the columns that are derived from the column `word`."""
    shaped = word.map_values(shape)
    columns = {
        "word": word,
        "lower": word.map_values(str.lower),
        "shape": shaped,
        "short_shape": shaped.map_values(_without_runs),
        "length": word.map_values(length_class),
        "digits": word.map_values(digit_class),
        "case": word.map_values(case_class),
    }
    for n in AFFIX_LENGTHS:
        columns[f"prefix{n}"] = word.map_values(_prefix(n))
        columns[f"suffix{n}"] = word.map_values(_suffix(n))
    return columns


# Optional stems of words by the Snowball stemmers (Porter 2001): the extra `nlp`.


Stem = Callable[[str], str]
"""A word -> its stem, in lower case."""


def load_stemmer(language: str) -> Stem:
    """Return the stemmer of a language by its English name, such as `english` or `spanish`.

    Raises ConfigError for a language that Snowball lacks, and where NLTK, which has the stemmers, is not installed.
    """
    with needs_extra("nlp", "text.stem"):
        # Imported here: it takes seconds, and few configurations need it.
        from nltk.stem.snowball import SnowballStemmer
    if language not in SnowballStemmer.languages:
        known = ", ".join(sorted(SnowballStemmer.languages))
        raise ConfigError(f"text.stem: there is no Snowball stemmer {language!r}; there are: {known}")
    stem: Stem = SnowballStemmer(language).stem
    return stem


# Sentence length, place in the line, field label before a token, section.


# A label starts at the start of a word, and the white space after a heading is matched possessively: otherwise the
# search would backtrack, in time quadratic in the length of a line without words.
_LABEL = re.compile(r"(?<![^\W\d_])[^\W\d_]+(?:[ ./]+[^\W\d_]+){0,3}[.º°#]?\s?:")
_HEADING = re.compile(r"([^\W\d_]+(?:[ /&,()-]+[^\W\d_]+){0,5})\s*+(:?)\s*+")
NONE = "-"


def line_labels(documents: Sequence[Document], tokens: TokenTable) -> tuple[list[str], list[str], list[str]]:
    """Return for every token the line's first label (`Name:`), the nearest label before it, and its section.

    All in lower case, `-` where there is none. A label is one to four words before a colon. Without one, the heading of
    a table's column is the nearest label. A section starts at a line that contains only a heading (words, either
    followed by a colon or all in capitals).
    """
    cell_of, cells = cells_of_tokens(documents, tokens)
    headings = [*(cell.heading or NONE for cell in cells), NONE]
    prefixes = [NONE] * len(tokens)
    nearest = [headings[cell] for cell in cell_of.tolist()]
    sections: list[str] = []
    starts, ends = tokens.start.tolist(), tokens.end.tolist()
    document, section = -1, NONE
    for low, high in pairwise([*first_rows(tokens.line).tolist(), len(tokens)]):
        if document != (document := int(tokens.document[low])):
            section = NONE
        line = documents[document].text[starts[low] : ends[high - 1]]
        # A label needs a colon; a heading needs a colon or capitals.
        labelled = ":" in line
        heading = _HEADING.fullmatch(line) if labelled or line.isupper() else None
        if heading and (heading.group(2) or line.isupper()):
            section = heading.group(1).lower()
        sections.extend([section] * (high - low))
        for number, match in enumerate(_LABEL.finditer(line) if labelled else ()):
            label = match.group()[:-1].strip().lower()
            after = bisect_left(starts, starts[low] + match.end(), low, high)
            nearest[after:high] = [label] * (high - after)
            if number == 0:
                prefixes[after:high] = [label] * (high - after)
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


# Features from the rest of the note: a name found in the header is likely to be a name further down.


_NAME_LIKE = ("title", "upper", "mixed")


def note_columns(lower: Column, case: Column, initial: Column, tokens: TokenTable) -> dict[str, Column]:
    """Return `in_note`: the label that the initial tagger gives the same word most often in the same note.

    Only for words of three or more letters that are capitalised like names; `-` for the others.
    """
    labels = ("-", *sorted({tag[2:] for tag in initial.values if tag != "O"}))
    index = {label: k for k, label in enumerate(labels)}
    label_of_tag = np.array([index[tag[2:]] if tag != "O" else 0 for tag in initial.values], dtype=np.int64)
    long_enough = np.array([len(w) >= 3 and w.isalpha() for w in lower.values] or [False])
    name_like = np.array([value in _NAME_LIKE for value in case.values] or [False])
    rows = np.flatnonzero(long_enough[lower.codes] & name_like[case.codes])
    codes = np.zeros(len(tokens), dtype=np.int32)
    if not len(rows) or len(labels) == 1:
        return {"in_note": Column(codes, labels)}
    pair = tokens.document[rows].astype(np.int64) * len(lower.values) + lower.codes[rows]
    _, group = np.unique(pair, return_inverse=True)
    label = label_of_tag[initial.codes[rows]]
    tagged = label > 0
    counts = np.zeros((int(group.max()) + 1, len(labels)), dtype=np.int64)
    np.add.at(counts, (group[tagged], label[tagged]), 1)
    codes[rows] = counts.argmax(axis=1)[group]
    return {"in_note": Column(codes, labels)}
