"""Two systems on the same notes: their differences, the uncertainty of these, and which annotations each finds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.evaluation.bootstrap import LEVEL, MEASURES, RESAMPLES, Measure, PairedDifference, paired_difference
from ensemble_deid.evaluation.count_table import CountTable
from ensemble_deid.evaluation.pairs import Pair, keep_labels, labels_of_pairs, pair_documents
from ensemble_deid.evaluation.scores import Resampling
from ensemble_deid.evaluation.views import VIEWS, count_sides, resolve_labels, sides_of
from ensemble_deid.note.document import Document

COMPARED_VIEWS: tuple[str, ...] = ("strict", "overlap", "type-blind", "token", "token-binary")


@dataclass(frozen=True, slots=True)
class LabelDifference:
    """One label's strict F1 in both systems; `holm_p` is its p value adjusted for the number of labels (Holm 1979)."""

    label: str
    difference: PairedDifference
    holm_p: float | None


@dataclass(frozen=True, slots=True)
class FoundBy:
    """Gold annotations by which systems find them (strict), and spurious annotations by which systems propose them."""

    both: int
    only_a: int
    only_b: int
    neither: int
    spurious_both: int
    spurious_only_a: int
    spurious_only_b: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """System A against system B; `differences` maps each compared view to F1, precision and recall."""

    documents: int
    patients: int
    labels: tuple[str, ...] | None
    differences: Mapping[str, tuple[PairedDifference, ...]]
    by_label: tuple[LabelDifference, ...]
    found: FoundBy
    resampling: Resampling

    @property
    def adjusted(self) -> dict[str, float]:
        """The p values of `differences`, as `view measure`, adjusted for their number (Holm 1979)."""
        rows = ((view, d) for view, differences in self.differences.items() for d in differences)
        return holm({f"{view} {d.measure}": d.p_value for view, d in rows if d.p_value is not None})


def compare(
    gold: Sequence[Document],
    a: Sequence[Document],
    b: Sequence[Document],
    *,
    labels: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> Comparison:
    """Compare two systems on the same notes: paired bootstrap intervals and approximate-randomisation p values.

    A difference is A minus B. `labels` keeps only those labels, categories or groups. Raises EvaluationError when
    the documents of any two sides do not match or a label is unknown.
    """
    resampling = Resampling(resamples, level, seed)
    pairs_a, pairs_b = pair_documents(gold, a), pair_documents(gold, b)
    chosen: frozenset[str] | None = None
    if labels is not None:
        chosen = resolve_labels(labels, labels_of_pairs((*pairs_a, *pairs_b)))
        pairs_a, pairs_b = keep_labels(pairs_a, chosen), keep_labels(pairs_b, chosen)
    tables = {view: (_count(pairs_a, view), _count(pairs_b, view)) for view in COMPARED_VIEWS}
    groups = tuple(pair.group for pair in pairs_a)

    def differ(one: Int64s, other: Int64s, measure: Measure) -> PairedDifference:
        return paired_difference(
            one,
            other,
            groups,
            measure=measure,
            resamples=resamples,
            level=level,
            seed=seed,
        )

    differences = {
        view: tuple(differ(x.per_document, y.per_document, measure) for measure in MEASURES)
        for view, (x, y) in tables.items()
    }
    return Comparison(
        documents=len(pairs_a),
        patients=len(set(groups)),
        labels=None if chosen is None else tuple(sorted(chosen)),
        differences=MappingProxyType(differences),
        by_label=_by_label(*tables["strict"], lambda one, other: differ(one, other, "f1")),
        found=_found_by(pairs_a, pairs_b),
        resampling=resampling,
    )


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjust p values for their number (Holm 1979): the smallest times n, the next times n - 1, never falling."""
    adjusted: dict[str, float] = {}
    highest = 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: (item[1], item[0]))):
        highest = max(highest, min(1.0, p * (len(p_values) - rank)))
        adjusted[name] = highest
    return adjusted


def _by_label(
    a: CountTable, b: CountTable, differ: Callable[[Int64s, Int64s], PairedDifference]
) -> tuple[LabelDifference, ...]:
    found = {
        label: differ(a.only([label]).per_document, b.only([label]).per_document)
        for label in sorted({*a.labels, *b.labels})
    }
    adjusted = holm({label: d.p_value for label, d in found.items() if d.p_value is not None})
    return tuple(LabelDifference(label, d, adjusted.get(label)) for label, d in found.items())


def _count(pairs: Sequence[Pair], view: str) -> CountTable:
    chosen = VIEWS[view]
    return count_sides(pairs, sides_of(pairs, chosen.unit), chosen)


def _found_by(pairs_a: Sequence[Pair], pairs_b: Sequence[Pair]) -> FoundBy:
    totals = np.zeros(7, dtype=np.int64)
    for pair_a, pair_b in zip(pairs_a, pairs_b, strict=True):
        gold, a, b = ({s.key for s in d.spans} for d in (pair_a.gold, pair_a.system, pair_b.system))
        totals += [
            len(gold & a & b),
            len(gold & a - b),
            len(gold & b - a),
            len(gold - a - b),
            len(a & b - gold),
            len(a - b - gold),
            len(b - a - gold),
        ]
    return FoundBy(*(int(total) for total in totals))
