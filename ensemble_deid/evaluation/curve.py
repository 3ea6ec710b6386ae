"""Precision and recall at every threshold on a system's scores.

A threshold t keeps the annotations whose score is at least t. It commutes with `drop_overlaps`, which lets the
higher-scoring of two overlapping annotations stand: a system's output may be resolved once, before any threshold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ensemble_deid.arrays import Floats, Int64s
from ensemble_deid.evaluation.pairs import EvaluationError, Pair, pair_documents
from ensemble_deid.evaluation.views import View, name_under, runs_in, token_keys, tokens_of, view_named
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import SpanKey

CURVE_VIEWS: tuple[str, ...] = ("strict", "category", "type-blind", "token", "token-category", "token-binary")
"""The views in which an annotation is right or wrong on its own, so that a threshold only takes annotations away."""
_BELOW, _FAR_BELOW = 1e-9, 1e-3


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """What a system does when it keeps the annotations with a score of at least `threshold`.

    `tokens` is the number of tokens in the notes, for the rates per 1000.
    """

    threshold: float
    counts: Counts
    tokens: int

    @property
    def fn_per_1000(self) -> float | None:
        """Missed annotations (tokens, in a token view) for every 1000 tokens of the notes."""
        return 1000 * self.counts.fn / self.tokens if self.tokens else None

    @property
    def fp_per_1000(self) -> float | None:
        return 1000 * self.counts.fp / self.tokens if self.tokens else None


@dataclass(frozen=True, slots=True)
class Curve:
    """Counts at each distinct score, from the highest threshold to the lowest; `gold` is TP + FN throughout."""

    view: str
    thresholds: Floats
    tp: Int64s
    fp: Int64s
    gold: int
    tokens: int

    def __len__(self) -> int:
        return len(self.thresholds)

    def point(self, index: int) -> OperatingPoint:
        tp, fp = int(self.tp[index]), int(self.fp[index])
        return OperatingPoint(float(self.thresholds[index]), Counts(tp, fp, self.gold - tp), self.tokens)

    def at(self, threshold: float) -> OperatingPoint:
        kept = int(np.searchsorted(-self.thresholds, -threshold, side="right"))
        if not kept:
            return OperatingPoint(threshold, Counts(0, 0, self.gold), self.tokens)
        return replace(self.point(kept - 1), threshold=threshold)


def trace_curve(gold: Sequence[Document], system: Sequence[Document], *, view: str = "token-binary") -> Curve:
    """Return precision and recall at every threshold; an annotation given several times counts with its highest score.

    Raises EvaluationError when the documents do not match or the view is not one of `CURVE_VIEWS`.
    """
    chosen = view_named(view)
    if view not in CURVE_VIEWS:
        raise EvaluationError(f"the view {view!r} has no curve; those that have: {', '.join(CURVE_VIEWS)}")
    pairs = pair_documents(gold, system)
    scores: list[float] = []
    right: list[bool] = []
    total = 0
    for pair in pairs:
        golds, scored = sides_with_scores(pair, chosen)
        total += len(golds)
        scores.extend(scored.values())
        right.extend(key in golds for key in scored)
    tokens = sum(len(tokens_of(pair.gold.text)) for pair in pairs)
    order = np.argsort(-np.array(scores), kind="stable")
    ordered = np.array(scores)[order]
    # The last place of each distinct score: all annotations of one score are kept or dropped together.
    last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], [True] * (len(ordered) > 0)))
    tp = np.cumsum(np.array(right, dtype=bool)[order], dtype=np.int64)[last]
    return Curve(view, thresholds=ordered[last], tp=tp, fp=last + 1 - tp, gold=total, tokens=tokens)


def spread(length: int, most: int) -> list[int]:
    """Return at most `most` (two or more) of the indexes 0 to length - 1, evenly spread, with both ends."""
    if length <= most:
        return list(range(length))
    return sorted({round(step * (length - 1) / (most - 1)) for step in range(most)})


def just_below(score: float, *, lower: float | None = None) -> float:
    """Return a threshold below a score that a threshold was chosen to keep, and above the next lower one.

    Another processor sums in another order, which changes the last digits of a score (some 1e-12 of it): at the score
    itself, that annotation could be lost. Numpy in the place of the compiled core, and the rounded weights of a compact
    model, change more digits. So where the next lower score is known, the threshold is midway to it, at most a
    thousandth below the score.
    """
    clear = score if lower is None else max(score * (1 - _FAR_BELOW), (score + lower) / 2)
    return clear * (1 - _BELOW)


def next_lower(curve: Curve, score: float) -> float:
    """Return the next score below one of a whole curve's, 0 where there is none."""
    return float(curve.thresholds[curve.thresholds < score].max(initial=0.0))


def has_scores(system: Sequence[Document]) -> bool:
    """True where the annotations do not all carry the same score: only then does a threshold have an effect."""
    return len({span.score for document in system for span in document.spans}) > 1


def keep_above(documents: Sequence[Document], threshold: float) -> tuple[Document, ...]:
    return tuple(document.with_spans(s for s in document.spans if s.score >= threshold) for document in documents)


def sides_with_scores(pair: Pair, view: View) -> tuple[set[SpanKey], Mapping[SpanKey, float]]:
    """Return what a view counts of gold, and of the system with the highest score of each."""
    keys = token_keys(pair.gold) if view.unit == "token" else {span.key for span in pair.gold.spans}
    golds = {(start, end, name_under(view.naming, label)) for start, end, label in keys}
    scored: dict[SpanKey, float] = {}
    for span in pair.system.spans:
        whole = [(span.start, span.end)]
        for start, end in runs_in(pair.system.text, span.start, span.end) if view.unit == "token" else whole:
            key = (start, end, name_under(view.naming, span.label))
            scored[key] = max(span.score, scored.get(key, 0.0))
    return golds, scored
