"""What experiments found, in every form: cross-validation, search, ablation."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ensemble_deid.evaluation.bootstrap import PairedDifference
from ensemble_deid.evaluation.operating_points import target_text
from ensemble_deid.evaluation.render.figures import counts_cells, difference_cells, range_text
from ensemble_deid.evaluation.render.results import Point, Results, Table, draw_points
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.digits import UNDEFINED, four_digits, percent
from ensemble_deid.training.ablate import AS_TRAINED, RETRAINED, AblationRow, ThresholdTarget
from ensemble_deid.training.crossval import CrossValidation, SystemFigures, as_records
from ensemble_deid.training.tune import Tuned

_MEANING = {
    AS_TRAINED: "the submodel's candidates and its features of the final estimator are dropped; "
    "the other submodels stay as trained, and may still see the patterns as features",
    RETRAINED: "the other submodels are trained again without the patterns as features",
}


def crossval_results(result: CrossValidation) -> Results:
    """Return the figures of the systems."""
    columns = ("system", "P", "R", "F1", "95% interval", "mean of folds (sd)", "F1 minus ensemble (p)")
    table = Table(
        "Strict entity figures of the cross-validation, in per cent", columns, tuple(map(_system_cells, result.systems))
    )
    points = [Point(s.name, s.counts.f1, s.interval.low, s.interval.high) for s in result.systems]
    picture = draw_points(points, measure="strict F1, 95% interval")
    return Results([[table]], as_records(result), picture)


def _system_cells(system: SystemFigures) -> tuple[str, ...]:
    change, _, _ = difference_cells(system.difference)
    if system.difference is not None and system.difference.difference is not None:
        p = system.difference.p_value
        change += f" ({UNDEFINED if p is None else f'{p:.3g}'})"
    folds = f"{percent(system.mean_f1, sign='')} ({percent(system.deviation, sign='')})"
    return (system.name, *counts_cells(system.counts), range_text(system.interval), folds, change)


def tune_results(tuned: Tuned) -> Results:
    """Return the trials, the best first; the data has them in their own order."""
    ordered = sorted(enumerate(tuned.trials, 1), key=lambda entry: -entry[1].f1)
    rows = [
        (
            str(number),
            percent(trial.f1, sign=""),
            ", ".join(f"{key}={value}" for key, value in trial.settings.items()) or "as given",
        )
        for number, trial in ordered
    ]
    caption = "Trials, chosen on dev: the best figure is optimistic"
    table = Table(caption, ("trial", "strict F1 on dev", "settings"), tuple(rows))
    picture = draw_points([Point(f"trial {number}", trial.f1) for number, trial in ordered], measure="strict F1 on dev")
    return Results([[table]], [asdict(trial) for trial in tuned.trials], picture)


def ablation_results(rows: Sequence[AblationRow], rule: ThresholdTarget | None) -> Results:
    """Return the figures of the ensemble, and of what is left without each part."""
    if rule is None:
        chosen = "Every threshold was chosen by cross-validation on the training notes."
    else:
        target = target_text(rule.rule, rule.wanted)
        chosen = f"Every threshold was chosen on the notes scored here, for {target}: the figures are optimistic."
    used = [f"{name}: {text}." for name, text in _MEANING.items() if any(row.members == name for row in rows)]
    return Results(
        [
            [
                Table(
                    " ".join(["Strict entity scores; change against the first row.", chosen, *used]),
                    (
                        *("system", "other submodels", "threshold", "P", "R", "F1", "change"),
                        *("paired 95% interval", "p", "token recall"),
                    ),
                    tuple(map(_ablation_cells, rows)),
                )
            ]
        ],
        [_ablation_record(row, rule) for row in rows],
        draw_points(
            [Point(row.name, None if row.counts is None else row.counts.f1) for row in rows], measure="strict F1"
        ),
    )


def _ablation_cells(row: AblationRow) -> tuple[str, ...]:
    if row.counts is None:
        return (row.name, row.members, "not reached", *[""] * 7)
    threshold = "" if row.threshold is None else four_digits(row.threshold)
    figures = (*counts_cells(row.counts), *difference_cells(row.difference))
    return (row.name, row.members, threshold, *figures, percent(row.token_recall, sign=""))


def _ablation_record(row: AblationRow, rule: ThresholdTarget | None) -> dict[str, Any]:
    """Return a row for JSON; where its threshold is not reached, its figures are null."""
    content: dict[str, Any] = {
        "system": row.name,
        "members": row.members,
        "threshold": row.threshold,
        "threshold_rule": "cross-validation" if rule is None else f"{rule.rule} {rule.wanted:g}",
        **counts_record(row.counts),
        "token_recall": row.token_recall,
    }
    return content | difference_record(row.difference, "f1_difference_to_ensemble", "interval_95", "p_value")


def counts_record(counts: Counts | None) -> dict[str, float | None]:
    """Return counts and their scores for JSON; null where there are none."""
    names = ("precision", "recall", "f1", "tp", "fp", "fn")
    return {name: None if counts is None else getattr(counts, name) for name in names}


def difference_record(difference: PairedDifference | None, value: str, interval: str, p: str) -> dict[str, Any]:
    """Return a difference, its interval and its p value for JSON under these names; empty where there is none."""
    if difference is None:
        return {}
    ends = difference.interval
    return {value: difference.difference, interval: [ends.low, ends.high], p: difference.p_value}
