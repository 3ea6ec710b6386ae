"""Baselines for the final estimator: union, majority vote, and mean confidence."""

from collections.abc import Mapping, Sequence

import numpy as np

from ensemble_deid.arrays import log_odds
from ensemble_deid.note.counts import strict_counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import drop_overlaps
from ensemble_deid.note.span import Span
from ensemble_deid.stacking.candidates import collect
from ensemble_deid.submodels import row_of
from ensemble_deid.taggers.base import Proposals

METHODS = ("union", "majority", "mean", "log-odds")
SCORED = ("mean", "log-odds")
"""The methods whose spans have scores, so that a threshold can be chosen for them."""
_SURE = 1e-6
"""Confidence nearer to 0 or 1 counts as this near: log odds of 0 and 1 are infinite."""


def combine(
    proposals: Mapping[str, Proposals], *, labels: tuple[str, ...], method: str, threshold: float = 0.5
) -> list[tuple[Span, ...]]:
    """Return non-overlapping spans for each document.

    `union` keeps the spans that any submodel predicts (Murugadoss et al. 2021), `majority` those that more than half
    predict, `mean` those whose confidence averages `threshold` or more over the submodels with marginals (over all
    submodels if none has them), `log-odds` those whose mean log odds are at or above the threshold's.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; known: {', '.join(METHODS)}")
    names = [name for name in proposals if row_of(name).has_marginals] or list(proposals)
    used = {name: proposals[name] for name in (names if method in SCORED else proposals)}
    table = collect(used, labels=labels)
    n_documents = len(next(iter(proposals.values())).best)
    if method == "log-odds":
        scores = 1.0 / (1.0 + np.exp(-log_odds(table.confidence, bound=_SURE).mean(axis=1)))
    else:
        scores = table.confidence.mean(axis=1)
    votes = table.chosen.sum(axis=1)
    above = scores >= threshold
    keep = {"union": votes >= 1, "majority": 2 * votes > len(used), "mean": above, "log-odds": above}[method]
    return [drop_overlaps(spans) for spans in table.spans(np.clip(scores, 0.0, 1.0), keep, n_documents)]


# For each type of PHI the submodels that are best at it, and the union of their claims (Murugadoss et al. 2021,
# supplementary methods, "Model fine-tuning details").


BestMembers = Mapping[str, tuple[str, ...]]
"""Label -> the submodels whose claims count for it, in the order of the table of submodels."""


def choose_best_members(
    documents: Sequence[Document], proposals: Mapping[str, Proposals], *, labels: Sequence[str], best: int
) -> dict[str, tuple[str, ...]]:
    """Return for each label the `best` submodels by strict F1 on annotated notes; of equals, the earlier in the table.

    A submodel that finds none of a label is not chosen for it. Where none finds any, all are chosen: a span that is not
    proposed is PHI that stays.
    """
    return {label: _best_of_label(label, documents, proposals, best) for label in labels}


def _best_of_label(
    label: str, documents: Sequence[Document], proposals: Mapping[str, Proposals], best: int
) -> tuple[str, ...]:
    gold = [_with_label(document.spans, label) for document in documents]
    scores = [
        (name, strict_counts(gold, [_with_label(spans, label) for spans in proposed.best]).f1)
        for name, proposed in proposals.items()
    ]
    # Neither 0 nor undefined: who finds none of a label is not chosen for it.
    ranked = sorted(((name, f1) for name, f1 in scores if f1), key=lambda scored: -scored[1])
    members = {name for name, _ in ranked[:best]}
    return tuple(name for name in proposals if name in members) if members else tuple(proposals)


def _with_label(spans: Sequence[Span], label: str) -> list[Span]:
    return [span for span in spans if span.label == label]


def claims_of_best_members(
    proposals: Mapping[str, Proposals], *, labels: tuple[str, ...], members: BestMembers
) -> list[tuple[Span, ...]]:
    """Return what at least one of the best submodels of a label predicts as this label, for each document.

    Of claims that overlap, the one that a best submodel of its label is surest of is kept.
    """
    table = collect(proposals, labels=labels)
    n_documents = len(next(iter(proposals.values())).best)
    # (labels, submodels): whose claims count.
    counts = np.array([[name in members[label] for name in table.submodels] for label in labels], dtype=bool)
    claimed = table.chosen & counts[table.label]
    scores = np.where(claimed, table.confidence, 0.0).max(axis=1)
    spans = table.spans(np.clip(scores, 0.0, 1.0), claimed.any(axis=1), n_documents)
    return [drop_overlaps(found) for found in spans]
