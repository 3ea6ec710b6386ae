"""Evaluations, comparisons of systems and agreement of annotators as results: what is printed, and the data."""

from collections.abc import Iterable, Sequence

from ensemble_deid.evaluation.bootstrap import PairedDifference, Share
from ensemble_deid.evaluation.compare import Agreement, Comparison
from ensemble_deid.evaluation.evaluate import Estimate, Evaluation, Macro, Score, ScorePart
from ensemble_deid.evaluation.official import OfficialScores
from ensemble_deid.evaluation.operating_points import OperatingPoints
from ensemble_deid.evaluation.render.data import agreement_data, comparison_data, evaluation_data, long_table
from ensemble_deid.evaluation.render.figures import (
    ROWS_OVERLAP,
    interval_text,
    missed_per_note_rows,
    notes_text,
    operating_rows,
    resampling_text,
    side_text,
    site_lines,
    with_interval,
)
from ensemble_deid.evaluation.render.results import Block, Point, Results, Table, draw_points
from ensemble_deid.evaluation.views import VIEWS
from ensemble_deid.note.digits import UNDEFINED, figure, percent


def comparison_results(
    comparison: Comparison, *, name_a: str = "A", name_b: str = "B", warnings: Sequence[str] = ()
) -> Results:
    rows = [
        (view, *_difference_cells(difference), figure(comparison.adjusted.get(f"{view} {difference.measure}")))
        for view, differences in comparison.differences.items()
        for difference in differences
    ]
    labels = [(row.label, *_difference_cells(row.difference)[1:], figure(row.holm_p)) for row in comparison.by_label]
    found = comparison.found
    header = (name_a, name_b, f"{name_a} - {name_b}", "p")
    blocks: list[Block] = [
        [
            f"{comparison.documents:,} notes of {comparison.patients:,} patients",
            resampling_text(comparison.resampling),
            "p: two-sided approximate randomisation over patients.",
        ],
        [Table("Everything; adjusted p after Holm", ("view", "measure", *header, "adjusted p"), tuple(rows))],
        [Table("F1 by label (strict); adjusted p after Holm", ("label", *header, "adjusted p"), tuple(labels))],
        [
            "Gold annotations found (strict)",
            f"  by both {found.both:,}; only by {name_a} {found.only_a:,}; only by {name_b} {found.only_b:,}; "
            f"by neither {found.neither:,}",
            "Spurious annotations",
            f"  of both {found.spurious_both:,}; only of {name_a} {found.spurious_only_a:,}; "
            f"only of {name_b} {found.spurious_only_b:,}",
        ],
    ]
    data = {"warnings": list(warnings), **comparison_data(comparison)}
    points = [
        Point(f"{view}, {name}", figure)
        for view, (f1, *_) in comparison.differences.items()
        for name, figure in ((name_a, f1.a), (name_b, f1.b))
    ]
    return Results(_with_rows(blocks), data, draw_points(points, measure="F1"), csv=long_table(data))


def agreement_results(agreement: Agreement) -> Results:
    kappas = [
        (kappa.naming, with_interval(kappa.kappa), figure(kappa.observed), figure(kappa.expected))
        for kappa in agreement.kappas
    ]

    def cells(name: str, score: Score) -> tuple[str, ...]:
        counts = score.counts
        return (name, with_interval(score.f1), f"{counts.tp:,}", f"{counts.fn:,}", f"{counts.fp:,}")

    totals = [cells(s.view, s) for s in agreement.scores if s.part == "total"]
    labels = [cells(s.name, s) for s in agreement.scores if (s.view, s.part) == ("strict", "label")]
    header = ("F1", "both", "only A", "only B")
    blocks: list[Block] = [
        [
            f"{agreement.documents:,} notes of {agreement.patients:,} patients, {agreement.tokens:,} tokens",
            side_text("A", agreement.a),
            side_text("B", agreement.b),
            resampling_text(agreement.resampling),
        ],
        [Table("Cohen's kappa per token", ("told apart", "kappa", "observed", "expected by chance"), tuple(kappas))],
        [Table("Pairwise F1", ("view", *header), tuple(totals))],
        [Table("Pairwise F1 by label (strict)", ("label", *header), tuple(labels))],
    ]
    data = agreement_data(agreement)
    points = [_point(s.view, s.f1) for s in agreement.scores if s.part == "total"]
    return Results(_with_rows(blocks), data, draw_points(points, measure="F1, 95% interval"), csv=long_table(data))


