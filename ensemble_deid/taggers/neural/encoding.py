"""Encoding the feature table for the network: vocabularies learned once, each value looked up once per batch.

Pretrained word vectors come from the text files of word2vec, GloVe and fastText.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Flags, Int32s, Int64s
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.table import Column
from ensemble_deid.mapped import StringTable

PADDING, UNKNOWN = 0, 1
LONGEST_WORD = 24
"""Characters of a word that are read."""
_DIGIT = re.compile(r"\d")
_HEADER = re.compile(r"[0-9]+ [0-9]+")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Vocabulary sizes; index 0 is padding and 1 unknown in each."""

    words: int
    characters: int
    features: tuple[int, ...]
    tags: int
    vectors: int = 0
    """0: there are no pretrained word vectors."""


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """One batch of sequences.

    `words` and `form` int64 (batch, time); `form` points into `spelling` int64 (distinct words, characters);
    `features` int64 (batch, time, features); `mask` bool (batch, time), true on tokens, its first column all true.
    `vectors` int64 (batch, time) are the words' places among pretrained ones; None where there are none.
    """

    words: Int64s
    form: Int64s
    spelling: Int64s
    features: Int64s
    mask: Flags
    vectors: Int64s | None = None


@dataclass(frozen=True, slots=True, eq=False)
class WordIndexes(Mapping[str, int]):
    """Word -> index, from 2 on, without a Python string for each; `index` (words,) is that of each in the table."""

    table: StringTable = field(repr=False)
    index: Int32s = field(repr=False)

    @classmethod
    def of(cls, words: Sequence[str]) -> "WordIndexes":
        """Return the indexes of words in this order. Raises ValueError where one comes twice."""
        order = sorted(range(len(words)), key=words.__getitem__)
        table = StringTable.of([words[k] for k in order])
        if len(table) < len(words):
            raise ValueError("a word comes twice")
        return cls(table, np.array(order, dtype=np.int32) + np.int32(2))

    def of_column(self, column: Column) -> Int64s:
        """Return each token's index, int64 (n_tokens,), `UNKNOWN` for words outside."""
        # The last index is that of place -1.
        found: Int64s = np.append(self.index, UNKNOWN)[self.table.find(column.values)]
        return found[column.codes]

    def __getitem__(self, word: str) -> int:
        place = int(self.table.find([word])[0])
        if place < 0:
            raise KeyError(word)
        return int(self.index[place])

    def __iter__(self) -> Iterator[str]:
        return (self.table[place] for place in np.argsort(self.index).tolist())

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True, slots=True, eq=False)
class Vocabularies:
    """Value -> index, from 2 on, for words (lower-cased), characters and each feature.

    `vectors` has the words of pretrained vectors. With `zero_digits` words have 0 for each digit.
    """

    words: WordIndexes
    characters: dict[str, int]
    features: dict[str, dict[str, int]]
    vectors: WordIndexes
    zero_digits: bool = False

    def sizes(self, n_tags: int) -> Sizes:
        """Return the sizes of the network's tables."""
        features = tuple(len(values) + 2 for values in self.features.values())
        vectors = len(self.vectors) + 2 if self.vectors else 0
        return Sizes(len(self.words) + 2, len(self.characters) + 2, features, n_tags, vectors)

    def rows(self, name: str) -> tuple[str, ...]:
        """Return what each row of a table of embeddings stands for: `words`, `characters`, `vectors` or a feature."""
        tables = {"words": self.words, "characters": self.characters, "vectors": self.vectors, **self.features}
        # No note holds NUL, so no value is taken for one of these two.
        return ("\0padding", "\0unknown", *tables.get(name, {}))

    def to_json(self) -> dict[str, Any]:
        return {
            "words": list(self.words),
            "characters": list(self.characters),
            "features": {name: list(values) for name, values in self.features.items()},
            "vectors": list(self.vectors),
            "zero_digits": self.zero_digits,
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Vocabularies":
        """Read what `to_json` gave. Raises ModelError where it is damaged."""
        try:
            words, characters = WordIndexes.of(content["words"]), _indexed(content["characters"])
            features = {name: _indexed(v) for name, v in content["features"].items()}
            # Models made before there were pretrained vectors say nothing of them.
            vectors, zero = WordIndexes.of(content.get("vectors", ())), bool(content.get("zero_digits", False))
            return cls(words, characters, features, vectors, zero)
        except (KeyError, TypeError, AttributeError, ValueError):
            raise ModelError("the network's vocabulary is damaged") from None


def _indexed(values: Sequence[str]) -> dict[str, int]:
    return {str(value): index for index, value in enumerate(values, 2)}


def learn_vocabularies(
    batch: Batch,
    *,
    features: Sequence[str],
    min_word_count: int,
    also: Set[str] = frozenset(),
    start: Vocabularies | None = None,
    vectors: Sequence[str] = (),
    zero_digits: bool = False,
) -> Vocabularies:
    """Collect the values of a training batch, most frequent first, ties by code point; and the characters `also`.

    With `start` its values come first, so that what is known of them can be kept; new ones follow. `vectors` are the
    words of pretrained vectors.

    Raises ConfigError when a feature is not in the table.
    """
    missing = [name for name in features if name not in batch.table.names]
    if missing:
        known = ", ".join(sorted(batch.table.names))
        raise ConfigError(f"neural.features: there is no feature {missing[0]!r}; there are: {known}")
    lower = _lower(batch, zero_digits)
    counts = np.bincount(lower.codes, minlength=len(lower.values)).tolist()
    frequent = sorted((-n, word) for word, n in zip(lower.values, counts, strict=True) if n >= min_word_count)
    characters = {character for word in _used(batch, "word") for character in word} | also
    none = WordIndexes.of(())
    old = start or Vocabularies(none, {}, {}, none)
    return Vocabularies(
        WordIndexes.of([*old.words, *(word for _, word in frequent if word not in old.words)]),
        _indexed([*old.characters, *sorted(characters - set(old.characters))]),
        {
            name: _indexed([*known, *sorted(_used(batch, name) - set(known))])
            for name, known in ((name, old.features.get(name, {})) for name in features)
        },
        WordIndexes.of(vectors or list(old.vectors)),
        zero_digits,
    )


def _lower(batch: Batch, zeroed: bool) -> Column:
    """Return the words as the embeddings know them."""
    lower = batch.table["lower"]
    return lower.map_values(with_zeros) if zeroed else lower


def _used(batch: Batch, name: str) -> set[str]:
    """Return the values of a column that occur."""
    column = batch.table[name]
    return {column.values[code] for code in np.unique(column.codes).tolist()}


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A batch of documents as the network's indexes, one row a token.

    `words`, `form` int64 (n_tokens,); `spelling` int64 (distinct words, characters + 1); `features` int64
    (n_tokens, features); `rare` bool (n_tokens,) marks words seen once in training; `vectors` int64
    (n_tokens,) is None without pretrained vectors.
    """

    words: Int64s
    form: Int64s
    spelling: Int64s
    features: Int64s
    rare: Flags
    vectors: Int64s | None = None

    def inputs(self, rows: Int64s, lengths: Int64s, words: Int64s) -> Inputs:
        """Return sequences: `rows` (batch, time) of token rows, valid up to each length, and their `words`."""
        mask = np.arange(rows.shape[1])[None, :] < lengths[:, None]
        distinct, form = np.unique(self.form[rows], return_inverse=True)
        spelling = self.spelling[distinct]
        # One column of padding is kept, so that every word has a window of padding only: otherwise its vector would
        # depend on the longest word of the batch.
        spelling = spelling[:, : int((spelling > 0).sum(axis=1).max()) + 1]
        return Inputs(
            words=np.where(mask, words, PADDING),
            form=form.reshape(rows.shape),
            spelling=spelling,
            features=self.features[rows],
            mask=mask,
            vectors=None if self.vectors is None else np.where(mask, self.vectors[rows], PADDING),
        )


def encode(batch: Batch, vocabularies: Vocabularies) -> Encoded:
    """Look up every distinct value once, then index by code. Raises ModelError when a feature is not in the table."""
    table = batch.table
    missing = [name for name in vocabularies.features if name not in table.names]
    if missing:
        raise ModelError(f"the network asks for the feature {missing[0]!r}, which is not there")
    lower, word = _lower(batch, vocabularies.zero_digits), table["word"]
    words = [value[:LONGEST_WORD] for value in word.values] or [""]
    spelling = np.zeros((len(words), LONGEST_WORD + 1), dtype=np.int64)
    inside = np.arange(LONGEST_WORD + 1) < np.array([len(value) for value in words])[:, None]
    spelling[inside] = [vocabularies.characters.get(character, UNKNOWN) for character in "".join(words)]
    features = [table[name].lookup(values, unknown=UNKNOWN) for name, values in vocabularies.features.items()]
    counts = np.bincount(lower.codes, minlength=max(1, len(lower.values)))
    return Encoded(
        words=vocabularies.words.of_column(lower),
        form=word.codes.astype(np.int64),
        spelling=spelling,
        features=np.stack(features, axis=1).astype(np.int64) if features else np.zeros((len(word), 0), np.int64),
        rare=(counts == 1)[lower.codes],
        vectors=vocabularies.vectors.of_column(lower) if vocabularies.vectors else None,
    )


@dataclass(frozen=True, slots=True, eq=False)
class SequenceBatch:
    """Sequences of similar length: `rows` int64 (batch, time) of token rows (the last row repeated as padding)."""

    rows: Int64s
    lengths: Int64s


def bucket(
    starts: Int32s, n_tokens: int, *, batch_tokens: int, random: np.random.Generator | None = None
) -> Iterator[SequenceBatch]:
    """Yield the sequences in batches of about `batch_tokens` tokens, of similar length so that there is little padding.

    With `random`, sequences of the same length are shuffled between batches.
    """
    bounds = np.append(starts, n_tokens).astype(np.int64)
    lengths = np.diff(bounds)
    shuffled = np.arange(len(lengths)) if random is None else random.permutation(len(lengths))
    order = shuffled[np.argsort(lengths[shuffled], kind="stable")]
    i = 0
    while i < len(order):
        j = i + 1
        while j < len(order) and (j + 1 - i) * lengths[order[j]] <= batch_tokens:
            j += 1
        chosen = order[i:j]
        size = lengths[chosen]
        places = np.minimum(np.arange(size.max())[None, :], size[:, None] - 1)
        yield SequenceBatch(bounds[chosen][:, None] + places, size)
        i = j


def with_zeros(word: str) -> str:
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
        # Some words of GloVe hold blanks. In the first line a blank means that the vectors are longer than expected.
        if len(parts) != dimension + 1 or vector is None or (not rows and " " in parts[0]):
            raise ConfigError(
                f"{path}:{number}: expected a word and {dimension} numbers (neural.word_dimension is {dimension})"
            )
        word = parts[0].lower()
        word = with_zeros(word) if digits_to_zero else word
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
        # Words may hold a carriage return, at which Python would end the line.
        with path.open(encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip(" \r\n"):
                    yield number, line
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}:{number + 1}: not UTF-8 hereabouts; vectors are read from text files only") from None
