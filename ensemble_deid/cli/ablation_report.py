"""An ablation as a Markdown table or as JSON."""

import json
from collections.abc import Sequence
from typing import Any

from ensemble_deid.cli.terminal import percent
from ensemble_deid.evaluation.operating_points import target_text
from ensemble_deid.experiments.ablate import AS_TRAINED, RETRAINED, AblationRow, ThresholdTarget

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


def ablation_table(rows: Sequence[AblationRow], rule: ThresholdTarget | None) -> str:
    """Return the rows as a Markdown table, below what its columns mean."""
    used = [members for members in _MEANING if any(row.members == members for row in rows)]
    lines = [
        f"Strict entity scores; change against the full ensemble. {threshold_sentence(rule)}",
        "",
        *(f"- {members}: {_MEANING[members]}" for members in used),
        "",
        "| system | other submodels | threshold | P | R | F1 | change | paired 95% interval |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(_line, rows)]) + "\n"


def _line(row: AblationRow) -> str:
    if row.counts is None:
        return f"| {row.name} | {row.members} | not reached | | | | | |"
    threshold = "" if row.threshold is None else f"{row.threshold:.4g}"
    figures = " | ".join(percent(v) for v in (row.counts.precision, row.counts.recall, row.counts.f1))
    change = interval = ""
    if row.difference is not None and row.difference.difference is not None:
        change = f"{100 * row.difference.difference:+.2f}"
        low, high = row.difference.interval.low, row.difference.interval.high
        interval = "undefined" if low is None or high is None else f"{100 * low:+.2f} to {100 * high:+.2f}"
    return f"| {row.name} | {row.members} | {threshold} | {figures} | {change} | {interval} |"


def ablation_json(rows: Sequence[AblationRow], rule: ThresholdTarget | None) -> str:
    """Return the rows as a JSON list; where a system's threshold is not reached, its figures are null."""
    return json.dumps([_as_dict(row, rule) for row in rows], indent=1) + "\n"


def _as_dict(row: AblationRow, rule: ThresholdTarget | None) -> dict[str, Any]:
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