def _with_rows(blocks: Iterable[Block]) -> list[Block]:
    """Leave out the tables that have nothing to show."""
    return [[part for part in block if not isinstance(part, Table) or part.rows] for block in blocks]


def _difference_cells(difference: PairedDifference) -> tuple[str, ...]:
    return (
        difference.measure,
        figure(difference.a),
        figure(difference.b),
        figure(difference.difference) + interval_text(difference.interval),
        figure(difference.p_value),
    )


MOST_LABELS = 12
"""Labels of the summary; it says how many more there are."""

_HEADLINES = (
    ("entities: start, end and type", "strict"),
    ("tokens: type", "token"),
    ("tokens: PHI or not", "token-binary"),
)


def evaluation_results(
    evaluation: Evaluation,
    *,
    full: bool = False,
    official: OfficialScores | None = None,
    operating: OperatingPoints | None = None,
    warnings: Sequence[str] = (),
) -> Results:
    """Return the figures that matter most as some 30 lines, or with `full` every table; the data has all of them."""
    blocks = [*headline_blocks(evaluation), *(_every_table(evaluation) if full else [_labels(evaluation)])]
    if operating is not None:
        blocks.append(_operating_points(operating))
    data = {"warnings": list(warnings), **evaluation_data(evaluation, official=official, operating=operating)}
    points = [_point(view, evaluation.score(view).f1) for view in VIEWS]
    return Results(_with_rows(blocks), data, draw_points(points, measure="F1, 95% interval"), csv=long_table(data))


def _point(name: str, estimate: Estimate) -> Point:
    interval = estimate.interval
    return Point(name, estimate.value, *((None, None) if interval is None else (interval.low, interval.high)))


def headline_blocks(evaluation: Evaluation) -> list[Block]:
    """Return what was scored, the figures of entities and tokens, and the notes without a leak."""
    rows = [
        (name, *map(with_interval, (score.precision, score.recall, score.f1)))
        for name, score in ((name, evaluation.score(view)) for name, view in _HEADLINES)
    ]
    figures = Table("", ("exact match of", "precision", "recall", "F1"), tuple(rows))
    return [_head(evaluation), [figures], _redaction(evaluation)]


def _operating_points(operating: OperatingPoints) -> Block:
    """Return the operating points; the title says so where they are an oracle's."""
    title = f"Operating points ({operating.view})"
    if operating.oracle:
        title += " - ORACLE: the thresholds were chosen on the very notes they are reported on"
    header = ("", "threshold", "PPV", "sensitivity", "F1", "FN/1000", "FP/1000")
    return [Table(title, header, tuple(operating_rows(operating)))]


def _head(evaluation: Evaluation) -> list[str]:
    lines = [
        f"{notes_text(evaluation)}, {evaluation.tokens:,} tokens",
        side_text("gold", evaluation.gold),
        side_text("system", evaluation.system),
        resampling_text(evaluation.resampling),
        *site_lines(evaluation),
    ]
    if evaluation.labels is not None:
        lines.insert(1, f"only the labels {', '.join(evaluation.labels)}")
    return lines


