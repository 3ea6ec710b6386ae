"""The tables and the picture of `customize`: recall against the number of annotated PHI instances."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ensemble_deid.evaluation.bootstrap import PairedDifference, paired_difference
from ensemble_deid.evaluation.curve import OperatingPoint, has_scores, trace_curve
from ensemble_deid.evaluation.operating_points import find_point
from ensemble_deid.evaluation.render.figures import interval_text
from ensemble_deid.evaluation.render.html.markup import Html, element
from ensemble_deid.evaluation.render.results import Block, Results, Table
from ensemble_deid.evaluation.views import count_view, resampled_units
from ensemble_deid.note.digits import percent
from ensemble_deid.note.document import Document
from research.cross_corpus_report import csv_of
from research.customize import OFF_THE_SHELF, WAYS, CustomizedSystem

_COLUMNS = ("way", "budget", "phi", "notes", "precision", "recall", "f1", "precision_at", "recall_at", "threshold_at")
_COLOURS = {WAYS[0]: "#b05a00", WAYS[1]: "#1f5fa8", WAYS[2]: "#3a7d34"}
_DASHES = {WAYS[0]: "2 3", WAYS[1]: "", WAYS[2]: "7 4"}


@dataclass(frozen=True, slots=True)
class CustomizeRow:
    """A system's figures: as it is, and at the highest recall whose precision is at least the wanted one.

    `at_precision` is the point as it is where that has a lower precision (Hartman et al. do not adjust it then);
    `adjusted` says that it was adjusted. `difference` is the recall as it is less that off the shelf, with a paired
    bootstrap interval; None for the system off the shelf itself.
    """

    system: CustomizedSystem
    as_it_is: OperatingPoint
    at_precision: OperatingPoint
    adjusted: bool
    difference: PairedDifference | None


@dataclass(frozen=True, slots=True)
class CustomizeTable:
    """All rows, off the shelf first; `view` says what is counted, `precision` which one is asked for."""

    view: str
    precision: float
    rows: tuple[CustomizeRow, ...]


def measure_customized(
    gold: Sequence[Document],
    systems: Sequence[CustomizedSystem],
    *,
    view: str,
    precision: float,
    resamples: int,
) -> CustomizeTable:
    """Measure every answer on the scored notes. Thresholds at a precision are read off these notes' own curve."""
    base = count_view(gold, systems[0].answer.answer, view)
    rows = []
    for system in systems:
        curve = trace_curve(gold, system.answer.scored, view=view)
        as_it_is = curve.at(system.answer.threshold)
        found = as_it_is.counts.precision
        point = None
        if has_scores(system.answer.scored) and found is not None and found >= precision:
            point = find_point(curve, rule="precision", wanted=precision)
        difference = None
        if system.way != OFF_THE_SHELF:
            own = count_view(gold, system.answer.answer, view).counts.sum(axis=1)
            difference = paired_difference(
                own, base.counts.sum(axis=1), resampled_units(gold, base), measure="recall", resamples=resamples
            )
        rows.append(CustomizeRow(system, as_it_is, point or as_it_is, point is not None, difference))
    return CustomizeTable(view, precision, tuple(rows))


def customize_results(found: CustomizeTable) -> Results:
    """Return the table in every form."""
    header, rows, notes = _cells(found)
    blocks: list[Block] = [[Table("", header, tuple(rows))], notes]
    return Results(blocks, _records(found), customize_picture(found), csv=csv_of(list(map(_figures, found.rows))))


def _cells(found: CustomizeTable) -> tuple[tuple[str, ...], list[tuple[str, ...]], list[str]]:
    """Return heads, rows, and what they mean."""
    wanted = f"{100 * found.precision:g}"
    header = (
        "way",
        "PHI of B",
        "notes of B",
        "precision",
        "recall",
        "F1",
        f"recall at precision {wanted}",
        "recall gained",
    )
    rows: list[tuple[str, ...]] = [
        (
            row.system.way,
            f"{row.system.phi:,}",
            f"{row.system.notes:,}",
            percent(row.as_it_is.counts.precision),
            percent(row.as_it_is.counts.recall),
            percent(row.as_it_is.counts.f1),
            percent(row.at_precision.counts.recall) + ("" if row.adjusted else " *"),
            _gain(row.difference),
        )
        for row in found.rows
    ]
    notes = [
        f"Counted in the view {found.view}. Recall at precision {wanted}: the highest recall of all thresholds at "
        f"which precision is {wanted}% or more, read off the curve of the scored notes, so the most that can be had.",
        f"* Not adjusted, since precision as it is lies below {wanted}%.",
        "Recall gained: as it is, less that off the shelf, with the 95% interval of a paired bootstrap over sites, or "
        "over patients where there are fewer than ten sites (none for fewer than ten patients).",
    ]
    return header, rows, notes


