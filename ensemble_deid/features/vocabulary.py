"""The closed vocabulary of a shareable model: which words, affixes and headings its learners may tell apart.

Every column that quotes the text is closed before any learner sees it, in training and in prediction alike: a value
that is not in the vocabulary becomes its class, such as `<rare:Xx>` for a capitalised word. So no learner can learn, or
store, anything about a value outside the vocabulary but its class, its shape and what public lists say of it.

A value is in the vocabulary when at least k patients have it outside PHI; a heading, when at least k patients have it
and all of its words are in the vocabulary. What stands inside PHI is not counted, however public the word: if it were,
the one patient whose occupation is *florist* could be the k-th who has that word, and that it is there would tell so.
Only months, weekdays and punctuation count wherever they stand, since every corpus has them.

The class of a value says whether it is public: more frequent in English or medicine than as a name, a number of at most
two digits, a year. Lists of names and of places do not count: a name on such a list is public, but not that it is the
name of patients whose notes the model was trained on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ensemble_deid.arrays import Flags, Int32s, Int64s
from ensemble_deid.errors import ModelError
from ensemble_deid.features.columns import AFFIX_LENGTHS, digit_class, short_shape
from ensemble_deid.features.knowledge import MEDICINE, NAMES, PLACES, PREFIX
from ensemble_deid.features.table import Column, FeatureTable
from ensemble_deid.note.document import Document
from ensemble_deid.note.tags import TagScheme, spans_to_tags
from ensemble_deid.note.tokens import TokenTable

WORDS = ("word", "lower")
AFFIXES = tuple(f"{kind}{n}" for n in AFFIX_LENGTHS for kind in ("prefix", "suffix"))
HEADINGS = ("line_prefix", "field", "section")
NO_HEADING = "-"
RARE = "<rare>"
_PUBLIC_LISTS = ("english", *MEDICINE)
CALENDAR = frozenset(
    "january february march april may june july august september october november december "
    "jan feb mar apr jun jul aug sep sept oct nov dec "
    "monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun "
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre "
    "lunes martes miércoles jueves viernes sábado domingo".split()
)
_LONGEST_CLASS = 8


def is_class(value: str) -> bool:
    """Whether a value stands for all values outside the vocabulary of one class."""
    return value.startswith(("<rare", "<listed:"))


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Column -> the values that stay as they are."""

    values: Mapping[str, frozenset[str]] = field(repr=False)

    def close(self, table: FeatureTable) -> FeatureTable:
        """Return the table with every other value of the columns that quote the text replaced by its class."""
        word = table["word"]
        words, lower = self.values["word"], self.values["lower"]
        of_word: dict[str, str] = {}
        of_lower: dict[str, str] = {}
        for value, public in zip(word.values, _listed_words(table).tolist(), strict=True):
            named = f"<{'listed' if public else 'rare'}:{short_shape(value)[:_LONGEST_CLASS]}>"
            of_word[value] = value if value in words else named
            of_lower[value] = value.lower() if value.lower() in lower else named
        closed = {"word": word.map_values(of_word.__getitem__), "lower": word.map_values(of_lower.__getitem__)}
        for name in (*AFFIXES, *HEADINGS):
            kept = {value: value if value in self.values[name] else RARE for value in table[name].values}
            closed[name] = table[name].map_values(kept.__getitem__)
        return table.with_columns(closed)

    def allows(self, column: str, value: str) -> bool:
        """Whether a learner may have met a value in a column: one of the vocabulary, or a class."""
        return column not in self.values or value in self.values[column] or is_class(value)

    def to_json(self) -> dict[str, list[str]]:
        """Return the values by column, sorted."""
        return {name: sorted(values) for name, values in self.values.items()}

    @classmethod
    def from_json(cls, content: Any) -> "Vocabulary":
        """Read what `to_json` gave. Raises ModelError."""
        names = (*WORDS, *AFFIXES, *HEADINGS)
        if not isinstance(content, dict) or set(content) != set(names):
            raise ModelError("the vocabulary is damaged: it has other columns")
        if not all(isinstance(values, list) and all(isinstance(v, str) for v in values) for values in content.values()):
            raise ModelError("the vocabulary is damaged: a value is not a string")
        return cls({name: frozenset(content[name]) for name in names})


