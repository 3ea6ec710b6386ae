"""A picture of a table of figures: a point for each row, with the interval where there is one, as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass

from ensemble_deid.evaluation.render.html.markup import Html, element

_ROW, _TOP, _LEFT, _SPAN, _RIGHT, _BOTTOM = 22, 14, 250, 340, 70, 44
_INK, _GRID = "#333", "#ddd"


@dataclass(frozen=True, slots=True)
class Point:
    """A row of the picture: a figure between 0 and 1 and the ends of its interval; None where undefined."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None


def draw_points(points: Sequence[Point], *, measure: str) -> str:
    """Return the SVG of the points, one below the other, over an axis from 0 to 1 that is named for the measure."""
    height = _TOP + _ROW * len(points) + _BOTTOM
    parts = _axis(_TOP + _ROW * len(points), measure)
    for number, point in enumerate(points):
        parts += _row(point, _TOP + _ROW * number + _ROW / 2)
    drawing = element(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_LEFT + _SPAN + _RIGHT} {height}",
        width=_LEFT + _SPAN + _RIGHT,
        font_family="sans-serif",
        font_size=12,
        role="img",
        aria_label=f"{measure} by row",
    )
    return f"{drawing}\n"


def _axis(bottom: float, measure: str) -> list[Html]:
    parts: list[Html] = []
    for step in range(6):
        x = _x(step / 5)
        parts.append(element("line", x1=x, x2=x, y1=_TOP, y2=bottom, stroke=_GRID))
        parts.append(element("text", f"{step / 5:.1f}", x=x, y=bottom + 16, text_anchor="middle", fill=_INK))
    parts.append(element("text", measure, x=_x(0.5), y=bottom + 34, text_anchor="middle", fill=_INK))
    return parts


def _row(point: Point, y: float) -> list[Html]:
    parts = [element("text", point.name, x=_LEFT - 8, y=y + 4, text_anchor="end", fill=_INK)]
    if point.value is None:
        return [*parts, element("text", "undefined", x=_LEFT + _SPAN + 8, y=y + 4, fill=_INK)]
    if point.low is not None and point.high is not None:
        parts.append(element("line", x1=_x(point.low), x2=_x(point.high), y1=y, y2=y, stroke=_INK, stroke_width=2))
    parts.append(element("circle", cx=_x(point.value), cy=y, r=4, fill="#1f5fa8"))
    return [*parts, element("text", f"{point.value:.4f}", x=_LEFT + _SPAN + 8, y=y + 4, fill=_INK)]


def _x(value: float) -> float:
    return round(_LEFT + _SPAN * min(max(value, 0.0), 1.0), 2)
