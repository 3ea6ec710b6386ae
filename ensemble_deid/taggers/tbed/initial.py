"""The tags that rules start from: those of the regex patterns, none at all, or each word's most frequent tag.

A tagger that is fitted and applied on the same notes leaves too few errors to learn from, so the frequent tags of
training notes come from other patients' notes (cross-fitting), as they will on new notes.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.errors import ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.table import Column
from ensemble_deid.note.tags import OUTSIDE, TagScheme
from ensemble_deid.parsing import strict_json

KINDS = ("regex", "none", "frequent")
_FOLDS = 5
_MIN_COUNT = 2


@dataclass(frozen=True, slots=True)
class InitialTagger:
    """How rules start: one of `KINDS`, and for `frequent` the tag of each lower-cased word that has one."""

    kind: str
    words: Mapping[str, str] = field(default_factory=dict, repr=False)

    def tag(self, batch: Batch) -> Column:
        """Return the initial tags of a batch."""
        if self.kind == "regex":
            return batch.table["initial"]
        if self.kind == "none":
            return Column(np.zeros(len(batch.tokens), dtype=np.int32), (OUTSIDE,))
        return batch.table["lower"].map_values(lambda word: self.words.get(word, OUTSIDE))

    def to_json(self) -> str:
        """Return the tagger as JSON text."""
        return json.dumps({"kind": self.kind, "words": dict(sorted(self.words.items()))}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> "InitialTagger":
        """Read what `to_json` gave. Raises ModelError."""
        try:
            content = strict_json(text)
            words = {str(word): str(tag) for word, tag in content["words"].items()}
            kind = content["kind"]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ModelError("the initial tagger of the rules is damaged") from None
        if kind not in KINDS:
            raise ModelError("the initial tagger of the rules is damaged: unknown kind")
        return cls(kind, words)


REGEX = InitialTagger("regex")


def fit_initial(kind: str, train: Batch, scheme: TagScheme) -> tuple[InitialTagger, Column]:
    """Return the tagger, and the tags of the training notes that rules are to be learned from."""
    if kind != "frequent":
        tagger = InitialTagger(kind)
        return tagger, tagger.tag(train)
    words = train.table["lower"].strings()
    tags = [scheme.tags[code] for code in train.gold(scheme).tolist()]
    fold = _folds(train)
    crossed = [OUTSIDE] * len(words)
    for number in range(_FOLDS):
        rows = np.flatnonzero(fold != number).tolist()
        known = _most_frequent([words[i] for i in rows], [tags[i] for i in rows])
        for i in np.flatnonzero(fold == number).tolist():
            crossed[i] = known.get(words[i], OUTSIDE)
    return InitialTagger(kind, _most_frequent(words, tags)), Column.from_strings(crossed)


def _folds(train: Batch) -> Int64s:
    """Return each token's fold; patients are dealt out in order of their names."""
    groups = sorted({document.group for document in train.documents})
    number = {group: k % _FOLDS for k, group in enumerate(groups)}
    by_document = np.array([number[document.group] for document in train.documents] or [0], dtype=np.int64)
    return by_document[train.tokens.document]


def _most_frequent(words: Sequence[str], tags: Sequence[str]) -> dict[str, str]:
    """Return each word's most frequent tag where that is not `O` and was seen twice; ties go to the first by name."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in zip(words, tags, strict=True):
        counts[word][tag] += 1
    best = {word: min(seen.items(), key=lambda item: (-item[1], item[0])) for word, seen in counts.items()}
    return {word: tag for word, (tag, n) in best.items() if tag != OUTSIDE and n >= _MIN_COUNT}
