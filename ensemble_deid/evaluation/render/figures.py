"""Figures, and what is said beside them, as text: the same words in the terminal and in the HTML report."""

from typing import Any

from ensemble_deid.evaluation.bootstrap import LEAST_CLUSTERS, Interval, PairedDifference
from ensemble_deid.evaluation.curve import OperatingPoint
from ensemble_deid.evaluation.evaluate import Estimate, Evaluation, Resampling
from ensemble_deid.evaluation.leaks import LeakView
from ensemble_deid.evaluation.operating_points import OperatingPoints
from ensemble_deid.evaluation.pairs import AnnotationStats
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.digits import UNDEFINED, figure, four_digits, percent


def range_text(interval: Interval, *, sign: str = "") -> str:
    """Return the ends of an interval in percent, with `sign="+"` the signs of both."""
    if interval.low is None or interval.high is None:
        return UNDEFINED
    return f"{100 * interval.low:{sign}.2f} to {100 * interval.high:{sign}.2f}"


def counts_cells(counts: Counts) -> tuple[str, str, str]:
    precision, recall, f1 = (percent(value, sign="") for value in (counts.precision, counts.recall, counts.f1))
    return precision, recall, f1


def difference_cells(difference: PairedDifference | None) -> tuple[str, str, str]:
    """Return a paired difference in percent, its interval and p; nothing where there is none."""
    if difference is None:
        return "", "", ""
    if difference.difference is None:
        return UNDEFINED, "", ""
    p = "" if difference.p_value is None else f"{difference.p_value:.4f}"
    return f"{100 * difference.difference:+.2f}", range_text(difference.interval, sign="+"), p


def difference_record(difference: PairedDifference | None, value: str, interval: str, p: str) -> dict[str, Any]:
    """Return a difference, its interval and its p value for JSON under these names; empty where there is none."""
    if difference is None:
        return {}
    ends = difference.interval
    return {value: difference.difference, interval: [ends.low, ends.high], p: difference.p_value}


def with_interval(estimate: Estimate, digits: int = 4) -> str:
    return figure(estimate.value, digits) + interval_text(estimate.interval, digits)


def interval_text(interval: Interval | None, digits: int = 4) -> str:
    """Return " [low, high]", or nothing where there is no interval."""
    if interval is None or interval.low is None or interval.high is None:
        return ""
    return f" [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


ROWS_OVERLAP = "a note or patient counts in the row of each label that leaks, so rows add up to more than the total"


def site_lines(evaluation: Evaluation) -> list[str]:
    """Say what the recall is by site, where the sites are known: notes of one site are more alike than others."""
    if evaluation.by_site is None or evaluation.sites < 2:
        return []
    patients, sites = evaluation.score("token-binary").recall, evaluation.by_site.recall
    return [
        f"Recall of PHI tokens: {figure(sites.value)}; interval by patient {_ends(patients, evaluation.patients)}, "
        f"by site {_ends(sites, evaluation.sites)} ({evaluation.sites:,} sites)"
    ]


def _ends(estimate: Estimate, clusters: int) -> str:
    few = f"none (fewer than {LEAST_CLUSTERS})" if clusters < LEAST_CLUSTERS else "none"
    return interval_text(estimate.interval).strip() or few


def resampling_text(resampling: Resampling) -> str:
    if not resampling.resamples:
        return "No intervals were made."
    return (
        f"Intervals: {100 * resampling.level:g}% percentile bootstrap over patients, "
        f"{resampling.resamples:,} resamples, seed {resampling.seed}."
    )


def side_text(name: str, stats: AnnotationStats) -> str:
    text = f"{name}: {stats.annotations:,} annotations"
    if stats.repeated:
        text += f"; {stats.repeated:,} repeat another (counted once)"
    if stats.overlapping:
        text += f"; {stats.overlapping:,} overlap the one before (each counted)"
    return text


def notes_text(evaluation: Evaluation) -> str:
    text = f"{evaluation.documents:,} notes of {evaluation.patients:,} patients"
    if evaluation.without_patient:
        text += f" ({evaluation.without_patient:,} notes name no patient and count as one each)"
    return text


def operating_rows(operating: OperatingPoints) -> list[tuple[str, ...]]:
    """Return the rows of the operating points: name, threshold, precision, recall, F1, FN and FP per 1000 tokens."""
    rows = [("as it is", *_point_cells(operating.as_it_is))]
    for reported in operating.sensitivities:
        cells = ("not reached", *[""] * 5) if reported.point is None else _point_cells(reported.point)
        rows.append((f"sensitivity {100 * reported.chosen.wanted:g}%", *cells))
    recall = operating.recall_at_precision
    note = "" if recall.adjusted else " (not adjusted: below it as it is)"
    return [*rows, (f"recall at precision {100 * recall.precision:g}%{note}", *_point_cells(recall.reported))]


def _point_cells(point: OperatingPoint) -> tuple[str, ...]:
    shares = (point.counts.precision, point.counts.recall, point.counts.f1)
    rates = (point.fn_per_1000, point.fp_per_1000)
    return (four_digits(point.threshold), *map(figure, shares), *(figure(rate, 2) for rate in rates))


def missed_per_note_rows(leaks: LeakView) -> list[tuple[str, ...]]:
    return [
        (
            str(row.errors),
            f"{row.notes:,}",
            f"{row.total_errors:,}",
            f"{row.cumulative_errors:,}",
            figure(row.coverage),
            f"{row.mean_labels:.2f}",
        )
        for row in leaks.by_errors
    ]
