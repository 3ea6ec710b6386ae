"""An ablation in every form: Markdown, CSV, LaTeX, JSON and a picture."""

from collections.abc import Sequence
from typing import Any

from ensemble_deid.cli.terminal import percent
from ensemble_deid.evaluation.operating_points import target_text
from ensemble_deid.evaluation.render.publication import Point, Publication, Table, draw_points
from ensemble_deid.note.digits import four_digits
from ensemble_deid.training.ablate import AS_TRAINED, RETRAINED, AblationRow, ThresholdTarget

COLUMNS = ("system", "other submodels", "threshold", "P", "R", "F1", "change", "paired 95% interval", "p")
_MEANING = {
    AS_TRAINED: "the submodel's candidates and its features of the final estimator are dropped; "
    "the other submodels stay as trained, and may still see the patterns as features",
    RETRAINED: "the other submodels are trained again without the patterns as features",
}


def threshold_sentence(rule: ThresholdTarget | None) -> str:
    """Say how the thresholds of all systems were chosen."""
    if rule is None:
        return "Every threshold was chosen by cross-validation on the training notes."
    return (
        f"Every threshold was chosen on the notes scored here, for {target_text(rule.rule, rule.wanted)}: "
        "the figures are optimistic."
    )


def render_ablation(rows: Sequence[AblationRow], rule: ThresholdTarget | None, *, form: str) -> str:
    """Return the rows in the form of a file's suffix: .json, .csv, .tex, .svg, and Markdown for any other."""
    caption = f"Strict entity scores; change against the first row. {threshold_sentence(rule)}"
    published = Publication(
        Table(caption, COLUMNS, tuple(map(_cells, rows))),
        [_as_dict(row, rule) for row in rows],
        draw_points(
            [Point(row.name, None if row.counts is None else row.counts.f1) for row in rows], measure="strict F1"
        ),
        text=ablation_table(rows, rule),
    )
    return published.render(form if form in (".json", ".csv", ".tex", ".svg") else ".txt")


def ablation_table(rows: Sequence[AblationRow], rule: ThresholdTarget | None) -> str:
    """Return the rows as a Markdown table, below what its columns mean."""
    used = [members for members in _MEANING if any(row.members == members for row in rows)]
    lines = [
        f"Strict entity scores; change against the full ensemble. {threshold_sentence(rule)}",
        "",
        *(f"- {members}: {_MEANING[members]}" for members in used),
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|" + "---|" * len(COLUMNS),
    ]
    return "\n".join([*lines, *map(_line, rows)]) + "\n"


def _line(row: AblationRow) -> str:
    return f"| {' | '.join(_cells(row))} |"


def _cells(row: AblationRow) -> tuple[str, ...]:
    if row.counts is None:
        return (row.name, row.members, "not reached", *[""] * (len(COLUMNS) - 3))
    threshold = "" if row.threshold is None else four_digits(row.threshold)
    figures = [percent(v) for v in (row.counts.precision, row.counts.recall, row.counts.f1)]
    change = interval = p = ""
    if row.difference is not None and row.difference.difference is not None:
        change = f"{100 * row.difference.difference:+.2f}"
        low, high = row.difference.interval.low, row.difference.interval.high
        interval = "undefined" if low is None or high is None else f"{100 * low:+.2f} to {100 * high:+.2f}"
        p = "" if row.difference.p_value is None else f"{row.difference.p_value:.4f}"
    return (row.name, row.members, threshold, *figures, change, interval, p)


def _as_dict(row: AblationRow, rule: ThresholdTarget | None) -> dict[str, Any]:
    """Return a row for JSON; where its threshold is not reached, its figures are null."""
    counts = row.counts
    content: dict[str, Any] = {
        "system": row.name,
        "members": row.members,
        "threshold": row.threshold,
        "threshold_rule": "cross-validation" if rule is None else f"{rule.rule} {rule.wanted:g}",
        "precision": counts and counts.precision,
        "recall": counts and counts.recall,
        "f1": counts and counts.f1,
        "tp": counts and counts.tp,
        "fp": counts and counts.fp,
        "fn": counts and counts.fn,
    }
    if row.difference is not None:
        content["f1_difference_to_ensemble"] = row.difference.difference
        content["interval_95"] = [row.difference.interval.low, row.difference.interval.high]
        content["p_value"] = row.difference.p_value
    return content
