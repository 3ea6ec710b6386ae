"""An evaluation on one screen: the figures that most readers look for."""

from ensemble_deid.evaluation.bounds import Share
from ensemble_deid.evaluation.evaluate import Evaluation
from ensemble_deid.evaluation.operating_points import OperatingPoints
from ensemble_deid.evaluation.render.figures import (
    figure,
    notes_text,
    percent,
    point_cells,
    resampling_text,
    side_text,
    with_interval,
)
from ensemble_deid.evaluation.render.text.table import table

MOST_LABELS = 12
"""Labels of the summary; it says how many more there are."""

_HEADLINES = (
    ("entities: start, end and type", "strict"),
    ("tokens: type", "token"),
    ("tokens: PHI or not", "token-binary"),
)


def render_summary(evaluation: Evaluation, *, operating: OperatingPoints | None = None) -> str:
    """Return the figures that matter most as some 30 lines, and operating points where there are any."""
    blocks = [*headline_blocks(evaluation), _labels(evaluation)]
    if operating is not None:
        blocks.append(operating_lines(operating))
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def headline_blocks(evaluation: Evaluation) -> list[list[str]]:
    """Return what was scored, the figures of entities and tokens, and the notes without a leak."""
    return [_head(evaluation), _figures(evaluation), _redaction(evaluation)]


def operating_lines(operating: OperatingPoints) -> list[str]:
    """Return the lines on operating points; an oracle's say so in their title."""
    title = f"Operating points ({operating.view})"
    if operating.oracle:
        title += " - ORACLE: the thresholds were chosen on the very notes they are reported on"
    recall = operating.recall_at_precision
    rows = [("as it is", *point_cells(operating.as_it_is))]
    for reported in operating.sensitivities:
        name = f"sensitivity {100 * reported.chosen.wanted:g}%"
        if reported.point is None:
            rows.append((name, "not reached", *[""] * 5))
        else:
            rows.append((name, *point_cells(reported.point)))
    note = "" if recall.adjusted else " (not adjusted: below it as it is)"
    rows.append((f"recall at precision {100 * recall.precision:g}%{note}", *point_cells(recall.reported)))
    header = ("", "threshold", "PPV", "sensitivity", "F1", "FN/1000", "FP/1000")
    return [title, *table(header, rows)]


def _head(evaluation: Evaluation) -> list[str]:
    lines = [
        f"{notes_text(evaluation)}, {evaluation.tokens:,} tokens",
        side_text("gold", evaluation.gold),
        side_text("system", evaluation.system),
        resampling_text(evaluation.resampling),
    ]
    if evaluation.labels is not None:
        lines.insert(1, f"only the labels {', '.join(evaluation.labels)}")
    return lines


def _figures(evaluation: Evaluation) -> list[str]:
    rows = [
        (name, *(with_interval(estimate) for estimate in (score.precision, score.recall, score.f1)))
        for name, score in ((name, evaluation.score(view)) for name, view in _HEADLINES)
    ]
    return table(("exact match of", "precision", "recall", "F1"), rows)


def _redaction(evaluation: Evaluation) -> list[str]:
    total, characters = evaluation.leaks.total, evaluation.leaks.characters
    rates = {rates.view: rates.false_negatives for rates in evaluation.token_rates}["token-binary"]
    return [
        "Redaction: gold PHI covered by annotations of the system, whatever their label",
        f"  notes fully redacted: {_without(total.notes)}",
        f"  patients with all notes fully redacted: {_without(total.patients)}",
        f"  letters and digits of PHI left: {characters.count:,} of {characters.total:,} ({percent(characters.share)})",
        f"  PHI tokens missed per 1000 tokens of the notes: {with_interval(rates, 2)}",
    ]


def _without(leaking: Share) -> str:
    """Return how many have no leak, with the exact one-sided 95% lower bound of their rate."""
    clear = Share(leaking.total - leaking.count, leaking.total)
    least = "" if leaking.upper is None else f", at least {percent(1 - leaking.upper)} (one-sided 95% bound)"
    return f"{clear.count:,} of {clear.total:,} ({percent(clear.share)}){least}"


def _labels(evaluation: Evaluation) -> list[str]:
    scores = [score for score in evaluation.scores if (score.view, score.part) == ("strict", "label")]
    scores.sort(key=lambda score: (-score.counts.gold, score.name))
    rows = [
        (score.name, f"{score.counts.gold:,}", *(figure(e.value) for e in (score.precision, score.recall, score.f1)))
        for score in scores[:MOST_LABELS]
    ]
    if not rows:
        return []
    more = len(scores) - len(rows)
    lines = ["By label (strict), most frequent first", *table(("label", "gold", "precision", "recall", "F1"), rows)]
    return [*lines, f"and {more:,} more"] if more else lines
