"""How far the spans of a rule can be believed: the share of them that training shows to be right."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ensemble_deid.errors import ModelError
from ensemble_deid.text.span import Span


@dataclass(frozen=True, slots=True)
class SourceConfidence:
    """Source of a span (a pattern's or rule's name) -> (right, all) in training."""

    counts: Mapping[str, tuple[int, int]]

    @classmethod
    def measured(cls, found: Iterable[Sequence[Span]], gold: Iterable[Sequence[Span]]) -> "SourceConfidence":
        """Count, document by document, how many spans of each source are annotated exactly so."""
        right: Counter[str] = Counter()
        total: Counter[str] = Counter()
        for spans, annotated in zip(found, gold, strict=True):
            keys = {span.key for span in annotated}
            for span in spans:
                total[span.source] += 1
                right[span.source] += span.key in keys
        return cls({source: (right[source], total[source]) for source in sorted(total)})

    def of(self, source: str) -> float:
        """Return (right + 1) / (all + 2): a source never seen is believed by half (Laplace)."""
        right, total = self.counts.get(source, (0, 0))
        return (right + 1) / (total + 2)

    def scored(self, spans: Iterable[Span]) -> tuple[Span, ...]:
        """Return the spans with their sources' confidence as score."""
        return tuple(replace(span, score=self.of(span.source)) for span in spans)

    def to_json(self) -> str:
        """Return the counts as JSON text."""
        return json.dumps(
            {source: list(counts) for source, counts in self.counts.items()}, ensure_ascii=False, indent=1
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> "SourceConfidence":
        """Read what `to_json` gave. Raises ModelError."""
        try:
            content = json.loads(text)
            counts = {str(source): (int(right), int(total)) for source, (right, total) in content.items()}
        except (ValueError, TypeError, AttributeError):
            raise ModelError("the table of confidences is damaged") from None
        if any(not 0 <= right <= total for right, total in counts.values()):
            raise ModelError("the table of confidences is damaged: more right than all")
        return cls(counts)
