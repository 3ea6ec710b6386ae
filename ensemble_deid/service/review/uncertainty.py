"""Where a person's look is needed most: spans whose score is near the threshold, or on which the submodels disagree."""

import math
from collections.abc import Iterable

from ensemble_deid.service.review.records import Kind
from ensemble_deid.stacking.single_tokens import SOURCE
from ensemble_deid.text.span import Span

# Of what scores below the threshold, the part from here on is suggested: this share of the threshold.
_SUGGESTED_FROM = 0.5


def uncertainty(score: float, threshold: float) -> float:
    """Return 1 for a score at the threshold, falling to 0 towards the scores 0 and 1."""
    room = 1 - threshold if score >= threshold else threshold
    return 1.0 - (abs(score - threshold) / room if room else 0.0)


def note_uncertainty(spans: Iterable[Span], threshold: float) -> float:
    """Return the uncertainty of a note: that of its most uncertain span, 0 without spans."""
    return max((uncertainty(span.score, threshold) for span in spans), default=0.0)


def disagreement(span: Span, submodels: int) -> float:
    """Return the vote entropy of a span, in bits: how evenly the submodels are divided on it.

    A submodel votes for a span where it is part of its own answer (`Span.source`). 1 where half of them do, 0 where all
    or none do (query by committee; Dagan and Engelson 1995). A single token that no candidate covers is no submodel's.
    """
    votes = len([name for name in span.source.split("+") if name and name != SOURCE])
    if not 0 < votes < submodels:
        return 0.0
    share = votes / submodels
    return -(share * math.log2(share) + (1 - share) * math.log2(1 - share))


def note_disagreement(spans: Iterable[Span], submodels: int) -> float:
    """Return the disagreement on a note: that on its most disputed span, 0 without spans."""
    return max((disagreement(span, submodels) for span in spans), default=0.0)


def shown(spans: Iterable[Span], threshold: float) -> list[tuple[Span, Kind]]:
    """Return the spans that a reviewer is to see, found or suggested, of all those predicted at threshold 0."""
    kinds: list[tuple[Span, Kind]] = []
    for span in spans:
        if span.score >= threshold:
            kinds.append((span, "found"))
        elif span.score >= _SUGGESTED_FROM * threshold and span.score > 0:
            kinds.append((span, "suggested"))
    return kinds
