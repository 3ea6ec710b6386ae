"""Every figure that needs no threshold, of one system against gold, with its interval."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ensemble_deid.arrays import Floats, Int64s
from ensemble_deid.evaluation.bootstrap import (
    LEVEL,
    MEASURES,
    RESAMPLES,
    Interval,
    Measure,
    Share,
    divided,
    measure_of,
    percentile_interval,
    resample_totals,
    sum_by_group,
)
from ensemble_deid.evaluation.error_list import missed_beside_right
from ensemble_deid.evaluation.leaks import KIND_KEY, LeakView, leaks_of_pairs
from ensemble_deid.evaluation.pairs import (
    AnnotationStats,
    EvaluationError,
    Pair,
    count_annotations,
    keep_gold_labels,
    keep_labels,
    labels_of_pairs,
    pair_documents,
)
from ensemble_deid.evaluation.views import (
    ANY_PHI,
    SUBSETS,
    UNITS,
    VIEWS,
    CountTable,
    Sides,
    View,
    count_sides,
    resolve_labels,
    sides_of,
    subset_labels,
    to_counts,
    tokens_of,
)
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import category_of

ScorePart = Literal["total", "label", "category", "subset"]


@dataclass(frozen=True, slots=True)
class Resampling:
    """How intervals are made: `resamples` draws of patients (0: none are made), `level`, `seed`.

    Raises EvaluationError for a negative number of resamples or a level that is not between 0 and 1.
    """

    resamples: int
    level: float
    seed: int

    def __post_init__(self) -> None:
        if self.resamples < 0:
            raise EvaluationError(f"the number of resamples is 0 or more, not {self.resamples}")
        if not 0 < self.level < 1:
            raise EvaluationError(f"the level of an interval lies between 0 and 1, not {self.level}")

    def interval(self, counts: Int64s, groups: Sequence[str], figure: Callable[[Floats], Floats]) -> Interval | None:
        """Return the interval of a figure of the sums of counts, (documents, k); None where none is made."""
        if not self.resamples:
            return None
        by_group = sum_by_group(counts, groups)
        totals = resample_totals(by_group, resamples=self.resamples, seed=self.seed)
        return percentile_interval(figure(totals), level=self.level, patients=len(by_group))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure (None: undefined) and its interval (None: not asked for)."""

    value: float | None
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """The micro figures of one part (`part`, `name`) of the annotations under one view."""

    view: str
    part: ScorePart
    name: str
    counts: Counts
    precision: Estimate
    recall: Estimate
    f1: Estimate


@dataclass(frozen=True, slots=True)
class Macro:
    """Mean and population standard deviation over the documents where the figure is defined."""

    mean: float | None
    sd: float | None
    documents: int


@dataclass(frozen=True, slots=True)
class MacroScore:
    """The macro figures of everything under one view."""

    view: str
    precision: Macro
    recall: Macro
    f1: Macro


@dataclass(frozen=True, slots=True)
class Row:
    """What a Score is made of: counts of every document, (documents, 3)."""

    view: str
    part: ScorePart
    name: str
    counts: Int64s


def score_rows(rows: Sequence[Row], groups: Sequence[str], resampling: Resampling) -> tuple[Score, ...]:
    """Turn rows into scores; all rows are resampled by the same draws of patients."""
    intervals: list[dict[Measure, Interval]] = [{} for _ in rows]
    if rows and resampling.resamples:
        # (patients, rows * 3), resampled to (resamples, rows, 3)
        by_group = sum_by_group(np.concatenate([row.counts for row in rows], axis=1), groups)
        totals = resample_totals(by_group, resamples=resampling.resamples, seed=resampling.seed)
        for index, drawn in enumerate(totals.reshape(len(totals), len(rows), 3).swapaxes(0, 1)):
            for measure in MEASURES:
                values = measure_of(drawn, measure)
                intervals[index][measure] = percentile_interval(values, level=resampling.level, patients=len(by_group))
    scores: list[Score] = []
    for row, interval in zip(rows, intervals, strict=True):
        counts = to_counts(row.counts.sum(axis=0))
        estimates = {name: Estimate(getattr(counts, name), interval.get(name)) for name in MEASURES}
        scores.append(Score(row.view, row.part, row.name, counts, **estimates))
    return tuple(scores)