def learn_vocabulary(
    documents: Sequence[Document], tokens: TokenTable, table: FeatureTable, *, min_patients: int
) -> Vocabulary:
    """Collect the values that at least `min_patients` patients of annotated notes have, as the module says."""
    scheme = TagScheme.from_labels(span.label for document in documents for span in document.spans)
    outside = spans_to_tags([document.spans for document in documents], tokens, scheme).codes == 0
    everywhere = np.array([_is_of_every_corpus(value) for value in table["word"].values], dtype=bool)
    eligible = outside | everywhere[table["word"].codes]
    patient = patient_of_token(documents, tokens)
    kept = {name: _frequent(table[name], eligible, patient, min_patients) for name in (*WORDS, *AFFIXES)}
    for name in HEADINGS:
        # A heading stands elsewhere than the tokens that it is a feature of: its own words decide.
        frequent = _frequent(table[name], np.ones(len(tokens), dtype=bool), patient, min_patients)
        kept[name] = frozenset(v for v in frequent if all(w in kept["lower"] for w in _letters(v))) | {NO_HEADING}
    return Vocabulary(kept)


def patient_of_token(documents: Sequence[Document], tokens: TokenTable) -> Int64s:
    """Return a number for the patient of each token, int64 (n_tokens,)."""
    number: dict[str, int] = {}
    owner = [number.setdefault(document.patient, len(number)) for document in documents]
    return np.array(owner or [0], dtype=np.int64)[tokens.document]


def patients_by_value(codes: Int32s, patient: Int64s, *, n_values: int) -> Int64s:
    """Return for every value how many different patients have it, int64 (n_values,)."""
    n_patients = int(patient.max()) + 1 if len(patient) else 1
    pairs = np.unique(codes.astype(np.int64) * n_patients + patient)
    return np.bincount(pairs // n_patients, minlength=n_values)


def _frequent(column: Column, eligible: Flags, patient: Int64s, least: int) -> frozenset[str]:
    """Return the values that at least so many patients have among the eligible tokens."""
    counts = patients_by_value(column.codes[eligible], patient[eligible], n_values=len(column.values)).tolist()
    return frozenset(value for value, n in zip(column.values, counts, strict=True) if n >= least)


def _listed_words(table: FeatureTable) -> Flags:
    """Return which distinct values of the column `word` are public, bool (distinct words,)."""
    word = table["word"]
    always = np.array([_is_public(value) for value in word.values], dtype=bool)
    return always | (_level(table, _PUBLIC_LISTS) > _level(table, NAMES))


def _level(table: FeatureTable, lists: Sequence[str]) -> Int64s:
    """Return the highest frequency bin (0 for none) that any of the lists has for each distinct word."""
    word = table["word"]
    levels = np.zeros(len(word.values), dtype=np.int64)
    for name in lists:
        # A list of the user's may have the name of a table.
        if PREFIX + name in table.names and (column := table[PREFIX + name]).values != PLACES:
            bins = np.array([0 if value == "-" else int(value) for value in column.values] or [0])
            # The lists' columns depend on the word alone, so that any of its tokens tells.
            levels[word.codes] = np.maximum(levels[word.codes], bins[column.codes])
    return levels


def _is_public(word: str) -> bool:
    return _is_of_every_corpus(word) or digit_class(word) in ("day", "year", "digits2")


def _is_of_every_corpus(word: str) -> bool:
    """Whether a word is punctuation or of the calendar: that a corpus has it tells nothing of any patient."""
    return not any(map(str.isalnum, word)) or word.lower() in CALENDAR


def _letters(heading: str) -> list[str]:
    """Return the words of a heading, without what stands between them."""
    return "".join(c if c.isalpha() else " " for c in heading).split()
