"""The combiners of one model on the same notes.

Murugadoss et al. 2021 take what any model claims; Zhao et al. 2020 let an SVM decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.evaluation.bootstrap import PairedDifference, paired_difference
from ensemble_deid.evaluation.render.figures import counts_cells, difference_cells, difference_record
from ensemble_deid.evaluation.render.results import Point, Results, Table, draw_points
from ensemble_deid.evaluation.views import CountTable, count_view
from ensemble_deid.model.ensemble import as_seen
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.options import COMBINERS, SVM, combine_named
from ensemble_deid.note.completion import complete
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.proven_numbers import add_proven_numbers
from ensemble_deid.training.reports import counts_record

VIEWS = ("strict", "token-binary")
"""Whole annotations with their labels; tokens as PHI or not, which is what removing PHI is about."""


@dataclass(frozen=True, slots=True)
class CombinerFigures:
    """One combiner in one view; the differences to the final estimator are None for that itself."""

    combiner: str
    view: str
    counts: Counts
    recall: PairedDifference | None
    f1: PairedDifference | None


def compare_combiners(
    model: Path, documents: Sequence[Document], *, resamples: int, seed: int = 0
) -> list[CombinerFigures]:
    """Score every combiner that the model can serve; each submodel runs once.

    `per-type` is left out for a model that does not say which submodels are best. Raises ModelError, and
    EvaluationError where there are no notes.
    """
    ensemble, _ = load_model(model)
    deidentifier = Deidentifier(ensemble)
    documents = [as_seen(document) for document in documents]
    batch = ensemble.feature_extractor.extract(documents)
    proposals = ensemble.propose(batch)
    answers: dict[str, list[Document]] = {}
    for combiner in COMBINERS:
        if combiner == SVM:
            found = ensemble.stacker.predict(proposals, batch)
        elif combiner == "per-type" and not ensemble.best_members:
            continue
        else:
            found = combine_named(combiner, proposals, labels=ensemble.scheme.labels, members=ensemble.best_members)
        labels = ensemble.scheme.labels
        completed = (
            complete(note.text, add_proven_numbers(note.text, spans, labels), labels)
            for note, spans in zip(documents, found, strict=True)
        )
        notes = (note.with_spans(spans) for note, spans in zip(documents, completed, strict=True))
        answers[combiner] = [deidentifier.without_listed(note)[0] for note in notes]
    figures = []
    for view in VIEWS:
        tables = {combiner: count_view(documents, answer, view) for combiner, answer in answers.items()}
        figures += [_figures(name, view, tables, resamples=resamples, seed=seed) for name in tables]
    return figures


def _figures(combiner: str, view: str, tables: dict[str, CountTable], *, resamples: int, seed: int) -> CombinerFigures:
    own, base = tables[combiner], tables[SVM]
    if combiner == SVM:
        return CombinerFigures(combiner, view, own.total, None, None)
    recall, f1 = (
        paired_difference(
            own.per_document, base.per_document, own.groups, measure=measure, resamples=resamples, seed=seed
        )
        for measure in ("recall", "f1")
    )
    return CombinerFigures(combiner, view, own.total, recall, f1)


def combiners_results(figures: Sequence[CombinerFigures], *, notes: int) -> Results:
    """Return the figures of every combiner in every view."""
    columns = ("combiner", "view", "P", "R", "F1", "recall minus svm", "95% interval", "p")
    rows = [
        (f.combiner, f.view, *counts_cells(f.counts), *difference_cells(f.recall), *difference_cells(f.f1))
        for f in figures
    ]
    caption = f"Combiners on {notes} notes; differences with paired bootstrap intervals over patients."
    return Results(
        [[Table(caption, (*columns, "F1 minus svm", "F1's 95% interval", "F1's p"), tuple(rows))]],
        [
            {"combiner": f.combiner, "view": f.view}
            | counts_record(f.counts)
            | difference_record(f.recall, "recall_minus_svm", "recall_interval_95", "recall_p_value")
            | difference_record(f.f1, "f1_minus_svm", "f1_interval_95", "f1_p_value")
            for f in figures
        ],
        draw_points([Point(f"{f.combiner}, {f.view}", f.counts.f1) for f in figures], measure="F1"),
    )