def estimate_ratio(
    numerators: Int64s, denominators: Int64s, groups: Sequence[str], resampling: Resampling, *, per: float = 1.0
) -> Estimate:
    """Estimate `per` times the sum of numerators over the sum of denominators, (documents,) each."""
    whole, part = float(denominators.sum()), float(numerators.sum())
    value = per * part / whole if whole else None
    counts = np.column_stack([numerators, denominators])
    return Estimate(value, resampling.interval(counts, groups, lambda sums: divided(per * sums[:, 0], sums[:, 1])))


def macro_score(view: str, table: CountTable) -> MacroScore:
    """Average a view's figures over documents; a document where a figure is undefined is left out of its mean."""
    counts = table.per_document.astype(np.float64)
    return MacroScore(view, **{measure: _macro(measure_of(counts, measure)) for measure in MEASURES})


def _macro(values: Floats) -> Macro:
    defined = values[~np.isnan(values)]
    if not len(defined):
        return Macro(None, None, 0)
    return Macro(float(defined.mean()), float(defined.std()), len(defined))


@dataclass(frozen=True, slots=True)
class TokenRates:
    """Wrong tokens in every 1000 tokens of the notes (Johnson et al. 2020, table 5) under one token view."""

    view: str
    false_negatives: Estimate
    false_positives: Estimate


