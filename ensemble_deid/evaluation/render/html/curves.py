"""The report's curves and operating points."""

import json

from ensemble_deid.evaluation.curve import Curve, OperatingPoint, spread
from ensemble_deid.evaluation.operating_points import OperatingPoints
from ensemble_deid.evaluation.render.figures import figure
from ensemble_deid.evaluation.render.html.charts import ORIGIN_X, ORIGIN_Y, SPAN_X, SPAN_Y, curves, place
from ensemble_deid.evaluation.render.html.markup import Html, element
from ensemble_deid.evaluation.render.html.tables import data_table, section

MOST_POINTS = 400


def operating_section(curve: Curve | None, operating: OperatingPoints | None) -> Html:
    """Draw the curves of a system with scores, and list its operating points where they were chosen."""
    if curve is None or not len(curve):
        line = "The system does not score its annotations, so there is no threshold to move."
        return section("curves", "Precision, recall and thresholds", element("p", line))
    points = [curve.point(index) for index in spread(len(curve), MOST_POINTS)]
    return section(
        "curves",
        "Precision, recall and thresholds",
        element("p", f"Counted as {curve.view}: an annotation is kept when its score is at least the threshold."),
        element("div", _precision_recall(points), _by_threshold(points), class_="charts"),
        _reader(points),
        _table(operating) if operating is not None else None,
    )


def _precision_recall(points: list[OperatingPoint]) -> Html:
    known = [(p.counts.recall, p.counts.precision) for p in points]
    line = [(recall, precision) for recall, precision in known if recall is not None and precision is not None]
    dot = element(
        "circle",
        id="pr-dot",
        r=5,
        cx=-9,
        cy=-9,
        fill="var(--accent)",
        data_x0=ORIGIN_X,
        data_w=SPAN_X,
        data_y0=ORIGIN_Y,
        data_h=SPAN_Y,
    )
    drawing = curves([("c1", "", line)], x="recall", y="precision", description="Precision against recall", extra=[dot])
    return element("figure", element("figcaption", "Precision and recall"), drawing)


def _by_threshold(points: list[OperatingPoint]) -> Html:
    def line(value: str) -> list[tuple[float, float]]:
        pairs = [(point.threshold, getattr(point.counts, value)) for point in points]
        return [(threshold, figure) for threshold, figure in pairs if figure is not None]

    x, _ = place((0.0, 0.0))
    cursor = element(
        "line",
        x1=x,
        x2=x,
        y1=ORIGIN_Y,
        y2=ORIGIN_Y - SPAN_Y,
        stroke="var(--ink)",
        stroke_width=1,
        class_="screen",
        data_x0=ORIGIN_X,
        data_w=SPAN_X,
    )
    lines = [("c1", "", line("precision")), ("c2", "7 4", line("recall")), ("c3", "2 3", line("f1"))]
    keys = [("c1", "precision"), ("c2 dash", "recall"), ("c3 dot", "F1")]
    return element(
        "figure",
        element("figcaption", "By threshold"),
        curves(lines, x="threshold", y="", description="Precision, recall and F1 by threshold", extra=[cursor]),
        element("div", *(element("span", element("i", class_=css), name) for css, name in keys), class_="key"),
    )


def _reader(points: list[OperatingPoint]) -> Html:
    rows = [
        [
            point.threshold,
            point.counts.precision,
            point.counts.recall,
            point.counts.f1,
            point.fn_per_1000,
            point.fp_per_1000,
        ]
        for point in points
    ]
    names = [("threshold", "threshold"), ("precision", "precision"), ("recall", "recall"), ("f1", "F1")]
    names += [("fn", "missed per 1000 tokens"), ("fp", "spurious per 1000 tokens")]
    return element(
        "figure",
        element("label", "Read the curves at a threshold", for_="threshold"),
        element("input", id="threshold", type="range", min=0, max=len(points) - 1, step=1, value=0),
        element(
            "div",
            *(element("span", f"{name} ", element("b", id=f"r-{key}")) for key, name in names),
            class_="readout",
        ),
        element("script", Html(json.dumps(rows)), type="application/json", id="curve-data"),
        class_="reader screen",
    )


def _table(operating: OperatingPoints) -> Html:
    rows: list[tuple[str, ...]] = [("As it is", *_cells(operating.as_it_is))]
    for reported in operating.sensitivities:
        name = f"Sensitivity {100 * reported.chosen.wanted:g}%"
        cells = ("not reached", "", "", "", "", "") if reported.point is None else _cells(reported.point)
        rows.append((name, *cells))
    recall = operating.recall_at_precision
    note = "" if recall.adjusted else " (not adjusted: below it as it is)"
    rows.append((f"Recall at precision {100 * recall.precision:g}%{note}", *_cells(recall.reported)))
    origin = (
        "ORACLE: the thresholds were chosen on the very notes they are reported on."
        if operating.oracle
        else "The thresholds were chosen on other notes than those reported on."
    )
    header = ("", "Threshold", "PPV", "Sensitivity", "F1", "FN per 1000", "FP per 1000")
    return data_table("Operating points.", header, rows, note=origin)


def _cells(point: OperatingPoint) -> tuple[str, ...]:
    counts = point.counts
    return (
        figure(point.threshold),
        figure(counts.precision),
        figure(counts.recall),
        figure(counts.f1),
        figure(point.fn_per_1000, 2),
        figure(point.fp_per_1000, 2),
    )
