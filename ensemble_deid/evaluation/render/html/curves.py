"""The report's curves over all thresholds, and its operating points."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ensemble_deid.evaluation.curve import Curve, OperatingPoint, spread
from ensemble_deid.evaluation.operating_points import OperatingPoints
from ensemble_deid.evaluation.render.figures import operating_rows
from ensemble_deid.evaluation.render.html.markup import Html, data_table, element, join, number, section
from ensemble_deid.evaluation.views import VIEWS
from ensemble_deid.note.digits import four_digits

_WIDTH, _HEIGHT = 420, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 12, 40
_SPAN_X, _SPAN_Y = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
_ORIGIN_X, _ORIGIN_Y = _LEFT, _HEIGHT - _BOTTOM

_Coordinates = tuple[float, float]

MOST_POINTS = 400
"""Points of a longer curve that are drawn, evenly spread; the page says so."""


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The points drawn, from the highest threshold to the lowest; at index `own` the system works as it is.

    `threshold` is None where there is nothing to mark: the system keeps all that it scores, or nothing of it.
    """

    points: tuple[OperatingPoint, ...]
    own: int
    threshold: float | None


def curve_section(curve: Curve | None, operating: OperatingPoints | None, *, threshold: float) -> Html:
    """Draw the curves of a system with scores, and list its operating points where they were chosen.

    `threshold` is the one the system works with; 0 where it keeps all that it scores.
    """
    if curve is None or not len(curve):
        line = "The system does not score its annotations, so there is no threshold to move."
        return section("curves", "Precision, recall and thresholds", element("p", line))
    kept = int((curve.thresholds >= threshold).sum())
    own = max(0, kept - 1)
    indexes = sorted({*spread(len(curve), MOST_POINTS), own})
    points = tuple(curve.point(index) for index in indexes)
    drawn = _Drawn(points, indexes.index(own), threshold if kept and threshold > 0 else None)
    return section(
        "curves",
        "Precision, recall and thresholds",
        element("p", *_explanation(curve, drawn)),
        element("div", _precision_recall(drawn), _by_threshold(drawn), class_="charts"),
        _reader(drawn, unit=_unit(curve.view)),
        _table(operating) if operating is not None else None,
    )


def _unit(view: str) -> str:
    return "PHI tokens" if VIEWS[view].unit == "token" else "annotations"


def _explanation(curve: Curve, drawn: _Drawn) -> list[str]:
    highest, lowest = drawn.points[0].threshold, drawn.points[-1].threshold
    said = [
        f"Counted in {_unit(curve.view)} (view {curve.view}). An annotation is kept when its score is at least the "
        f"threshold. The curves go over all {len(curve):,} distinct scores, from {four_digits(highest)} down to "
        f"{four_digits(lowest)}"
    ]
    said.append(f", and are drawn at {len(drawn.points):,} of them. " if len(drawn.points) < len(curve) else ". ")
    if drawn.threshold is not None:
        said.append(f"The ring and the dashed line mark the system's own threshold, {four_digits(drawn.threshold)}.")
    return said


def _precision_recall(drawn: _Drawn) -> Html:
    known = [(p.counts.recall, p.counts.precision) for p in drawn.points]
    line = [(recall, precision) for recall, precision in known if recall is not None and precision is not None]
    dot_axes = {"data_x0": _ORIGIN_X, "data_w": _SPAN_X, "data_y0": _ORIGIN_Y, "data_h": _SPAN_Y}
    dot = element("circle", id="pr-dot", r=5, cx=-9, cy=-9, fill="var(--accent)", class_="screen", **dot_axes)
    extra = [dot]
    own = drawn.points[drawn.own].counts
    if drawn.threshold is not None and own.recall is not None and own.precision is not None:
        x, y = _place((own.recall, own.precision))
        ring = element("circle", r=7, cx=x, cy=y, fill="none", stroke="var(--ink)", stroke_width=1.5, class_="own")
        extra.insert(0, ring)
    about = "Precision against recall"
    drawing = _curves([("c1", "", line)], x="recall", y="precision", description=about, extra=extra)
    return element("figure", element("figcaption", "Precision and recall"), drawing)


