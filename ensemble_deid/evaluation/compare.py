"""Two systems on the same notes: their differences, the uncertainty of these, and which annotations each finds."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np

from ensemble_deid.arrays import Floats, Int64s
from ensemble_deid.evaluation.bootstrap import (
    LEVEL,
    MEASURES,
    RESAMPLES,
    PairedDifference,
    defined,
    divided,
    paired_difference,
)
from ensemble_deid.evaluation.evaluate import Estimate, Resampling, Row, Score, score_rows
from ensemble_deid.evaluation.pairs import (
    AnnotationStats,
    Pair,
    count_annotations,
    keep_labels,
    labels_of_pairs,
    pair_documents,
)
from ensemble_deid.evaluation.views import (
    VIEWS,
    CountTable,
    Naming,
    count_sides,
    label_tokens,
    name_under,
    resolve_labels,
    sides_of,
    tokens_of,
)
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
    resampling: Resampling
    differences: Mapping[str, tuple[PairedDifference, ...]]
    by_label: tuple[LabelDifference, ...]
    found: FoundBy

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
    differ = partial(paired_difference, groups=groups, resamples=resamples, level=level, seed=seed)
    differences = {
        view: tuple(differ(x.per_document, y.per_document, measure=measure) for measure in MEASURES)
        for view, (x, y) in tables.items()
    }
    return Comparison(
        documents=len(pairs_a),
        patients=len(set(groups)),
        labels=None if chosen is None else tuple(sorted(chosen)),
        differences=MappingProxyType(differences),
        by_label=_by_label(*tables["strict"], differ),
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
        found = (gold & a & b, gold & a - b, gold & b - a, gold - a - b)
        totals += [len(keys) for keys in (*found, a & b - gold, a - b - gold, b - a - gold)]
    return FoundBy(*(int(total) for total in totals))


_NOT_PHI = ""


@dataclass(frozen=True, slots=True)
class Kappa:
    """Cohen's kappa over the tokens of all notes, what it is made of, and each pair of names with its tokens.

    `naming` tells what is told apart: PHI or not, categories, or types. `pairs` maps (name in A, name in B) to a
    number of tokens; "" stands for a token that is not PHI. `kappa` is undefined where chance alone gives agreement.
    """

    naming: Naming
    observed: float | None
    expected: float | None
    kappa: Estimate
    pairs: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of two annotators; in `scores` A stands for gold (F1 is the same either way)."""

    documents: int
    patients: int
    tokens: int
    resampling: Resampling
    a: AnnotationStats
    b: AnnotationStats
    scores: tuple[Score, ...]
    kappas: tuple[Kappa, ...]


def measure_agreement(
    a: Sequence[Document], b: Sequence[Document], *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> Agreement:
    """Measure pairwise F1 (Hripcsak and Rothschild 2005) under every view, and Cohen's kappa per token.

    Kappa is computed as Murugadoss et al. 2021 compute it (supplement, table 5): every token of the notes counts,
    and it is PHI where an annotation covers any of it. Raises EvaluationError when the documents do not match.
    """
    pairs = pair_documents(a, b)
    resampling = Resampling(resamples, level, seed)
    groups = tuple(pair.group for pair in pairs)
    sides = {unit: sides_of(pairs, unit) for unit in ("entity", "token")}
    rows: list[Row] = []
    for view in VIEWS.values():
        table = count_sides(pairs, sides[view.unit], view)
        rows.append(Row(view.name, "total", "all", table.per_document))
        if view.naming == "type":
            rows += [Row(view.name, "label", name, table.only([name]).per_document) for name in table.labels]
    labelled = []
    for pair in pairs:
        tokens = tokens_of(pair.gold.text)
        labelled.append(list(zip(label_tokens(pair.gold, tokens), label_tokens(pair.system, tokens), strict=True)))
    namings: tuple[Naming, ...] = ("PHI", "category", "type")
    return Agreement(
        documents=len(pairs),
        patients=len(set(groups)),
        tokens=sum(len(note) for note in labelled),
        a=count_annotations(pair.gold for pair in pairs),
        b=count_annotations(pair.system for pair in pairs),
        scores=score_rows(rows, groups, resampling),
        kappas=tuple(_kappa(labelled, groups, naming, resampling) for naming in namings),
        resampling=resampling,
    )


def _kappa(
    labelled: Sequence[Sequence[tuple[str | None, str | None]]],
    groups: Sequence[str],
    naming: Naming,
    resampling: Resampling,
) -> Kappa:
    def name(label: str | None) -> str:
        return _NOT_PHI if label is None else name_under(naming, label)

    notes = [Counter((name(x), name(y)) for x, y in note) for note in labelled]
    pairs: Counter[tuple[str, str]] = Counter()
    for note in notes:
        pairs.update(note)
    names = sorted({one for both in pairs for one in both})
    column = {one: index for index, one in enumerate(names)}
    # (documents, 1 + 2 names): tokens agreed on, then A's and B's tokens of each name
    sums = np.zeros((len(notes), 1 + 2 * len(names)), dtype=np.int64)
    for row, note in enumerate(notes):
        for (x, y), tokens in note.items():
            sums[row, 0] += tokens * (x == y)
            sums[row, 1 + column[x]] += tokens
            sums[row, 1 + len(names) + column[y]] += tokens
    whole = sums.sum(axis=0).astype(np.float64)
    observed, expected, kappa = (defined(value[0]) for value in _kappas(whole[None, :], len(names)))
    interval = resampling.interval(sums, groups, lambda totals: _kappas(totals, len(names))[2])
    listed = tuple((x, y, tokens) for (x, y), tokens in sorted(pairs.items()))
    return Kappa(naming, observed, expected, Estimate(kappa, interval), listed)


def _kappas(sums: Floats, names: int) -> tuple[Floats, Floats, Floats]:
    """Return observed and expected agreement and kappa of (n, 1 + 2 names) sums; NaN where undefined."""
    agreed, of_a, of_b = sums[:, 0], sums[:, 1 : 1 + names], sums[:, 1 + names :]
    tokens = of_a.sum(axis=1)
    observed = divided(agreed, tokens)
    expected = divided((of_a * of_b).sum(axis=1), tokens * tokens)
    return observed, expected, divided(observed - expected, 1 - expected)
