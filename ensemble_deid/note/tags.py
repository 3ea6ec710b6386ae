"""The BIO tag scheme: spans of characters <-> one tag per token."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ensemble_deid.arrays import Int32s
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import drop_overlaps
from ensemble_deid.note.span import Span
from ensemble_deid.note.tokens import TokenTable

OUTSIDE = "O"
_Codes = TypeVar("_Codes", int, Int32s)


@dataclass(frozen=True, slots=True)
class TagScheme:
    """BIO over sorted labels. Tag codes: 0 is `O`, 2k + 1 is `B-` and 2k + 2 is `I-` of label k.

    `begin`, `inside` and `label_of` translate between tag codes and label indexes; each takes a number or an array.
    """

    labels: tuple[str, ...]

    @classmethod
    def from_labels(cls, labels: Iterable[str]) -> "TagScheme":
        """Make the scheme of a set of labels; their order does not matter."""
        return cls(tuple(sorted(set(labels))))

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags in code order."""
        return (OUTSIDE, *(f"{place}-{label}" for label in self.labels for place in "BI"))

    @staticmethod
    def begin(label: _Codes) -> _Codes:
        """Return the code of the `B-` tag of a label index."""
        return label * 2 + 1

    @staticmethod
    def inside(label: _Codes) -> _Codes:
        """Return the code of the `I-` tag of a label index."""
        return label * 2 + 2

    @staticmethod
    def label_of(tag: _Codes) -> _Codes:
        """Return the label index of a tag code, -1 for `O`."""
        return (tag - 1) // 2


@dataclass(frozen=True, slots=True, eq=False)
class EncodedTags:
    """Tag codes of a batch, int32 (n_tokens,), and how many spans could not be encoded exactly.

    `cut` spans began or ended inside a token and now cover all of it; `lost` spans overlapped another or had no token
    of their own.
    """

    codes: Int32s
    cut: int
    lost: int


def spans_to_tags(spans_by_document: Sequence[Sequence[Span]], tokens: TokenTable, scheme: TagScheme) -> EncodedTags:
    """Encode spans as tags; of overlapping spans the highest-scoring, then the longest, is kept.

    Raises ValueError for a label outside the scheme.
    """
    codes = np.zeros(len(tokens), dtype=np.int32)
    index = {label: k for k, label in enumerate(scheme.labels)}
    cut = lost = 0
    for d, spans in enumerate(spans_by_document):
        kept = drop_overlaps(spans)
        lost += len(spans) - len(kept)
        first, after = tokens.rows_in(d, [span.start for span in kept], [span.end for span in kept])
        taken = 0
        for span, low, high in zip(kept, first.tolist(), after.tolist(), strict=True):
            if span.label not in index:
                raise ValueError(f"label {span.label!r} is not in the scheme: {', '.join(scheme.labels)}")
            begin = max(taken, low)
            if begin >= high:
                lost += 1
                continue
            cut += int(tokens.start[begin] != span.start or tokens.end[high - 1] != span.end)
            codes[begin] = scheme.begin(index[span.label])
            codes[begin + 1 : high] = scheme.inside(index[span.label])
            taken = high
    return EncodedTags(codes, cut, lost)


@dataclass(frozen=True, slots=True)
class TagLoss:
    """How many of a corpus's `spans` annotated spans cannot be encoded exactly as tags.

    A tagger can find `cut` spans, which begin or end inside a token, only with different boundaries. It cannot find
    `lost` spans, which overlap another span or share their only token with one.
    """

    spans: int
    cut: int
    lost: int

    def __str__(self) -> str:
        return f"{self.cut:,} of {self.spans:,} spans begin or end inside a token, {self.lost:,} cannot be tagged"


def tag_loss(documents: Sequence[Document], tokens: TokenTable) -> TagLoss:
    """Count the documents' spans that are changed or lost when they are encoded as tags of `tokens`."""
    spans = [document.spans for document in documents]
    scheme = TagScheme.from_labels(span.label for found in spans for span in found)
    encoded = spans_to_tags(spans, tokens, scheme)
    return TagLoss(sum(map(len, spans)), encoded.cut, encoded.lost)


def entity_rows(codes: Int32s, tokens: TokenTable) -> tuple[Int32s, Int32s, Int32s]:
    """Return the first row, the row after the last, and the label index of every entity in a tag sequence.

    An `I-` that continues no entity of its label starts one, so PHI whose beginning a model missed is still removed.
    Entities may cross lines and sentences, but not documents.
    """
    label = TagScheme.label_of(codes)
    inside = codes > 0
    is_begin = inside & (codes == TagScheme.begin(label))
    continues = np.zeros(len(codes), dtype=bool)
    if len(codes):
        same_document = tokens.document[1:] == tokens.document[:-1]
        continues[1:] = inside[1:] & ~is_begin[1:] & inside[:-1] & (label[1:] == label[:-1]) & same_document
    first = np.flatnonzero(inside & ~continues).astype(np.int32)
    stops = np.ones(len(codes), dtype=bool)
    if len(codes):
        stops[:-1] = ~continues[1:]
    after = (np.flatnonzero(inside & stops) + 1).astype(np.int32)
    return first, after, label[first].astype(np.int32)


def tags_to_spans(codes: Int32s, tokens: TokenTable, scheme: TagScheme, *, source: str = "") -> list[tuple[Span, ...]]:
    """Decode tags into spans, one tuple per document."""
    spans: list[list[Span]] = [[] for _ in range(len(tokens.document_starts) - 1)]
    for low, high, k in zip(*(column.tolist() for column in entity_rows(codes, tokens)), strict=True):
        span = Span(int(tokens.start[low]), int(tokens.end[high - 1]), scheme.labels[k], 1.0, source)
        spans[int(tokens.document[low])].append(span)
    return [tuple(found) for found in spans]
