"""A lexicon of the annotated phrases and words of the training notes.

It gives two columns: `lexicon`, the BIO tag of the longest known entity that covers the token, and `known_word`, the
most frequent label of the token's word, with its share. On the training notes both are computed without the note's own
patient, so that a learner sees them as it will on new patients.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import numpy as np

from ensemble_deid.arrays import Int32s
from ensemble_deid.errors import ModelError
from ensemble_deid.features.table import Column
from ensemble_deid.features.vocabulary import Vocabulary, is_class
from ensemble_deid.mapped import StringTable
from ensemble_deid.note.document import Document
from ensemble_deid.note.tags import OUTSIDE, TagScheme, entity_rows, spans_to_tags
from ensemble_deid.note.tokens import TokenTable
from ensemble_deid.parsing import strict_json
from ensemble_deid.word_tables import PhraseTable

Phrase = tuple[str, ...]
NONE = "-"
_Key = TypeVar("_Key")
_LONGEST = 12


@dataclass(frozen=True, slots=True, eq=False)
class LabelCounts(Mapping[str, Mapping[str, int]]):
    """String -> label -> number of patients, without a Python object for each string.

    `place` (strings,) says which of `counts` are those of a string.
    """

    strings: StringTable = field(repr=False)
    place: Int32s = field(repr=False)
    counts: tuple[Mapping[str, int], ...] = field(repr=False)

    @classmethod
    def of(cls, counts: Mapping[str, Mapping[str, int]]) -> "LabelCounts":
        """Return the table of some counts; equal ones are kept once."""
        strings = StringTable.of(counts)
        places: dict[tuple[tuple[str, int], ...], int] = {}
        place = [places.setdefault(tuple(sorted(counts[string].items())), len(places)) for string in strings]
        return cls(strings, np.array(place, dtype=np.int32), tuple(map(dict, places)))

    def to_json(self) -> dict[str, Any]:
        """Return the table for JSON: the strings, and for each the place of its counts."""
        return {"strings": list(self.strings), "place": self.place.tolist(), "counts": self.counts}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "LabelCounts":
        """Read what `to_json` gave. Raises ValueError, TypeError, KeyError or AttributeError where it is damaged."""
        given, counts = content["strings"], tuple(content["counts"])
        strings, place = StringTable.of(given), np.array(content["place"])
        types = {type(value) for one in counts for value in one.values()}
        in_order = sorted(given) == given and len(strings) == len(given)
        if not in_order or place.shape != (len(strings),) or not types <= {int} or not all(counts):
            raise ValueError("the counts do not fit the strings")
        if len(place) and (place.dtype.kind != "i" or place.min() < 0 or place.max() >= len(counts)):
            raise ValueError("the strings do not fit the counts")
        return cls(strings, place.astype(np.int32), counts)

    def of_each(self, strings: Sequence[str]) -> list[Mapping[str, int] | None]:
        """Return the counts of each string, None where the table lacks it."""
        return [None if k < 0 else self.counts[self.place[k]] for k in self.strings.find(strings).tolist()]

    def __getitem__(self, string: str) -> Mapping[str, int]:
        (found,) = self.of_each([string])
        if found is None:
            raise KeyError(string)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.strings)

    def __len__(self) -> int:
        return len(self.strings)


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """Phrase -> label -> number of patients, and lower-cased word -> label (or `O`) -> number of patients.

    A phrase is its words with a blank between. `vocabulary` is None unless the model is to be shareable: then words are
    those of the closed column `lower`.
    """

    phrases: LabelCounts = field(repr=False)
    words: LabelCounts = field(repr=False)
    vocabulary: Vocabulary | None = field(default=None, repr=False)
    starts: PhraseTable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", PhraseTable(self.phrases.strings, _LONGEST))

    def to_json(self) -> str:
        """Return the lexicon as JSON text, sorted."""
        content = {"phrases": self.phrases.to_json(), "words": self.words.to_json()}
        if self.vocabulary is not None:
            content["vocabulary"] = self.vocabulary.to_json()
        return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Lexicon":
        """Read what `to_json` wrote. Raises ModelError if it is damaged."""
        try:
            content: dict[str, Any] = strict_json(text)
            phrases, words = (LabelCounts.from_json(content[name]) for name in ("phrases", "words"))
            vocabulary = Vocabulary.from_json(content["vocabulary"]) if "vocabulary" in content else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"the lexicon is damaged: {type(error).__name__}") from None
        return cls(phrases, words, vocabulary)


def _mentions(
    documents: Sequence[Document], tokens: TokenTable, lower: Sequence[str], owners: Sequence[str]
) -> tuple[dict[str, set[tuple[Phrase, str]]], dict[str, set[tuple[str, str]]]]:
    """Return, for each owner (one a document), the (phrase, label) and (word, label or `O`) pairs that occur.

    Not those of changed copies, some of whose names are made up.
    """
    scheme = TagScheme.from_labels(span.label for document in documents for span in document.spans)
    codes = spans_to_tags([document.spans for document in documents], tokens, scheme).codes
    phrases: dict[str, set[tuple[Phrase, str]]] = defaultdict(set)
    words: dict[str, set[tuple[str, str]]] = defaultdict(set)
    first, after, label = entity_rows(codes, tokens)
    for low, high, k in zip(first.tolist(), after.tolist(), label.tolist(), strict=True):
        if high - low <= _LONGEST and not documents[tokens.document[low]].is_copy:
            phrases[owners[tokens.document[low]]].add((tuple(lower[low:high]), scheme.labels[k]))
    for row, k, owner in zip(range(len(codes)), scheme.label_of(codes).tolist(), tokens.document.tolist(), strict=True):
        if not documents[owner].is_copy:
            words[owners[owner]].add((lower[row], scheme.labels[k] if k >= 0 else OUTSIDE))
    return phrases, words


def learn_lexicon(
    documents: Sequence[Document],
    tokens: TokenTable,
    lower: Sequence[str],
    *,
    vocabulary: Vocabulary | None = None,
    min_patients: int = 1,
) -> Lexicon:
    """Count the patients for whom a phrase or word has each label; `lower` is every token's lower-cased word.

    Words never seen inside PHI are left out, as they carry no information. With a `vocabulary`, `lower` is closed, and
    what fewer than `min_patients` patients have is left out, too.
    """
    by_phrase: dict[Phrase, Counter[str]] = defaultdict(Counter)
    by_word: dict[str, Counter[str]] = defaultdict(Counter)
    phrases, words = _mentions(documents, tokens, lower, [document.group for document in documents])
    for group in sorted(words):
        for phrase, label in phrases.get(group, ()):
            by_phrase[phrase][label] += 1
        for word, label in words[group]:
            by_word[word][label] += 1
    if vocabulary is not None:
        patients = [document.patient for document in documents]
        frequent_phrases, frequent_words = _mentions(documents, tokens, lower, patients)
        _keep(by_phrase, _frequent(frequent_phrases, min_patients))
        _keep(by_word, _frequent(frequent_words, min_patients))
    known = {" ".join(p): counts for p, counts in by_phrase.items() if counts and not all(map(is_class, p))}
    inside = {word: counts for word, counts in by_word.items() if any(label != OUTSIDE for label in counts)}
    return Lexicon(LabelCounts.of(known), LabelCounts.of(inside), vocabulary)


def _frequent(pairs: Mapping[str, set[tuple[_Key, str]]], least: int) -> set[tuple[_Key, str]]:
    """Return the (key, label) pairs that at least so many owners have."""
    owners = Counter(pair for own in pairs.values() for pair in own)
    return {pair for pair, n in owners.items() if n >= least}


def _keep(counts: dict[_Key, Counter[str]], pairs: set[tuple[_Key, str]]) -> None:
    """Delete from counts by key and label what is not among the pairs."""
    for key, by_label in counts.items():
        for label in [label for label in by_label if (key, label) not in pairs]:
            del by_label[label]


def lexicon_columns(
    lexicon: Lexicon,
    documents: Sequence[Document],
    tokens: TokenTable,
    lower: Sequence[str],
    *,
    leave_own_patient_out: bool,
) -> dict[str, Column]:
    """Return the columns `lexicon` and `known_word` of a batch.

    With `leave_own_patient_out` the documents must be the annotated ones that the lexicon was learned from.
    """
    own_phrases: dict[str, set[tuple[Phrase, str]]] = {}
    own_words: dict[str, set[tuple[str, str]]] = {}
    owners = [""] * len(documents)
    if leave_own_patient_out:
        owners = [document.group for document in documents]
        own_phrases, own_words = _mentions(documents, tokens, lower, owners)
    owner = [owners[document] for document in tokens.document.tolist()]
    matches = list(lexicon.starts.matches(lower, tokens.document_starts.tolist()))
    words, phrases = list(dict.fromkeys(lower)), list({phrase for _, phrase in matches})
    of_word = dict(zip(words, lexicon.words.of_each(words), strict=True))
    of_phrase = dict(zip(phrases, lexicon.phrases.of_each([" ".join(phrase) for phrase in phrases]), strict=True))

    @cache
    def known_word(word: str, owner: str) -> str:
        counts = of_word[word]
        return NONE if counts is None else _known_word(_left(word, counts, own_words.get(owner, set())))

    @cache
    def label_of(phrase: Phrase, owner: str) -> str | None:
        left = _left(phrase, of_phrase[phrase] or {}, own_phrases.get(owner, set()))
        return _best(left)[0] if left else None

    tags = [OUTSIDE] * len(lower)
    after = 0
    for row, phrase in matches:
        if row >= after and (label := label_of(phrase, owner[row])):
            after = row + len(phrase)
            tags[row:after] = [f"B-{label}", *[f"I-{label}"] * (len(phrase) - 1)]
    known = map(known_word, lower, owner)
    return {"lexicon": Column.from_strings(tags), "known_word": Column.from_strings(known)}


def _left(key: _Key, counts: Mapping[str, int], own: set[tuple[_Key, str]]) -> dict[str, int]:
    """Return the counts by label without the owner's own; labels that nobody else has are left out."""
    left = {label: n - ((key, label) in own) for label, n in counts.items()}
    return {label: n for label, n in left.items() if n > 0}


def _best(counts: Mapping[str, int]) -> tuple[str, int]:
    """Return the most frequent key and its count; ties go to the first in alphabetical order."""
    return min(counts.items(), key=lambda item: (-item[1], item[0]))


def _known_word(counts: Mapping[str, int]) -> str:
    """Return `LABEL:share`, with the share of the word's main label in quarters, 0 to 4."""
    inside = {label: n for label, n in counts.items() if label != OUTSIDE}
    if not inside:
        return NONE
    label, n = _best(inside)
    return f"{label}:{4 * n // sum(counts.values())}"
