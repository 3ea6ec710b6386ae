"""A labelled range of characters in a document."""

from dataclasses import dataclass

SpanKey = tuple[int, int, str]
ENFORCED, VOTE = "enforced: ", "vote: "
"""How the source of a span begins that a site has found besides the model, for certain or as one opinion more."""


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

    @property
    def is_enforced(self) -> bool:
        """Whether the site wants the span removed whatever else is said of it."""
        return self.source.startswith(ENFORCED)

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
