"""Figures and plain tables as text for a terminal."""

from collections.abc import Sequence

from ensemble_deid.evaluation.bootstrap import Interval
from ensemble_deid.evaluation.scores import Estimate, Resampling

UNDEFINED = "undefined"


def figure(value: float | None, digits: int = 4) -> str:
    """Return a figure with so many decimals, or the word for one that is undefined."""
    return UNDEFINED if value is None else f"{value:.{digits}f}"


def with_interval(estimate: Estimate, digits: int = 4) -> str:
    """Return a figure with its interval behind it, where it has one."""
    return figure(estimate.value, digits) + interval_text(estimate.interval, digits)


def interval_text(interval: Interval | None, digits: int = 4) -> str:
    """Return " [low, high]", or nothing where there is no interval."""
    if interval is None or interval.low is None or interval.high is None:
        return ""
    return f" [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: first column to the left, the others to the right; nothing without rows."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        rest = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
        return "  ".join((cells[0].ljust(widths[0]), *rest)).rstrip()

    return [line(header), "  ".join("-" * width for width in widths), *(line(row) for row in rows)]


def resampling_text(resampling: Resampling) -> str:
    """Say how the intervals were made, or that there are none."""
    if not resampling.resamples:
        return "No intervals were made."
    return (
        f"Intervals: {100 * resampling.level:g}% percentile bootstrap over patients, "
        f"{resampling.resamples:,} resamples, seed {resampling.seed}."
    )
