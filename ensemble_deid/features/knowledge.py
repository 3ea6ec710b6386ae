"""What public lists say of words: names, places, occupations, institutions, English and medical vocabulary.

A folder of `rules/knowledge` holds two kinds of tables, text in UTF-8, sorted. A word table (`*.words`) has a line
`word<TAB>bin`, the bin (1 to 9) being the word's frequency on a log scale. A phrase table (`*.phrases`) has a phrase a
line, its words separated by one blank. Words are lower-cased without accents, and cut as tokens are.

A learner that meets in training only names that are on some list trusts the lists too far: new names are often on none.
So a third of the entries, chosen by a checksum, is hidden while training (`hidden=True`).
"""

import hashlib
import operator
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ensemble_deid.errors import RuleError
from ensemble_deid.features.table import Column, FeatureTable
from ensemble_deid.note.folding import unaccented
from ensemble_deid.note.tokens import TokenTable
from ensemble_deid.parsing import read_text
from ensemble_deid.word_tables import PhraseTable, WordTable, mapped_lines, read_word_table

WORDS, PHRASES = ".words", ".phrases"
PREFIX = "knowledge_"
NAMES = ("given", "surname", "world_given", "world_surname")
MEDICINE = ("medical", "drug", "device", "abbreviation")
"""The word tables of names, and those of the words of medicine, as far as a folder has them."""
_LONGEST_PHRASE = 8
_BINS = "-123456789"
_TRAINING = "training:"
PLACES = ("-", "B", "I", "b", "i")
"""Values of a phrase column: outside, first and later token of a match, in lower case where its text begins so."""


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """The tables of one folder, `words` and `phrases` by name.

    `hashes` gives the SHA-256 of every file, by which a model recognises the tables that it was trained with; `own`
    holds the user's lists, which a model keeps.
    """

    folder: Path
    words: Mapping[str, WordTable] = field(repr=False)
    phrases: Mapping[str, PhraseTable] = field(repr=False)
    hashes: Mapping[str, str]
    own: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return what a model keeps: which tables, their hashes, and the user's own lists."""
        return {"name": self.folder.name, "hashes": dict(self.hashes), "own": self.own}


@lru_cache(maxsize=4)
def read_knowledge(
    folder: Path, own: tuple[tuple[str, tuple[str, ...]], ...] = (), *, files: frozenset[str] | None = None
) -> Knowledge:
    """Read a folder of tables; `own` adds lists of the user's (name, words and phrases), each a column of its own.

    With `files`, only the files of these names are read. Raises RuleError with the file and the line at fault.
    """
    words: dict[str, WordTable] = {}
    phrases: dict[str, PhraseTable] = {}
    hashes: dict[str, str] = {}
    for path in sorted(path for path in folder.glob("*") if files is None or path.name in files):
        if path.suffix == WORDS:
            words[path.stem], hashes[path.name] = read_word_table(path)
        elif path.suffix == PHRASES:
            content = mapped_lines(path)
            hashes[path.name] = hashlib.sha256(content).hexdigest()
            phrases[path.stem] = PhraseTable.of_lines(content, longest=_LONGEST_PHRASE)
    if not hashes:
        raise RuleError(f"{folder}: the folder holds no knowledge tables")
    for list_name, entries in own:
        if list_name in words or list_name in phrases:
            raise RuleError(f"text.word_lists: {list_name}: there is another list, or a table, of this name")
        folded = (" ".join(unaccented(word.lower()) for word in entry.split()) for entry in entries)
        phrases[list_name] = PhraseTable.of(folded, longest=_LONGEST_PHRASE)
    return Knowledge(folder, words, phrases, hashes, own)


def read_word_list(path: Path) -> tuple[str, ...]:
    """Read a list of the user's own, a word or phrase a line; blank lines and lines that begin with # are left out."""
    lines = read_text(path, RuleError).splitlines()
    entries = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    if not entries:
        raise RuleError(f"{path}: the list is empty")
    return entries


def is_hidden(entry: str) -> bool:
    """Return whether an entry is one of the third that training does not see."""
    return zlib.crc32(entry.encode("utf-8")) % 3 == 0


def knowledge_columns(knowledge: Knowledge, word: Column, tokens: TokenTable, *, hidden: bool) -> dict[str, Column]:
    """Return a column for each table: the bin of the token's word (`-` for none), or its place in a longest match."""
    folded = word.map_values(lambda value: unaccented(value.lower()))
    shown = [not (hidden and is_hidden(value)) for value in folded.values]
    columns: dict[str, Column] = {}
    for name, table in knowledge.words.items():
        bins = map(operator.mul, table.bins_of(folded.values), shown)
        columns[PREFIX + name] = folded.with_values(map(_BINS.__getitem__, bins))
    if knowledge.phrases:
        strings = folded.strings()
        lower = [value[:1].islower() for value in word.values]
        small = np.array(lower, dtype=bool)[word.codes] if lower else np.zeros(0, bool)
        bounds = tokens.document_starts.tolist()
        for name, phrases in knowledge.phrases.items():
            codes = _matches(phrases, strings, bounds, hidden=hidden)
            first = np.maximum.accumulate(np.where(codes == 1, np.arange(len(codes)), 0)) if len(codes) else codes
            codes = np.where((codes > 0) & small[first], codes + 2, codes) if len(codes) else codes
            columns[PREFIX + name] = Column(codes.astype(np.int32), PLACES)
    return columns


def training_columns(columns: Mapping[str, Column], hidden: Mapping[str, Column]) -> dict[str, Column]:
    """Return columns as they are for prediction, and beside each, under another name, as training sees it."""
    return {**columns, **{_TRAINING + name: column for name, column in hidden.items()}}


def as_training_sees(table: FeatureTable) -> FeatureTable:
    """Return the table with each column that has a version for training in that version."""
    twins = {name.removeprefix(_TRAINING): name for name in table.names if name.startswith(_TRAINING)}
    return table.with_columns({name: table[twin] for name, twin in twins.items()})


def _matches(
    phrases: PhraseTable, words: Sequence[str], bounds: Sequence[int], *, hidden: bool
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return 1 at the first and 2 at the later tokens of every longest match, else 0; a match stays in its document."""
    codes = np.zeros(len(words), dtype=np.int64)
    after = 0
    for row, phrase in phrases.matches(words, bounds):
        if row >= after and not (hidden and is_hidden(" ".join(phrase))):
            after = row + len(phrase)
            codes[row] = 1
            codes[row + 1 : after] = 2
    return codes
