"""Confidence in the spans of a pattern or rule: its precision on the training notes."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ensemble_deid.errors import ModelError
from ensemble_deid.note.span import Span
from ensemble_deid.parsing import strict_json


@dataclass(frozen=True, slots=True)
class SourceConfidence:
    """Source of a span (the name of a pattern or rule) -> (correct, total) in training."""

    counts: Mapping[str, tuple[int, int]]

    @classmethod
    def measured(cls, found: Iterable[Sequence[Span]], gold: Iterable[Sequence[Span]]) -> "SourceConfidence":
        """Count, for each source, its spans and those among them that match an annotation exactly."""
        correct: Counter[str] = Counter()
        total: Counter[str] = Counter()
        for spans, annotated in zip(found, gold, strict=True):
            keys = {span.key for span in annotated}
            for span in spans:
                total[span.source] += 1
                correct[span.source] += span.key in keys
        return cls({source: (correct[source], total[source]) for source in sorted(total)})

    def renamed(self, names: Mapping[str, str]) -> "SourceConfidence":
        """Return the counts of the sources in `names`, under their new names; others are left out."""
        return SourceConfidence({new: self.counts[old] for old, new in names.items() if old in self.counts})

    def filled(self, other: "SourceConfidence") -> "SourceConfidence":
        """Return these counts, and those of `other` for the sources that have none here."""
        counts = {**other.counts, **self.counts}
        return SourceConfidence({source: counts[source] for source in sorted(counts)})

    def score(self, source: str) -> float:
        """Return (correct + 1) / (total + 2), the precision with Laplace smoothing: one half for an unseen source."""
        correct, total = self.counts.get(source, (0, 0))
        return (correct + 1) / (total + 2)

    def scored(self, spans: Iterable[Span]) -> tuple[Span, ...]:
        return tuple(replace(span, score=self.score(span.source)) for span in spans)

    def to_json(self) -> str:
        return json.dumps(
            {source: list(counts) for source, counts in self.counts.items()}, ensure_ascii=False, indent=1
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> "SourceConfidence":
        """Read what `to_json` gave. Raises ModelError where it is damaged."""
        try:
            content = strict_json(text)
            counts = {str(source): (int(correct), int(total)) for source, (correct, total) in content.items()}
        except (ValueError, TypeError, AttributeError):
            raise ModelError("the table of confidences is damaged") from None
        if any(not 0 <= correct <= total for correct, total in counts.values()):
            raise ModelError("the table of confidences is damaged: more correct spans than spans")
        return cls(counts)
