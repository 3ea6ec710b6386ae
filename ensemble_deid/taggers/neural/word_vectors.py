"""Pretrained word vectors: the text files of word2vec, GloVe and fastText."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.errors import ConfigError

_DIGIT = re.compile(r"\d")
_HEADER = re.compile(r"[0-9]+ [0-9]+")


def zero_digits(word: str) -> str:
    """Return the word with every digit as 0, so that numbers of one form are one word."""
    return _DIGIT.sub("0", word)


def read_word_vectors(
    path: Path, *, dimension: int, limit: int, digits_to_zero: bool
) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """Return the first `limit` words of a file in lower case, and their vectors (words, dimension).

    A line is a word and its numbers, separated by blanks; word2vec and fastText begin with a line that has the number
    of words and of dimensions, GloVe does not. Of words that are the same in lower case (and, with `digits_to_zero`,
    but for their digits) the first is taken: files are sorted by frequency. Raises ConfigError, with the line, for a
    file that cannot be read or has vectors of another size.
    """
    words: dict[str, int] = {}
    rows: list[NDArray[np.float32]] = []
    for number, line in _lines(path):
        if len(words) == limit:
            break
        if number == 1 and _HEADER.fullmatch(line.rstrip()) and dimension > 1:
            continue
        parts = line.rstrip(" \r\n").rsplit(" ", dimension)
        vector = _vector(parts[1:])
        # Some words of GloVe hold blanks. In the first line a blank tells that vectors are longer.
        if len(parts) != dimension + 1 or vector is None or (not rows and " " in parts[0]):
            raise ConfigError(
                f"{path}:{number}: expected a word and {dimension} numbers (neural.word_dimension is {dimension})"
            )
        word = parts[0].lower()
        word = zero_digits(word) if digits_to_zero else word
        if word not in words:
            words[word] = len(words)
            rows.append(vector)
    if not rows:
        raise ConfigError(f"{path}: the file holds no word vectors")
    return tuple(words), np.stack(rows)


def _vector(parts: list[str]) -> NDArray[np.float32] | None:
    try:
        vector = np.array(parts, dtype=np.float32)
    except ValueError:
        return None
    return vector if np.isfinite(vector).all() else None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line that is not blank."""
    number = 0
    try:
        # Words may hold other signs that end a line for Python.
        with path.open(encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip(" \r\n"):
                    yield number, line
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}:{number + 1}: not UTF-8 hereabouts; vectors are read from text files only") from None
