"""Drawings of figures as SVG: bars with intervals, and curves in the unit square."""

from collections.abc import Sequence

from ensemble_deid.evaluation.render.html.markup import Html, element, join
from ensemble_deid.evaluation.scores import Estimate

_WIDTH, _HEIGHT = 420, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 12, 40
SPAN_X, SPAN_Y = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
ORIGIN_X, ORIGIN_Y = _LEFT, _HEIGHT - _BOTTOM

Coordinates = tuple[float, float]


def bar(estimate: Estimate, *, name: str) -> Html:
    """Draw a figure between 0 and 1 as a bar, its interval as a line with ends; an empty track where undefined."""
    parts = [element("rect", x=0, y=4, width=120, height=12, fill="none", stroke="var(--line)")]
    text = f"{name}: undefined"
    if estimate.value is not None:
        text = f"{name}: {estimate.value:.4f}"
        parts.append(element("rect", x=0, y=4, width=_n(120 * estimate.value), height=12, fill="var(--bar)"))
    interval = estimate.interval
    if interval is not None and interval.low is not None and interval.high is not None:
        low, high = 120 * interval.low, 120 * interval.high
        path = f"M{_n(low)} 6V14M{_n(low)} 10H{_n(high)}M{_n(high)} 6V14"
        parts.append(element("path", d=path, stroke="var(--ink)", fill="none", stroke_width="1.5"))
    return element(
        "svg", *parts, viewBox="-2 0 124 20", width=124, height=20, role="img", aria_label=text, focusable="false"
    )


def curves(
    lines: Sequence[tuple[str, str, Sequence[Coordinates]]],
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
            points=" ".join(f"{_n(px)},{_n(py)}" for px, py in (place(point) for point in points)),
            class_=css,
            fill="none",
            stroke_width=2.2,
            stroke_dasharray=dash or None,
            stroke_linejoin="round",
        )
        for css, dash, points in lines
        if points
    ]
    return element(
        "svg",
        _grid(),
        element("text", x, x=ORIGIN_X + SPAN_X / 2, y=_HEIGHT - 4, text_anchor="middle"),
        element("text", y, x=12, y=_TOP + SPAN_Y / 2, text_anchor="middle", transform=_turned()),
        *drawn,
        *extra,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        width=_WIDTH,
        role="img",
        aria_label=description,
    )


def place(point: Coordinates) -> Coordinates:
    """Return where a point of the unit square stands in the drawing."""
    return (ORIGIN_X + SPAN_X * point[0], ORIGIN_Y - SPAN_Y * point[1])


def _turned() -> str:
    return f"rotate(-90 12 {_TOP + SPAN_Y / 2})"


def _grid() -> Html:
    parts: list[Html] = []
    for step in range(6):
        value = step / 5
        x, y = place((value, value))
        parts += [
            element("line", x1=ORIGIN_X, x2=ORIGIN_X + SPAN_X, y1=_n(y), y2=_n(y), stroke="var(--line)"),
            element("line", x1=_n(x), x2=_n(x), y1=ORIGIN_Y, y2=ORIGIN_Y - SPAN_Y, stroke="var(--line)"),
            element("text", f"{value:.1f}", x=_n(x), y=ORIGIN_Y + 16, text_anchor="middle"),
            element("text", f"{value:.1f}", x=ORIGIN_X - 6, y=_n(y + 4), text_anchor="end"),
        ]
    return join(parts)


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
