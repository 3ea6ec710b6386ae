"""Comparisons of systems and of annotators as text for a terminal."""

from collections.abc import Iterable

from ensemble_deid.evaluation.agreement import Agreement
from ensemble_deid.evaluation.bootstrap import PairedDifference
from ensemble_deid.evaluation.bounds import Share
from ensemble_deid.evaluation.compare import Comparison
from ensemble_deid.evaluation.evaluate import Evaluation
from ensemble_deid.evaluation.operating_points import OperatingPoints
from ensemble_deid.evaluation.render.figures import (
    UNDEFINED,
    figure,
    interval_text,
    missed_per_note_rows,
    notes_text,
    percent,
    point_cells,
    resampling_text,
    side_text,
    with_interval,
)
from ensemble_deid.evaluation.render.results import table
from ensemble_deid.evaluation.scores import Macro, Part, Score
from ensemble_deid.evaluation.views import VIEWS

# Comparisons of systems and of annotators as text for a terminal.


def render_comparison(comparison: Comparison, *, name_a: str = "A", name_b: str = "B") -> str:
    """Return a comparison as text, the systems called by their names."""
    rows = [
        (view, *_difference_cells(difference))
        for view, differences in comparison.differences.items()
        for difference in differences
    ]
    labels = [(row.label, *_difference_cells(row.difference)[1:], figure(row.holm_p)) for row in comparison.by_label]
    found = comparison.found
    header = (name_a, name_b, f"{name_a} - {name_b}", "p")
    blocks = [
        [
            f"{comparison.documents:,} notes of {comparison.patients:,} patients",
            resampling_text(comparison.resampling),
            "p: two-sided approximate randomisation over patients.",
        ],
        ["Everything", *table(("view", "measure", *header), rows)],
        ["F1 by label (strict); adjusted p after Holm", *table(("label", *header, "adjusted p"), labels)],
        [
            "Gold annotations found (strict)",
            f"  by both {found.both:,}; only by {name_a} {found.only_a:,}; only by {name_b} {found.only_b:,}; "
            f"by neither {found.neither:,}",
            "Spurious annotations",
            f"  of both {found.spurious_both:,}; only of {name_a} {found.spurious_only_a:,}; "
            f"only of {name_b} {found.spurious_only_b:,}",
        ],
    ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def render_agreement(agreement: Agreement) -> str:
    """Return annotators' agreement as text."""
    kappas = [
        (kappa.naming, with_interval(kappa.kappa), figure(kappa.observed), figure(kappa.expected))
        for kappa in agreement.kappas
    ]
    totals = [
        (s.view, with_interval(s.f1), f"{s.counts.tp:,}", f"{s.counts.fn:,}", f"{s.counts.fp:,}")
        for s in agreement.scores
        if s.part == "total"
    ]
    labels = [
        (s.name, with_interval(s.f1), f"{s.counts.tp:,}", f"{s.counts.fn:,}", f"{s.counts.fp:,}")
        for s in agreement.scores
        if (s.view, s.part) == ("strict", "label")
    ]
    header = ("F1", "both", "only A", "only B")
    blocks = [
        [
            f"{agreement.documents:,} notes of {agreement.patients:,} patients, {agreement.tokens:,} tokens",
            side_text("A", agreement.a),
            side_text("B", agreement.b),
            resampling_text(agreement.resampling),
        ],
        [
            "Cohen's kappa per token",
            *table(("told apart", "kappa", "observed", "expected by chance"), kappas),
        ],
        ["Pairwise F1", *table(("view", *header), totals)],
        ["Pairwise F1 by label (strict)", *table(("label", *header), labels)],
    ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _difference_cells(difference: PairedDifference) -> tuple[str, ...]:
    return (
        difference.measure,
        figure(difference.a),
        figure(difference.b),
        figure(difference.difference) + interval_text(difference.interval),
        figure(difference.p_value),
    )


# An evaluation on one screen: the figures that most readers look for.


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


# Every table of an evaluation as text for a terminal.


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
