"""Baselines for the final estimator: union, majority vote, and mean confidence."""

from collections.abc import Mapping

import numpy as np

from ensemble_deid.stacking.candidates import collect
from ensemble_deid.submodels import BY_NAME
from ensemble_deid.taggers.base import Proposals
from ensemble_deid.text.span import Span, drop_overlaps

METHODS = ("union", "majority", "mean")


def combine(
    proposals: Mapping[str, Proposals], *, labels: tuple[str, ...], method: str, threshold: float = 0.5
) -> list[tuple[Span, ...]]:
    """Return non-overlapping spans for each document.

    `union` keeps the spans that any submodel predicts (Murugadoss et al. 2021), `majority` those that more than half
    predict, `mean` those whose confidence averages `threshold` or more over the submodels with marginals (over all
    submodels if none has them).
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; known: {', '.join(METHODS)}")
    names = [name for name in proposals if BY_NAME[name].has_marginals] or list(proposals)
    used = {name: proposals[name] for name in (names if method == "mean" else proposals)}
    table = collect(used, labels=labels)
    n_documents = len(next(iter(proposals.values())).best)
    if not len(table):
        return [() for _ in range(n_documents)]
    scores = table.confidence.mean(axis=1)
    votes = table.chosen.sum(axis=1)
    keep = {"union": votes >= 1, "majority": 2 * votes > len(used), "mean": scores >= threshold}[method]
    return [drop_overlaps(spans) for spans in table.spans(np.clip(scores, 0.0, 1.0), keep, n_documents)]