def _redaction(evaluation: Evaluation) -> list[str]:
    total, direct, characters = evaluation.leaks.total, evaluation.leaks.direct, evaluation.leaks.characters
    rates = {rates.view: rates.false_negatives for rates in evaluation.token_rates}["token-binary"]
    return [
        "Redaction: gold PHI covered by annotations of the system, whatever their label",
        f"  notes without a direct identifier left: {_without(direct.notes)}",
        f"  patients without a direct identifier left: {_without(direct.patients)}",
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


def _labels(evaluation: Evaluation) -> Block:
    scores = [score for score in evaluation.scores if (score.view, score.part) == ("strict", "label")]
    scores.sort(key=lambda score: (-score.counts.gold, score.name))
    rows = [
        (score.name, f"{score.counts.gold:,}", *(figure(e.value) for e in (score.precision, score.recall, score.f1)))
        for score in scores[:MOST_LABELS]
    ]
    more = len(scores) - len(rows)
    columns = ("label", "gold", "precision", "recall", "F1")
    found = Table("By label (strict), most frequent first", columns, tuple(rows))
    return [found, f"and {more:,} more"] if more else [found]


def _every_table(evaluation: Evaluation) -> list[Block]:
    return [
        ["Views", *(f"  {view.name}: {view.definition}" for view in VIEWS.values())],
        [_score_table("All annotations", "view", ((s.view, s) for s in evaluation.scores if s.part == "total"))],
        [_macros(evaluation)],
        [_part(evaluation, "By label (strict)", "strict", "label")],
        [_part(evaluation, "By category (strict)", "strict", "category")],
        [_part(evaluation, "By category (tokens)", "token", "category")],
        [_part(evaluation, "Subsets (strict)", "strict", "subset")],
        [_part(evaluation, "Subsets (tokens, PHI or not)", "token-binary", "subset")],
        _token_rates(evaluation),
        *_leaks(evaluation),
    ]


def share_text(share: Share) -> str:
    """Return "count of total (share)", with the upper bound of the rate."""
    if share.share is None or share.upper is None:
        return f"{share.count:,} of {share.total:,} ({UNDEFINED})"
    text = f"{share.count:,} of {share.total:,} ({100 * share.share:.2f}%), at most {100 * share.upper:.2f}%"
    if share.three_in_n is not None:
        text += f" (rule of three: {100 * share.three_in_n:.2f}%)"
    return text


def _score_table(title: str, first: str, scores: Iterable[tuple[str, Score]]) -> Table:
    rows = [
        (
            name,
            *map(with_interval, (score.precision, score.recall, score.f1)),
            *(f"{count:,}" for count in (score.counts.tp, score.counts.fp, score.counts.fn)),
        )
        for name, score in scores
    ]
    return Table(title, (first, "precision", "recall", "F1", "TP", "FP", "FN"), tuple(rows))


def _part(evaluation: Evaluation, title: str, view: str, part: ScorePart) -> Table:
    return _score_table(title, part, ((s.name, s) for s in evaluation.scores if (s.view, s.part) == (view, part)))


def _macros(evaluation: Evaluation) -> Table:
    def cell(macro: Macro) -> str:
        if macro.mean is None or macro.sd is None:
            return UNDEFINED
        return f"{macro.mean:.4f} ({macro.sd:.4f}; n = {macro.documents:,})"

    rows = [(m.view, cell(m.precision), cell(m.recall), cell(m.f1)) for m in evaluation.macro]
    title = "Macro: mean over the notes where it is defined (SD; n notes)"
    return Table(title, ("view", "precision", "recall", "F1"), tuple(rows))


def _token_rates(evaluation: Evaluation) -> Block:
    rows = [
        (rates.view, with_interval(rates.false_negatives, 2), with_interval(rates.false_positives, 2))
        for rates in evaluation.token_rates
    ]
    near = evaluation.missed_beside_right
    share = UNDEFINED if near.share is None else f"{100 * near.share:.1f}%"
    beside = f"  missed tokens directly beside a right one: {near.count:,} of {near.total:,} ({share})"
    columns = ("view", "false negatives", "false positives")
    return [Table("Wrong tokens per 1000 tokens", columns, tuple(rows)), beside]


def _leaks(evaluation: Evaluation) -> list[Block]:
    leaks, intervals = evaluation.leaks, evaluation.leak_intervals
    characters = leaks.characters
    overall = [
        "Leaks: gold PHI of which a letter or digit is covered by no annotation of the system, whatever its label",
        f"  notes with a leak: {share_text(leaks.total.notes)}; share {with_interval(intervals.notes)}",
        f"  patients with a leak: {share_text(leaks.total.patients)}",
        f"  annotations missed: {share_text(leaks.total.phi)}; share {with_interval(intervals.phi)}",
        f"  annotations missed whole: {share_text(leaks.missed_whole)}",
        f"  characters leaked: {characters.count:,} of {characters.total:,}; "
        f"share {with_interval(intervals.characters)}",
        "  (at most: exact one-sided 95% upper bound of the rate, as if each were independent, which patients are)",
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
    per_note = ("errors per note", "notes", "errors", "cumulative", "coverage", "labels per note")
    kinds = [(row.kind or "(none)", f"{row.missed:,}", f"{row.phi:,}", share_text(row.notes)) for row in leaks.by_kind]
    return [
        overall,
        [Table(f"Leaks by label ({ROWS_OVERLAP})", header, tuple(rows))],
        [Table("Missed annotations per note", per_note, tuple(missed_per_note_rows(leaks)))],
        [Table("Leaks by note kind", ("kind", "missed", "annotations", "notes with a leak"), tuple(kinds))],
    ]
