"""How far visits on weekdays give a patient's date shift away.

The attacker sees the shifted dates of a patient's visits, and knows all possible shifts, that visits are on weekdays
and, perhaps, the window of time in which they all were. A shift remains possible if it leads back to such visits.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.cli.options import add_command, add_shared
from ensemble_deid.cli.terminal import say
from ensemble_deid.note.digits import percent
from ensemble_deid.seeds import generator
from ensemble_deid.surrogates.dates import possible_days

Days = Int64s
"""Days since some Monday, or shifts in days."""

WINDOWS = (2, 5, 10, None)
VISITS = (5, 10, 20, 50)
_YEAR_DAYS = 365.25
_WEEK, _WORKDAYS = 7, 5
# Visits of whom no window is known were within some years all the same.
_UNKNOWN_YEARS = 5
_BOUND = 36_525


@dataclass(frozen=True, slots=True)
class Linkage:
    """What remains of `shifts` possible ones: the median over patients, and how often their direction is certain.

    `window` is in years, None where the attacker knows none.
    """

    maker: str
    window: int | None
    visits: int
    shifts: int
    left: float
    direction_certain: float


def earlier_shifts() -> Days:
    """Return the shifts that were drawn before: one to eight years and 62 to 299 days, no whole weeks."""
    later = (round(years * _YEAR_DAYS) + days for years in range(1, 9) for days in range(62, 300))
    distinct = sorted({days + (days % _WEEK == 0) for days in later})
    return np.array([*(-days for days in distinct), *distinct])


def makers() -> dict[str, Days]:
    """Return the possible shifts by the name of what draws them."""
    return {
        "before": earlier_shifts(),
        "now": np.array(possible_days(whole_weeks=False)),
        "now, whole weeks": np.array(possible_days(whole_weeks=True)),
        # Not to be had: dates would lie anywhere in two centuries. With a known window no single shift hides more.
        "any shift": np.arange(-_BOUND, _BOUND + 1),
    }


def remaining_shifts(seen: Days, shifts: Days, window: tuple[int, int] | None) -> Days:
    """Return the shifts that lead from all seen days back to weekdays, and into the window `[first, end)` if known."""
    residues = [r for r in range(_WEEK) if bool(np.all((seen - r) % _WEEK < _WORKDAYS))]
    left = shifts[np.isin(shifts % _WEEK, residues)]
    if window is None:
        return left
    first, end = window
    inside: Days = left[(left > seen.max() - end) & (left <= seen.min() - first)]
    return inside


def draw_visits(count: int, days: int, random: np.random.Generator) -> Days:
    """Return so many days of different visits, all on weekdays, in a window of so many days from day 0, a Monday."""
    weekdays = np.arange(days)[np.arange(days) % _WEEK < _WORKDAYS]
    visits: Days = np.sort(random.choice(weekdays, size=count, replace=False))
    return visits


def measure_linkage(
    *, windows: Sequence[int | None] = WINDOWS, visits: Sequence[int] = VISITS, patients: int = 500, seed: int = 1
) -> Iterator[Linkage]:
    """Yield what remains for each window, number of visits and maker of shifts; the visits are the same for makers."""
    for window in windows:
        days = round((window or _UNKNOWN_YEARS) * _YEAR_DAYS)
        for count in visits:
            random = generator(seed, f"visits {window} {count}")
            true = [draw_visits(count, days, random) for _ in range(patients)]
            for name, shifts in makers().items():
                drawn = random.choice(shifts, size=patients)
                left = [
                    remaining_shifts(dates + shift, shifts, None if window is None else (0, days))
                    for dates, shift in zip(true, drawn, strict=True)
                ]
                certain = sum(len(np.unique(np.sign(each))) == 1 for each in left) / patients
                median = float(np.median([len(each) for each in left]))
                yield Linkage(
                    maker=name, window=window, visits=count, shifts=len(shifts), left=median, direction_certain=certain
                )


def add_commands(commands: Any) -> None:
    """Add this module's command to the parser."""
    parser = add_command(commands, "date-linkage", run_date_linkage, example="--patients 100")
    parser.add_argument("--patients", metavar="N", type=int, default=500, help="simulated ones; default: 500")
    add_shared(parser, "seed", seed=1)


def run_date_linkage(options: argparse.Namespace) -> int:
    """How many date shifts remain possible, once visits are known."""
    say("| known window | visits | shifts | possible | remain | direction certain |")
    say("|---|---|---|---|---|---|")
    for found in measure_linkage(patients=options.patients, seed=options.seed):
        window = "none" if found.window is None else f"{found.window} years"
        figures = f"{found.shifts:,} | {found.left:,.0f} | {percent(found.direction_certain, sign='')}"
        say(f"| {window} | {found.visits} | {found.maker} | {figures} |")
    return 0