def _by_threshold(drawn: _Drawn) -> Html:
    def line(value: str) -> list[_Coordinates]:
        pairs = [(point.threshold, getattr(point.counts, value)) for point in drawn.points]
        return [(threshold, figure) for threshold, figure in pairs if figure is not None]

    cursor = _upright(0.0, id="threshold-line", stroke_width=1, class_="screen", data_x0=_ORIGIN_X, data_w=_SPAN_X)
    extra = [cursor]
    if drawn.threshold is not None:
        extra.append(_upright(drawn.threshold, stroke_width=1.5, stroke_dasharray="5 4", class_="own"))
    lines = [("c1", "", line("precision")), ("c2", "7 4", line("recall")), ("c3", "2 3", line("f1"))]
    keys = [("c1", "precision"), ("c2 dash", "recall"), ("c3 dot", "F1")]
    about = "Precision, recall and F1 by threshold"
    drawing = _curves(lines, x="threshold", y="", description=about, extra=extra)
    key = element("div", *(element("span", element("i", class_=css), name) for css, name in keys), class_="key")
    return element("figure", element("figcaption", "By threshold"), drawing, key)


def _upright(threshold: float, **attributes: str | float) -> Html:
    x, _ = _place((threshold, 0.0))
    return element("line", x1=x, x2=x, y1=_ORIGIN_Y, y2=_ORIGIN_Y - _SPAN_Y, stroke="var(--ink)", **attributes)


def _reader(drawn: _Drawn, *, unit: str) -> Html:
    rows = [
        [p.threshold, p.counts.precision, p.counts.recall, p.counts.f1, p.fn_per_1000, p.fp_per_1000]
        for p in drawn.points
    ]
    last = len(rows) - 1
    names = [("threshold", "threshold"), ("precision", "precision"), ("recall", "recall"), ("f1", "F1")]
    names += [("fn", f"{unit} missed per 1000 tokens"), ("fp", f"{unit} spurious per 1000 tokens")]
    return element(
        "figure",
        element("label", "Read the curves at a threshold", for_="threshold"),
        # To the right the threshold rises; it starts at the system's own.
        element("input", id="threshold", type="range", min=0, max=last, step=1, value=last - drawn.own),
        element(
            "div", *(element("span", f"{name} ", element("b", id=f"r-{key}")) for key, name in names), class_="readout"
        ),
        element("script", Html(json.dumps(rows)), type="application/json", id="curve-data"),
        class_="reader screen",
    )


def _table(operating: OperatingPoints) -> Html:
    rows = [(name[0].upper() + name[1:], *cells) for name, *cells in operating_rows(operating)]
    unit = _unit(operating.view)
    origin = (
        "ORACLE: the thresholds were chosen on the very notes they are reported on."
        if operating.oracle
        else "The thresholds were chosen on other notes than those reported on."
    )
    counted = f" FN and FP: {unit} missed and spurious ({operating.view}) per 1000 tokens of the notes."
    header = ("", "Threshold", "PPV", "Sensitivity", "F1", "FN per 1000", "FP per 1000")
    return data_table("Operating points.", header, rows, note=origin + counted)


def _curves(
    lines: Sequence[tuple[str, str, Sequence[_Coordinates]]],
    *,
    x: str,
    y: str,
    description: str,
    extra: Sequence[Html] = (),
) -> Html:
    """Draw lines, each a class, a dash pattern and its points, over the unit square with named axes."""
    drawn = [
        element(
            "polyline",
            points=" ".join(f"{number(px)},{number(py)}" for px, py in (_place(point) for point in points)),
            class_=css,
            fill="none",
            stroke_width=2.2,
            stroke_dasharray=dash or None,
            stroke_linejoin="round",
        )
        for css, dash, points in lines
        if points
    ]
    middle = _TOP + _SPAN_Y / 2
    return element(
        "svg",
        _grid(),
        element("text", x, x=_ORIGIN_X + _SPAN_X / 2, y=_HEIGHT - 4, text_anchor="middle"),
        element("text", y, x=12, y=middle, text_anchor="middle", transform=f"rotate(-90 12 {middle})"),
        *drawn,
        *extra,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        width=_WIDTH,
        role="img",
        aria_label=description,
    )


def _place(point: _Coordinates) -> _Coordinates:
    """Return the place of a point of the unit square in the drawing."""
    return (_ORIGIN_X + _SPAN_X * point[0], _ORIGIN_Y - _SPAN_Y * point[1])


def _grid() -> Html:
    parts: list[Html] = []
    for step in range(6):
        value = step / 5
        x, y = _place((value, value))
        parts += [
            element("line", x1=_ORIGIN_X, x2=_ORIGIN_X + _SPAN_X, y1=number(y), y2=number(y), stroke="var(--line)"),
            element("line", x1=number(x), x2=number(x), y1=_ORIGIN_Y, y2=_ORIGIN_Y - _SPAN_Y, stroke="var(--line)"),
            element("text", f"{value:.1f}", x=number(x), y=_ORIGIN_Y + 16, text_anchor="middle"),
            element("text", f"{value:.1f}", x=_ORIGIN_X - 6, y=number(y + 4), text_anchor="end"),
        ]
    return join(parts)
