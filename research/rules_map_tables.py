"""The tables and the picture of the map of TBED (`rules_map.py`), from the counts of its cells."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.evaluation.bootstrap import Measure, bootstrap_interval, measure_of, paired_difference
from ensemble_deid.evaluation.render.figures import range_text
from ensemble_deid.evaluation.render.html.markup import Attribute, Html, element
from ensemble_deid.note.digits import percent

Lines = Sequence[dict[str, Any]]


def together(lines: Lines, counts: str) -> Int64s | None:
    """Return the counts of some lines by group, summed: (groups, 3); None where a line has none."""
    if not lines or any(counts not in line for line in lines):
        return None
    summed: Int64s = np.sum([line[counts] for line in lines], axis=0, dtype=np.int64)
    return summed


def figure_of(lines: Lines, counts: str, measure: Measure) -> str:
    """Return a figure of the seeds together with its interval, or a dash."""
    summed = together(lines, counts)
    if summed is None:
        return "-"
    value = float(measure_of(summed.sum(axis=0).astype(float), measure))
    if np.isnan(value):
        return "-"
    interval = bootstrap_interval(summed, [str(row) for row in range(len(summed))], measure=measure, resamples=2000)
    ends = "" if interval.low is None else f" [{percent(interval.low, sign='')}, {percent(interval.high, sign='')}]"
    return percent(value, sign="") + ends


def selected(lines: Lines, **wanted: object) -> list[dict[str, Any]]:
    """Return the lines with these values."""
    return [line for line in lines if all(line[key] == value for key, value in wanted.items())]


def table(lines: Lines) -> Iterator[str]:
    """Yield a Markdown table: a row for each system and start, a column for each number of notes."""
    rows = dict.fromkeys((line["part"], line["system"], line["start"]) for line in lines)
    sizes = sorted({line["size"] for line in lines})
    yield "| part | system | patterns | " + " | ".join(f"{size} notes" for size in sizes) + " |"
    yield "| --- | --- | --- |" + " --: |" * len(sizes)
    for part, system, start in rows:
        cells = [selected(lines, part=part, system=system, start=start, size=size) for size in sizes]
        yield f"| {part} | {system} | {start} | {' | '.join(map(_shown, cells))} |"


def _shown(lines: Lines) -> str:
    if not lines:
        return ""
    recall = figure_of(lines, "at_rate" if "at_rate" in lines[0] else "tokens", "recall")
    f1, _, _ = figure_of(lines, "strict", "f1").partition(" ")
    precision, _, _ = figure_of(lines, "tokens", "precision").partition(" ")
    return f"{recall} / {precision} / {f1} ({len(lines)})"


def gains(lines: Lines) -> Iterator[str]:
    """Yield a table of what TBED adds to the patterns alone and to a stack, on the same samples: recall / strict F1."""
    sizes = sorted({line["size"] for line in lines})
    yield "| part | patterns | " + " | ".join(f"{size} notes" for size in sizes) + " |"
    yield "| --- | --- |" + " --: |" * len(sizes)
    for part, start in dict.fromkeys((line["part"], line["start"]) for line in lines if line["part"] != "crf"):
        pair = ("TBED", "patterns") if part == "rules" else ("with TBED", "without TBED")
        cells = []
        for size in sizes:
            after, before = (selected(lines, part=part, start=start, size=size, system=name) for name in pair)
            counts = "at_rate" if after and "at_rate" in after[0] else "tokens"
            both = f"{_gain(after, before, counts, 'recall')} / {_gain(after, before, 'strict', 'f1')} ({len(after)})"
            cells.append(both if after and len(after) == len(before) else "")
        yield f"| {part} | {start} | {' | '.join(cells)} |"


def _gain(after: Lines, before: Lines, counts: str, measure: Measure) -> str:
    a, b = together(after, counts), together(before, counts)
    if a is None or b is None:
        return "-"
    groups = [str(row) for row in range(len(a))]
    difference = paired_difference(a, b, groups, measure=measure, resamples=2000)
    if difference.difference is None:
        return "-"
    return f"{100 * difference.difference:+.2f} [{range_text(difference.interval, sign='+')}]"


_PANELS = (
    ("rules", "patterns", "TBED", "TBED alone (dashed: its patterns)"),
    ("stack", "without TBED", "with TBED", "stack with a CRF (dashed: without TBED)"),
)
_COLOURS = {"none": "#8a4f9e", "5": "#b05a00", "20": "#1f5fa8", "all": "#3a7d34"}
_WIDTH, _HIGH, _LEFT, _TOP = 300, 240, 46, 30


def picture(lines: Lines) -> str:
    """Draw token recall by notes, a panel for TBED alone and one for the stack, a colour for each start."""
    sizes = sorted({line["size"] for line in lines})
    parts: list[Html] = []
    for k, (part, before, after, title) in enumerate(_PANELS):
        left = _LEFT + k * (_WIDTH + _LEFT)
        parts += _frame(left, title, sizes)
        for start, system in product(_COLOURS, (before, after)):
            points = []
            for size in sizes:
                found = selected(lines, part=part, system=system, start=start, size=size)
                summed = together(found, "at_rate" if part == "stack" else "tokens")
                if summed is not None:
                    recall = float(measure_of(summed.sum(axis=0).astype(float), "recall"))
                    points.append((_x(size, sizes, left), round(_TOP + _HIGH * (1 - recall), 1)))
            colour, dash = _COLOURS[start], "4 3" if system == before else None
            path = " ".join(f"{x},{y}" for x, y in points)
            drawn: dict[str, Attribute] = {
                "points": path,
                "fill": "none",
                "stroke": colour,
                "stroke_width": 2,
                "stroke_dasharray": dash,
            }
            parts.append(element("polyline", **drawn))
            parts += [element("circle", cx=x, cy=y, r=2.5, fill=colour) for x, y in points]
    for k, start in enumerate(_COLOURS):
        name = {"none": "no patterns", "all": "all patterns"}.get(start, f"{start} patterns")
        parts.append(element("text", name, x=_LEFT + 150 * k, y=_TOP + _HIGH + 52, fill=_COLOURS[start]))
    box: dict[str, Attribute] = {
        "viewBox": f"0 0 {2 * (_WIDTH + _LEFT) + 20} {_TOP + _HIGH + 62}",
        "font_family": "sans-serif",
    }
    named: dict[str, Attribute] = {"role": "img", "aria_label": "Token recall by number of notes", "font_size": 12}
    return str(element("svg", *parts, xmlns="http://www.w3.org/2000/svg", **box, **named)) + "\n"


def _x(size: int, sizes: Sequence[int], left: int) -> float:
    span = np.log(sizes[-1] / sizes[0]) or 1.0
    return round(left + 10 + (_WIDTH - 20) * float(np.log(size / sizes[0]) / span), 1)


def _frame(left: int, title: str, sizes: Sequence[int]) -> list[Html]:
    parts = [element("rect", x=0 if left == _LEFT else left - 40, y=0, width=_WIDTH + 66, height=400, fill="#fff")]
    parts.append(element("text", title, x=left, y=16, fill="#222"))
    for percentage in range(0, 101, 20):
        y = _TOP + _HIGH * (1 - percentage / 100)
        parts.append(element("line", x1=left, x2=left + _WIDTH, y1=y, y2=y, stroke="#ddd"))
        parts.append(element("text", str(percentage), x=left - 6, y=y + 4, text_anchor="end", fill="#555"))
    for size in sizes:
        where: dict[str, Attribute] = {
            "x": _x(size, sizes, left),
            "y": _TOP + _HIGH + 16,
            "text_anchor": "middle",
            "fill": "#555",
        }
        parts.append(element("text", str(size), **where))
    middle: dict[str, Attribute] = {
        "x": left + _WIDTH / 2,
        "y": _TOP + _HIGH + 32,
        "text_anchor": "middle",
        "fill": "#555",
    }
    return [*parts, element("text", "annotated notes", **middle)]
