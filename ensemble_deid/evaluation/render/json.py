"""The results as plain data for JSON: keys and units are described in docs/evaluation.md; undefined is null."""

from collections.abc import Mapping
from typing import Any

from ensemble_deid.evaluation.agreement import Agreement
from ensemble_deid.evaluation.annotation_stats import AnnotationStats
from ensemble_deid.evaluation.bootstrap import Interval, PairedDifference
from ensemble_deid.evaluation.bounds import Share
from ensemble_deid.evaluation.compare import Comparison
from ensemble_deid.evaluation.curve import OperatingPoint, spread
from ensemble_deid.evaluation.evaluate import Evaluation
from ensemble_deid.evaluation.leaks import LabelLeaks, LeakView
from ensemble_deid.evaluation.official.rows import OfficialScores, to_official_json
from ensemble_deid.evaluation.operating_points import OperatingPoints, ReportedPoint
from ensemble_deid.evaluation.scores import Estimate, Macro, MacroScore, Resampling, Score

Json = dict[str, Any]
CURVE_POINTS = 1000
"""A longer curve is given by so many of its points, evenly spread, the first and the last among them."""


def evaluation_to_json(
    evaluation: Evaluation, *, official: OfficialScores | None = None, operating: OperatingPoints | None = None
) -> Json:
    """Return an evaluation as JSON-ready data, with the official rows and operating points where there are any."""
    intervals = evaluation.leak_intervals
    data: Json = {
        "documents": evaluation.documents,
        "patients": evaluation.patients,
        "notes_without_patient": evaluation.without_patient,
        "tokens": evaluation.tokens,
        "labels": None if evaluation.labels is None else list(evaluation.labels),
        "resampling": _resampling(evaluation.resampling),
        "gold": _side(evaluation.gold),
        "system": _side(evaluation.system),
        "scores": [_score(score) for score in evaluation.scores],
        "macro": [_macro_score(macro) for macro in evaluation.macro],
        "token_rates": [
            {
                "view": rates.view,
                **_estimate("fn_per_1000", rates.false_negatives),
                **_estimate("fp_per_1000", rates.false_positives),
            }
            for rates in evaluation.token_rates
        ],
        "missed_tokens": {
            "missed": evaluation.missed_beside_right.total,
            "beside_right": evaluation.missed_beside_right.count,
        },
        "leaks": _leaks(evaluation.leaks)
        | {
            "intervals": {
                **_estimate("annotations", intervals.phi),
                **_estimate("notes", intervals.notes),
                **_estimate("characters", intervals.characters),
            }
        },
    }
    if operating is not None:
        data["operating_points"] = operating_to_json(operating)
    if official is not None:
        data["official"] = to_official_json(official)
    return data


def operating_to_json(operating: OperatingPoints) -> Json:
    """Return operating points and the curve as JSON-ready data."""
    curve, recall = operating.curve, operating.recall_at_precision
    return {
        "view": operating.view,
        "oracle": operating.oracle,
        "as_it_is": _point(operating.as_it_is),
        "sensitivities": [_reported(point) for point in operating.sensitivities],
        "recall_at_precision": {
            "precision_wanted": recall.precision,
            "adjusted": recall.adjusted,
            "oracle": recall.oracle,
            **_point(recall.reported),
        },
        "curve_thresholds": len(curve),
        "curve": [_point(curve.point(index)) for index in spread(len(curve), CURVE_POINTS)],
    }


def comparison_to_json(comparison: Comparison) -> Json:
    """Return a comparison as JSON-ready data."""
    found = comparison.found
    return {
        "documents": comparison.documents,
        "patients": comparison.patients,
        "labels": None if comparison.labels is None else list(comparison.labels),
        "resampling": _resampling(comparison.resampling),
        "differences": [
            {"view": view, **_difference(difference)}
            for view, differences in comparison.differences.items()
            for difference in differences
        ],
        "by_label": [
            {"label": row.label, **_difference(row.difference), "holm_p": row.holm_p} for row in comparison.by_label
        ],
        "found_by": {
            "both": found.both,
            "only_a": found.only_a,
            "only_b": found.only_b,
            "neither": found.neither,
            "spurious_both": found.spurious_both,
            "spurious_only_a": found.spurious_only_a,
            "spurious_only_b": found.spurious_only_b,
        },
    }


