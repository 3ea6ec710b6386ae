"""The tables of `cross-corpus`: a row for each corpus trained on, a column for each scored."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ensemble_deid.evaluation.bootstrap import Interval, bootstrap_interval
from ensemble_deid.evaluation.render.figures import percent
from ensemble_deid.evaluation.render.results import Point, Results, Table, draw_points, table
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.note.counts import Counts
from research.cross_corpus import Cell, DividedCorpus

VIEWS: Mapping[str, str] = {
    "token-binary": "PHI or not, tokens",
    "token": "with labels, tokens",
    "strict": "with labels, whole annotations",
}
_COLUMNS = ("trained_on", "scored_on", "view", "tp", "fp", "fn", "precision", "recall", "f1", "f1_low", "f1_high")


@dataclass(frozen=True, slots=True)
class CellFigures:
    """Counts of one cell in one view, and the bootstrap interval of F1 over the scored corpus's patients."""

    trained_on: str
    scored_on: str
    view: str
    counts: Counts
    f1_interval: Interval


def measure_cells(corpora: Sequence[DividedCorpus], cells: Sequence[Cell], *, resamples: int) -> list[CellFigures]:
    """Measure every cell in every view of `VIEWS`, systems as they are."""
    gold = {corpus.name: corpus.test for corpus in corpora}
    measured = []
    for view in VIEWS:
        for cell in cells:
            found = count_view(gold[cell.scored_on], cell.answer.answer, view)
            interval = bootstrap_interval(found.counts.sum(axis=1), found.groups, resamples=resamples)
            measured.append(CellFigures(cell.trained_on, cell.scored_on, view, found.total, interval))
    return measured


def cross_corpus_results(corpora: Sequence[DividedCorpus], measured: Sequence[CellFigures]) -> Results:
    """Return the matrices in every form; the table and the picture have a row for each cell."""
    points = [
        Point(f"{f.trained_on} on {f.scored_on}"[-40:], f.counts.f1, f.f1_interval.low, f.f1_interval.high)
        for f in measured
        if f.view == "strict"
    ]
    rows = []
    for f in measured:
        low, high = f.f1_interval.low, f.f1_interval.high
        ends = "undefined" if low is None or high is None else f"{percent(low)} to {percent(high)}"
        figures = (percent(f.counts.precision), percent(f.counts.recall), percent(f.counts.f1))
        rows.append((f.trained_on, f.scored_on, f.view, *figures, ends))
    heads = ("trained on", "scored on", "view", "P", "R", "F1", "95% interval of F1")
    return Results(
        Table("Systems trained on one corpus and scored on another", heads, tuple(rows)),
        _records(corpora, measured),
        draw_points(points, measure="strict F1, 95% interval"),
        text=cross_corpus_text(measured),
        csv=_csv(measured),
    )


def cross_corpus_text(measured: Sequence[CellFigures]) -> str:
    """Return the matrices of F1, sensitivity and positive predictive value of each view, in percent."""
    names = list(dict.fromkeys(figures.scored_on for figures in measured))
    blocks = []
    for view, what in VIEWS.items():
        cells = {(f.trained_on, f.scored_on): f.counts for f in measured if f.view == view}
        lines = [f"{what} (view {view}): rows are trained on, columns scored", ""]
        measures: Mapping[str, str] = {"F1": "f1", "sensitivity": "recall", "positive predictive value": "precision"}
        for measure, attribute in measures.items():
            rows = [[a, *(percent(getattr(cells[a, b], attribute)) for b in names)] for a in names]
            lines += [*table([measure, *names], rows), ""]
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def _csv(measured: Sequence[CellFigures]) -> str:
    """Return one line for each cell and view; a figure that is undefined is empty."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_figures(figures) for figures in measured)
    return stream.getvalue()


def _records(corpora: Sequence[DividedCorpus], measured: Sequence[CellFigures]) -> dict[str, Any]:
    """Return the sizes of the corpora and all figures for JSON."""
    sizes = [
        {"name": corpus.name, "training_notes": len(corpus.train), "scored_notes": len(corpus.test)}
        for corpus in corpora
    ]
    return {"corpora": sizes, "cells": [_figures(figures) for figures in measured]}


def _figures(figures: CellFigures) -> dict[str, Any]:
    counts, interval = figures.counts, figures.f1_interval
    values = (
        *(figures.trained_on, figures.scored_on, figures.view, counts.tp, counts.fp, counts.fn),
        *(counts.precision, counts.recall, counts.f1, interval.low, interval.high),
    )
    return dict(zip(_COLUMNS, values, strict=True))
