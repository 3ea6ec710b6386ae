"""The tables of `cross-corpus`: a row for each corpus trained on, a column for each scored."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ensemble_deid.evaluation.bootstrap import Interval, bootstrap_interval
from ensemble_deid.evaluation.render.figures import range_text
from ensemble_deid.evaluation.render.results import Block, Point, Results, Table, draw_points
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.digits import percent
from research.cross_corpus import Cell, DividedCorpus

VIEWS: Mapping[str, str] = {
    "token-binary": "PHI or not, tokens",
    "token": "with labels, tokens",
    "strict": "with labels, whole annotations",
}
_COLUMNS = ("trained_on", "scored_on", "view", "tp", "fp", "fn", "precision", "recall", "f1", "f1_low", "f1_high")


def csv_of(records: Sequence[Mapping[str, Any]]) -> str:
    """Return records of the same keys as CSV; None is empty."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return stream.getvalue()


@dataclass(frozen=True, slots=True)
class CellFigures:
    """Counts of one cell in one view, and the bootstrap interval of F1 over the scored corpus's patients."""

    trained_on: str
    scored_on: str
    view: str
    counts: Counts
    f1_interval: Interval


_MEASURES: Mapping[str, Callable[[CellFigures], str]] = {
    "F1": lambda cell: percent(cell.counts.f1),
    "95% interval of F1": lambda cell: range_text(cell.f1_interval),
    "sensitivity": lambda cell: percent(cell.counts.recall),
    "positive predictive value": lambda cell: percent(cell.counts.precision),
}


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
    """Return the matrices; the picture and CSV have a row for each cell."""
    points = [
        Point(f"{f.trained_on} on {f.scored_on}"[-40:], f.counts.f1, f.f1_interval.low, f.f1_interval.high)
        for f in measured
        if f.view == "strict"
    ]
    return Results(
        list(_matrices(measured)),
        _records(corpora, measured),
        draw_points(points, measure="strict F1, 95% interval"),
        csv=csv_of(list(map(_figures, measured))),
    )


def _matrices(measured: Sequence[CellFigures]) -> Iterator[Block]:
    """Yield matrices of F1 and its interval, sensitivity and positive predictive value, in percent, by view."""
    names = tuple(dict.fromkeys(figures.scored_on for figures in measured))
    for view, what in VIEWS.items():
        cells = {(f.trained_on, f.scored_on): f for f in measured if f.view == view}
        yield [f"{what} (view {view}): rows are trained on, columns scored"]
        for measure, cell in _MEASURES.items():
            rows = tuple((a, *(cell(cells[a, b]) for b in names)) for a in names)
            yield [Table("", (measure, *names), rows)]


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
