"""Comparisons of systems and of annotators as text for a terminal."""

from ensemble_deid.evaluation.agreement import Agreement
from ensemble_deid.evaluation.bootstrap import PairedDifference
from ensemble_deid.evaluation.compare import Comparison
from ensemble_deid.evaluation.render.figures import figure, interval_text, resampling_text, side_text, with_interval
from ensemble_deid.evaluation.render.text.table import table


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