def agreement_to_json(agreement: Agreement) -> Json:
    """Return annotators' agreement as JSON-ready data."""
    return {
        "documents": agreement.documents,
        "patients": agreement.patients,
        "tokens": agreement.tokens,
        "resampling": _resampling(agreement.resampling),
        "a": _side(agreement.a),
        "b": _side(agreement.b),
        "scores": [_score(score) for score in agreement.scores],
        "kappas": [
            {
                "naming": kappa.naming,
                "observed": kappa.observed,
                "expected": kappa.expected,
                **_estimate("kappa", kappa.kappa),
                "pairs": [{"a": a or None, "b": b or None, "tokens": tokens} for a, b, tokens in kappa.pairs],
            }
            for kappa in agreement.kappas
        ],
    }


def _resampling(resampling: Resampling) -> Json:
    return {
        "resamples": resampling.resamples,
        "level": resampling.level,
        "seed": resampling.seed,
        "unit": "patient",
    }


def _side(stats: AnnotationStats) -> Json:
    return {
        "annotations": stats.annotations,
        "repeated": stats.repeated,
        "overlapping": stats.overlapping,
    }


def _score(score: Score) -> Json:
    return {
        "view": score.view,
        "part": score.part,
        "name": score.name,
        "tp": score.counts.tp,
        "fp": score.counts.fp,
        "fn": score.counts.fn,
        **_estimate("precision", score.precision),
        **_estimate("recall", score.recall),
        **_estimate("f1", score.f1),
    }


def _estimate(name: str, estimate: Estimate) -> Json:
    return {name: estimate.value, **_interval(name, estimate.interval)}


def _interval(name: str, interval: Interval | None) -> Json:
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    return {f"{name}_low": low, f"{name}_high": high}


def _macro_score(score: MacroScore) -> Json:
    return {
        "view": score.view,
        **_macro("precision", score.precision),
        **_macro("recall", score.recall),
        **_macro("f1", score.f1),
    }


def _macro(name: str, macro: Macro) -> Json:
    return {f"{name}_mean": macro.mean, f"{name}_sd": macro.sd, f"{name}_documents": macro.documents}


def _leaks(leaks: LeakView) -> Json:
    return {
        **_label_leaks(leaks.total),
        "annotations_missed_whole": _share(leaks.missed_whole),
        "characters": {"count": leaks.characters.count, "total": leaks.characters.total}
        | {"share": leaks.characters.share},
        "by_label": {label: _label_leaks(row) for label, row in leaks.by_label.items()},
        "by_errors": [
            {
                "errors": row.errors,
                "notes": row.notes,
                "total_errors": row.total_errors,
                "cumulative_errors": row.cumulative_errors,
                "coverage": row.coverage,
                "mean_labels": row.mean_labels,
            }
            for row in leaks.by_errors
        ],
        "by_kind": [
            {"kind": row.kind, "missed": row.missed, "annotations": row.phi, "notes": _share(row.notes)}
            for row in leaks.by_kind
        ],
    }


def _label_leaks(leaks: LabelLeaks) -> Mapping[str, Json]:
    return {
        "annotations": _share(leaks.phi),
        "notes": _share(leaks.notes),
        "patients": _share(leaks.patients),
    }


def _share(share: Share) -> Json:
    return {
        "count": share.count,
        "total": share.total,
        "share": share.share,
        "upper_95": share.upper,
        "three_in_n": share.three_in_n,
    }


def _point(point: OperatingPoint) -> Json:
    counts = point.counts
    return {
        "threshold": point.threshold,
        "tp": counts.tp,
        "fp": counts.fp,
        "fn": counts.fn,
        "precision": counts.precision,
        "recall": counts.recall,
        "f1": counts.f1,
        "fn_per_1000": point.fn_per_1000,
        "fp_per_1000": point.fp_per_1000,
    }


def _reported(reported: ReportedPoint) -> Json:
    return {
        "sensitivity_wanted": reported.chosen.wanted,
        "reached_when_chosen": reported.chosen.threshold is not None,
        "oracle": reported.oracle,
        "at": None if reported.point is None else _point(reported.point),
    }


def _difference(difference: PairedDifference) -> Json:
    return {
        "measure": difference.measure,
        "a": difference.a,
        "b": difference.b,
        "difference": difference.difference,
        **_interval("difference", difference.interval),
        "p": difference.p_value,
    }