def _records(found: CustomizeTable) -> dict[str, Any]:
    """Return all figures, with counts and intervals, for JSON."""
    rows = []
    for row in found.rows:
        counts, difference = row.as_it_is.counts, row.difference
        content = {**_figures(row), "adjusted": row.adjusted, "tp": counts.tp, "fp": counts.fp, "fn": counts.fn}
        if difference is not None:
            ends = (difference.interval.low, difference.interval.high)
            content |= {"recall_gained": difference.difference, "interval": ends, "p_value": difference.p_value}
        rows.append(content)
    return {"view": found.view, "precision": found.precision, "systems": rows}


def _figures(row: CustomizeRow) -> Mapping[str, Any]:
    as_it_is, at = row.as_it_is.counts, row.at_precision
    values = (
        *(row.system.way, row.system.budget, row.system.phi, row.system.notes),
        *(as_it_is.precision, as_it_is.recall, as_it_is.f1),
        *(at.counts.precision, at.counts.recall, at.threshold),
    )
    return dict(zip(_COLUMNS, values, strict=True))


def _gain(difference: PairedDifference | None) -> str:
    if difference is None or difference.difference is None:
        return "-"
    return f"{difference.difference:+.4f}{interval_text(difference.interval)}"


_WIDTH, _HEIGHT, _LEFT, _TOP, _SPAN_X, _SPAN_Y = 560, 380, 56, 16, 480, 290


def customize_picture(found: CustomizeTable) -> str:
    """Return figure 2 of the paper as SVG: recall at precision over the PHI instances of B, on a logarithmic scale."""
    most = max(row.system.phi for row in found.rows)

    def x(phi: int) -> float:
        return round(_LEFT + _SPAN_X * math.log1p(phi) / math.log1p(max(1, most)), 2)

    def y(recall: float) -> float:
        return round(_TOP + _SPAN_Y * (1 - recall), 2)

    parts = _axes(sorted({row.system.phi for row in found.rows}), x, y)
    shelf = found.rows[0].at_precision.counts.recall
    if shelf is not None:
        ends, height = (_LEFT, _LEFT + _SPAN_X), y(shelf)
        parts.append(
            element("line", x1=ends[0], x2=ends[1], y1=height, y2=height, stroke="#555", stroke_dasharray="1 3")
        )
    for k, way in enumerate(way for way in WAYS if any(row.system.way == way for row in found.rows)):
        rows = [row for row in found.rows if row.system.way == way]
        points = [(x(row.system.phi), y(r)) for row in rows if (r := row.at_precision.counts.recall) is not None]
        dots = [element("circle", cx=px, cy=py, r=3, fill=_COLOURS[way]) for px, py in points]
        path = " ".join(f"{px},{py}" for px, py in points)
        colour, dash = _COLOURS[way], _DASHES[way] or None
        line = element("polyline", points=path, fill="none", stroke=colour, stroke_width=2, stroke_dasharray=dash)
        parts += [line, *dots]
        parts.append(element("text", way, x=_LEFT + 8 + 110 * k, y=_HEIGHT - 6, fill=_COLOURS[way]))
    parts.append(element("text", OFF_THE_SHELF, x=_LEFT + 350, y=_HEIGHT - 6, fill="#555"))
    drawing = element(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        width=_WIDTH,
        font_family="sans-serif",
        font_size=12,
        role="img",
        aria_label="Recall by number of annotated PHI instances",
    )
    return f"{drawing}\n"


def _axes(phi: Sequence[int], x: Any, y: Any) -> list[Html]:
    parts: list[Html] = []
    for step in range(6):
        height = y(step / 5)
        parts.append(element("line", x1=_LEFT, x2=_LEFT + _SPAN_X, y1=height, y2=height, stroke="#ddd"))
        parts.append(element("text", f"{step / 5:.1f}", x=_LEFT - 8, y=height + 4, text_anchor="end"))
    parts += [element("text", str(n), x=x(n), y=_TOP + _SPAN_Y + 18, text_anchor="middle") for n in phi]
    middle = _LEFT + _SPAN_X / 2
    parts.append(element("text", "annotated PHI instances of B", x=middle, y=_TOP + _SPAN_Y + 38, text_anchor="middle"))
    parts.append(element("text", "recall", x=14, y=_TOP - 2))
    return parts
