"""The BIO tag scheme: spans of characters <-> one tag a token."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.text.span import Span, drop_overlaps
from ensemble_deid.text.tokens import TokenTable

Ints = NDArray[np.int32]
OUTSIDE = "O"


@dataclass(frozen=True, slots=True)
class TagScheme:
    """BIO over sorted labels. Tag codes: 0 is `O`, 2k + 1 is `B-` and 2k + 2 is `I-` of label k."""

    labels: tuple[str, ...]

    @classmethod
    def from_labels(cls, labels: Iterable[str]) -> "TagScheme":
        """Make the scheme of a set of labels; the order given does not matter."""
        return cls(tuple(sorted(set(labels))))

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags in code order."""
        return (OUTSIDE, *(f"{place}-{label}" for label in self.labels for place in "BI"))


@dataclass(frozen=True, slots=True, eq=False)
class EncodedTags:
    """Tag codes of a batch, int32 (n_tokens,), and how many spans the tokens or the scheme could not carry exactly.

    `cut` spans began or ended inside a token (they cover the whole token now); `lost` spans overlapped another,
    or had no token of their own.
    """

    codes: Ints
    cut: int
    lost: int


def spans_to_tags(spans_by_document: Sequence[Sequence[Span]], tokens: TokenTable, scheme: TagScheme) -> EncodedTags:
    """Write spans as tags. Of overlapping spans the highest-scoring, then the longest is kept.

    A span with a label outside the scheme raises ValueError.
    """
    codes = np.zeros(len(tokens), dtype=np.int32)
    index = {label: k for k, label in enumerate(scheme.labels)}
    cut = lost = 0
    for d, spans in enumerate(spans_by_document):
        low, high = int(tokens.document_starts[d]), int(tokens.document_starts[d + 1])
        starts, ends = tokens.start[low:high], tokens.end[low:high]
        kept = drop_overlaps(spans)
        lost += len(spans) - len(kept)
        taken = 0
        for span in kept:
            if span.label not in index:
                raise ValueError(f"label {span.label!r} is not in the scheme: {', '.join(scheme.labels)}")
            first = max(taken, int(np.searchsorted(ends, span.start, side="right")))
            last = int(np.searchsorted(starts, span.end, side="left"))
            if first >= last:
                lost += 1
                continue
            cut += int(starts[first] != span.start or ends[last - 1] != span.end)
            codes[low + first] = 2 * index[span.label] + 1
            codes[low + first + 1 : low + last] = 2 * index[span.label] + 2
            taken = last
    return EncodedTags(codes, cut, lost)


def entity_rows(codes: Ints, tokens: TokenTable) -> tuple[Ints, Ints, Ints]:
    """Return first row, row after the last, and label index of every entity that the tags spell.

    An `I-` that continues nothing of its own label opens an entity: what a model half saw is still hidden.
    Entities may run over lines and sentences, never over documents.
    """
    label = (codes - 1) // 2
    inside = codes > 0
    is_begin = inside & (codes % 2 == 1)
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


def tags_to_spans(
    codes: Ints,
    tokens: TokenTable,
    scheme: TagScheme,
    *,
    source: str = "",
    scores: NDArray[np.float64] | None = None,
) -> list[tuple[Span, ...]]:
    """Read the spans off the tags, one tuple a document; `scores` gives one confidence an entity, in order."""
    spans: list[list[Span]] = [[] for _ in range(len(tokens.document_starts) - 1)]
    first, after, label = entity_rows(codes, tokens)
    confidence = scores.tolist() if scores is not None else [1.0] * len(first)
    rows = zip(first.tolist(), after.tolist(), label.tolist(), confidence, strict=True)
    for low, high, k, score in rows:
        span = Span(int(tokens.start[low]), int(tokens.end[high - 1]), scheme.labels[k], score, source)
        spans[int(tokens.document[low])].append(span)
    return [tuple(found) for found in spans]
