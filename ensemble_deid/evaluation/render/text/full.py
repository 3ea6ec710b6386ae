"""Every table of an evaluation as text for a terminal."""

from collections.abc import Iterable

from ensemble_deid.evaluation.bounds import Share
from ensemble_deid.evaluation.evaluate import Evaluation
from ensemble_deid.evaluation.operating_points import OperatingPoints
from ensemble_deid.evaluation.render.figures import (
    UNDEFINED,
    figure,
    missed_per_note_rows,
    with_interval,
)
from ensemble_deid.evaluation.render.text.summary import headline_blocks, operating_lines
from ensemble_deid.evaluation.render.text.table import table
from ensemble_deid.evaluation.scores import Macro, Part, Score
from ensemble_deid.evaluation.views import VIEWS

_SCORE_HEADER = ("precision", "recall", "F1", "TP", "FP", "FN")


def render_full(evaluation: Evaluation, *, operating: OperatingPoints | None = None) -> str:
    """Return the headline figures, then every table, and operating points where there are any."""
    blocks = [
        *headline_blocks(evaluation),
        ["Views", *(f"  {view.name}: {view.definition}" for view in VIEWS.values())],
        ["All annotations", *_score_table("view", ((s.view, s) for s in evaluation.scores if s.part == "total"))],
        _macros(evaluation),
        _part(evaluation, "By label (strict)", "strict", "label"),
        _part(evaluation, "By category (strict)", "strict", "category"),
        _part(evaluation, "By category (tokens)", "token", "category"),
        _part(evaluation, "Subsets (strict)", "strict", "subset"),
        _part(evaluation, "Subsets (tokens, PHI or not)", "token-binary", "subset"),
        _token_rates(evaluation),
        *_leaks(evaluation),
    ]
    if operating is not None:
        blocks.append(operating_lines(operating))
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def share_text(share: Share) -> str:
    """Return "count of total (share)", with the upper bound of the rate."""
    if share.share is None or share.upper is None:
        return f"{share.count:,} of {share.total:,} ({UNDEFINED})"
    text = f"{share.count:,} of {share.total:,} ({100 * share.share:.2f}%), at most {100 * share.upper:.2f}%"
    if share.three_in_n is not None:
        text += f" (rule of three: {100 * share.three_in_n:.2f}%)"
    return text


def _score_table(first: str, scores: Iterable[tuple[str, Score]]) -> list[str]:
    rows = [
        (
            name,
            with_interval(score.precision),
            with_interval(score.recall),
            with_interval(score.f1),
            *(f"{count:,}" for count in (score.counts.tp, score.counts.fp, score.counts.fn)),
        )
        for name, score in scores
    ]
    return table((first, *_SCORE_HEADER), rows)


def _part(evaluation: Evaluation, title: str, view: str, part: Part) -> list[str]:
    lines = _score_table(part, ((s.name, s) for s in evaluation.scores if (s.view, s.part) == (view, part)))
    return [title, *lines] if lines else []


def _macros(evaluation: Evaluation) -> list[str]:
    def cell(macro: Macro) -> str:
        if macro.mean is None or macro.sd is None:
            return UNDEFINED
        return f"{macro.mean:.4f} ({macro.sd:.4f}; n = {macro.documents:,})"

    rows = [(m.view, cell(m.precision), cell(m.recall), cell(m.f1)) for m in evaluation.macro]
    title = "Macro: mean over the notes where it is defined (SD; n notes)"
    return [title, *table(("view", "precision", "recall", "F1"), rows)]


def _token_rates(evaluation: Evaluation) -> list[str]:
    rows = [
        (rates.view, with_interval(rates.false_negatives, 2), with_interval(rates.false_positives, 2))
        for rates in evaluation.token_rates
    ]
    near = evaluation.missed_beside_right
    share = UNDEFINED if near.share is None else f"{100 * near.share:.1f}%"
    beside = f"  missed tokens directly beside a right one: {near.count:,} of {near.total:,} ({share})"
    return ["Wrong tokens per 1000 tokens", *table(("view", "false negatives", "false positives"), rows), beside]


def _leaks(evaluation: Evaluation) -> list[list[str]]:
    leaks, intervals = evaluation.leaks, evaluation.leak_intervals
    characters = leaks.characters
    blocks = [
        [
            "Leaks: gold PHI of which a letter or digit is covered by no annotation of the system, whatever its label",
            f"  notes with a leak: {share_text(leaks.total.notes)}; share {with_interval(intervals.notes)}",
            f"  patients with a leak: {share_text(leaks.total.patients)}",
            f"  annotations missed: {share_text(leaks.total.phi)}; share {with_interval(intervals.phi)}",
            f"  annotations missed whole: {share_text(leaks.missed_whole)}",
            f"  characters leaked: {characters.count:,} of {characters.total:,}; "
            f"share {with_interval(intervals.characters)}",
            "  (at most: exact one-sided 95% upper bound of the rate, as if each were independent, which patients are)",
        ]
    ]
    header = ("label", "missed", "annotations", "notes with a leak", "patients with a leak", "at most (patients)")
    rows = [
        (
            label,
            f"{row.phi.count:,}",
            f"{row.phi.total:,}",
            f"{row.notes.count:,} of {row.notes.total:,}",
            f"{row.patients.count:,} of {row.patients.total:,}",
            figure(row.patients.upper),
        )
        for label, row in leaks.by_label.items()
    ]
    blocks.append(["Leaks by label", *table(header, rows)] if rows else [])
    if leaks.by_errors:
        blocks.append(["Missed annotations per note", *_by_errors(evaluation)])
    if leaks.by_kind:
        blocks.append(["Leaks by note kind", *_by_kind(evaluation)])
    return blocks


def _by_errors(evaluation: Evaluation) -> list[str]:
    header = ("errors per note", "notes", "errors", "cumulative", "coverage", "labels per note")
    return table(header, missed_per_note_rows(evaluation.leaks))


def _by_kind(evaluation: Evaluation) -> list[str]:
    rows = [
        (row.kind or "(none)", f"{row.missed:,}", f"{row.phi:,}", share_text(row.notes))
        for row in evaluation.leaks.by_kind
    ]
    return table(("kind", "missed", "annotations", "notes with a leak"), rows)