@dataclass(frozen=True, slots=True)
class LeakIntervals:
    """The intervals of the shares in the leak view: of annotations, notes and characters."""

    phi: Estimate
    notes: Estimate
    characters: Estimate


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All figures of one system; `labels` are those the user chose (None: all).

    `missed_beside_right` is the share of missed tokens that touch a right one (Johnson et al. 2020, section 4.2).

    A note that names no patient counts as a patient of its own; `without_patient` is the number of such notes.
    `by_site` is the total of the view token-binary with intervals by site; None unless every note names its site.

    >>> from ensemble_deid import Document, Span, evaluate
    >>> gold = Document("a", "Anna Bell, 4/2", (Span(0, 9, "PATIENT"), Span(11, 14, "DATE")))
    >>> evaluation = evaluate([gold], [gold.with_spans([Span(11, 14, "DATE")])], resamples=0)
    >>> evaluation.score("strict").recall.value
    0.5
    >>> evaluation.score("strict", "label", "DATE").f1.value
    1.0
    """

    documents: int
    patients: int
    without_patient: int
    tokens: int
    labels: tuple[str, ...] | None
    gold: AnnotationStats
    system: AnnotationStats
    scores: tuple[Score, ...]
    macro: tuple[MacroScore, ...]
    token_rates: tuple[TokenRates, ...]
    leaks: LeakView
    leak_intervals: LeakIntervals
    missed_beside_right: Share
    resampling: Resampling
    sites: int = 0
    by_site: Score | None = None

    def score(self, view: str = "strict", part: ScorePart = "total", name: str = "all") -> Score:
        """Return the score of that view and part. Raises EvaluationError when there is none."""
        for score in self.scores:
            if (score.view, score.part, score.name) == (view, part, name):
                return score
        raise EvaluationError(f"the view {view!r} has no score for the {part} {name!r}")


def evaluate(
    gold: Iterable[Document],
    system: Iterable[Document],
    *,
    labels: Sequence[str] | None = None,
    kind_key: str = KIND_KEY,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> Evaluation:
    """Score `system` against `gold` under every view, and measure what leaks.

    `labels` keeps only those labels, categories or groups on both sides (gold PHI under a system annotation of
    any label still counts as hidden); `kind_key` names the metadata entry of a note's kind; `resamples=0` makes no
    intervals. Raises EvaluationError when the documents do not match or a label is unknown.

    >>> from ensemble_deid import Deidentifier, evaluate, read_corpus
    >>> gold = read_corpus("my/test")
    >>> found = Deidentifier.load("model").predict(gold)
    >>> evaluate(gold, found, resamples=0).score("strict").counts.fn
    0
    """
    pairs = pair_documents(tuple(gold), tuple(system))
    present = labels_of_pairs(pairs)
    chosen = present if labels is None else resolve_labels(labels, present)
    kept = pairs if labels is None else keep_labels(pairs, chosen)
    groups = tuple(pair.group for pair in pairs)
    resampling = Resampling(resamples, level, seed)
    sides = {unit: sides_of(kept, unit) for unit in UNITS}
    tables = {view.name: count_sides(kept, sides[view.unit], view) for view in VIEWS.values()}
    rows = [
        row
        for view in VIEWS.values()
        for row in _rows(kept, sides[view.unit], view, tables[view.name], chosen & present)
    ]
    tokens = np.array([len(tokens_of(pair.gold.text)) for pair in pairs], dtype=np.int64)
    against_all = keep_gold_labels(pairs, chosen)
    leaks = leaks_of_pairs(against_all, kind_key=kind_key)
    sites = tuple(pair.gold.site for pair in pairs if pair.gold.site is not None)
    everything = [row for row in rows if (row.view, row.part) == ("token-binary", "total")]
    known = bool(pairs) and len(sites) == len(pairs)
    return Evaluation(
        documents=len(pairs),
        patients=len(set(groups)),
        without_patient=sum(pair.gold.patient_id is None for pair in pairs),
        tokens=int(tokens.sum()),
        labels=None if labels is None else tuple(sorted(chosen)),
        gold=count_annotations(pair.gold for pair in kept),
        system=count_annotations(pair.system for pair in kept),
        scores=score_rows(rows, groups, resampling),
        macro=tuple(macro_score(name, table) for name, table in tables.items()),
        token_rates=tuple(_token_rates(name, tables[name], tokens, resampling) for name in ("token", "token-binary")),
        leaks=leaks,
        leak_intervals=_leak_intervals(leaks, groups, resampling),
        missed_beside_right=missed_beside_right(against_all),
        resampling=resampling,
        sites=len(set(sites)) if known else 0,
        by_site=score_rows(everything, sites, resampling)[0] if known else None,
    )


def _rows(
    pairs: Sequence[Pair], sides: Sequence[Sides], view: View, table: CountTable, labels: frozenset[str]
) -> list[Row]:
    """Make the view's rows: all; each label and category it tells apart; and each named subset."""
    rows = [Row(view.name, "total", "all", table.per_document)]
    if view.naming == "type":
        rows += [Row(view.name, "label", label, table.only([label]).per_document) for label in table.labels]
    category_by_label = {label: category_of(label) for label in table.labels if label != ANY_PHI}
    for category in sorted({found for found in category_by_label.values() if found is not None}):
        members = frozenset(label for label, found in category_by_label.items() if found == category)
        rows.append(Row(view.name, "category", category, table.only(members).per_document))
    for subset in SUBSETS:
        members = subset_labels(subset, labels)
        # Only where a view keeps types apart is a subset a part of the table; elsewhere what lies outside the
        # subset is dropped from both sides before anything is matched.
        kept = view.naming == "type"
        part = table.only(members) if kept else count_sides(pairs, sides, view, labels=members)
        rows.append(Row(view.name, "subset", subset, part.per_document))
    return rows


def _token_rates(view: str, table: CountTable, tokens: Int64s, resampling: Resampling) -> TokenRates:
    _, fp, fn = table.per_document.T
    return TokenRates(view, *(estimate_ratio(n, tokens, table.groups, resampling, per=1000) for n in (fn, fp)))


def _leak_intervals(leaks: LeakView, groups: Sequence[str], resampling: Resampling) -> LeakIntervals:
    def share(numerators: Sequence[int], denominators: Sequence[int]) -> Estimate:
        top, bottom = np.array(numerators, dtype=np.int64), np.array(denominators, dtype=np.int64)
        return estimate_ratio(top, bottom, groups, resampling)

    notes = leaks.notes
    return LeakIntervals(
        share([note.missed_count for note in notes], [note.phi_count for note in notes]),
        share([int(note.missed_count > 0) for note in notes], [1] * len(notes)),
        share([note.leaked_characters for note in notes], [note.characters for note in notes]),
    )
