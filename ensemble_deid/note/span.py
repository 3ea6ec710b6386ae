"""A labelled range of characters in a document."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SpanKey = tuple[int, int, str]


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Characters `[start, end)` of a document's text, with a PHI label.

    `score` is a confidence in [0, 1]; `source` names what proposed the span (a pattern, a rule, a tagger).
    A span holds no text, so it can be logged. Raises ValueError when it is empty, negative or unlabelled.

    >>> from ensemble_deid import Span
    >>> span = Span(12, 18, "DOCTOR", 0.97)
    >>> "Seen by Dr. Strong."[span.start : span.end]
    'Strong'
    """

    start: int
    end: int
    label: str
    score: float = 1.0
    source: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(f"a span needs 0 <= start < end, not start={self.start} end={self.end}")
        if not self.label:
            raise ValueError(f"the span {self.start}-{self.end} has no label")
        if not 0.0 <= self.score <= 1.0:
            raise ValueError(f"the span {self.start}-{self.end} has a score outside [0, 1]: {self.score}")

    @property
    def key(self) -> SpanKey:
        """Position and label, which together identify an annotation."""
        return (self.start, self.end, self.label)

    def to_dict(self, *, text: str | None = None) -> dict[str, str | int | float]:
        """Return the span with the keys of a Hugging Face token-classification pipeline (aggregated).

        `text` is the text of the document; with it, the key `word` holds the covered text, which is PHI. Raises
        ValueError when the span reaches outside it.

        >>> from ensemble_deid import Span
        >>> Span(12, 18, "DOCTOR", 0.97).to_dict()
        {'entity_group': 'DOCTOR', 'score': 0.97, 'start': 12, 'end': 18}
        >>> Span(12, 18, "DOCTOR", 0.97).to_dict(text="Seen by Dr. Strong.")["word"]
        'Strong'
        """
        entry: dict[str, str | int | float] = {"entity_group": self.label, "score": self.score}
        if text is not None:
            if self.end > len(text):
                raise ValueError(f"the span {self.start}-{self.end} reaches outside a text of {len(text)} characters")
            entry["word"] = text[self.start : self.end]
        return {**entry, "start": self.start, "end": self.end}

    def overlaps(self, other: "Span") -> bool:
        """True when the two share at least one character."""
        return self.start < other.end and other.start < self.end


def drop_overlaps(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Keep, of overlapping spans, the highest-scoring, then the longest, then the first; return them in text order.

    The whole project resolves overlaps by this rule.
    """
    kept: list[Span] = []
    starts: list[int] = []
    for span in sorted(set(spans), key=lambda s: (-s.score, s.start - s.end, s.start, s.label, s.source)):
        # Kept spans are in text order and do not overlap, so only the two neighbours can conflict.
        place = bisect_left(starts, span.start)
        clear_before = place == 0 or kept[place - 1].end <= span.start
        if clear_before and (place == len(kept) or span.end <= starts[place]):
            kept.insert(place, span)
            starts.insert(place, span.start)
    return tuple(kept)


def overlapping_pairs(spans: Sequence[Span]) -> list[tuple[Span, Span]]:
    """Return the neighbouring pairs that overlap, in text order."""
    ordered = sorted(spans)
    pairs: list[tuple[Span, Span]] = []
    reach: Span | None = None
    for span in ordered:
        if reach is not None and span.start < reach.end:
            pairs.append((reach, span))
        if reach is None or span.end > reach.end:
            reach = span
    return pairs
