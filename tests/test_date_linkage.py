"""The linkage audit of date shifts counts what a slow and obvious search counts."""

from datetime import date, timedelta

import numpy as np
import pytest

from ensemble_deid.surrogates.choices import Keyed
from ensemble_deid.surrogates.dates import keyed_days
from research.__main__ import build_parser
from research.date_linkage import draw_visits, earlier_shifts, makers, measure_linkage, remaining_shifts

MONDAY = date(2013, 1, 7)


def slowly(seen: list[date], shifts: list[int], first: date | None, end: date | None) -> list[int]:
    left = []
    for shift in shifts:
        true = [day - timedelta(days=shift) for day in seen]
        inside = first is None or end is None or all(first <= day < end for day in true)
        if inside and all(day.weekday() < 5 for day in true):
            left.append(shift)
    return left


@pytest.mark.parametrize("maker", ["before", "now", "now, whole weeks"])
@pytest.mark.parametrize("window", [200, None])
def test_the_shifts_that_remain_are_those_of_a_search_day_by_day(maker: str, window: int | None) -> None:
    shifts = makers()[maker]
    for seed in range(4):
        random = np.random.default_rng(seed)
        visits = draw_visits(2 + 3 * seed, window or 400, random)
        shift = int(random.choice(shifts))
        assert len(set(visits.tolist())) == 2 + 3 * seed
        seen = [MONDAY + timedelta(days=int(day) + shift) for day in visits]
        assert all((day - timedelta(days=shift)).weekday() < 5 for day in seen)
        span = None if window is None else (0, window)
        left = remaining_shifts(visits + shift, shifts, span).tolist()
        end = None if window is None else MONDAY + timedelta(days=window)
        assert left == slowly(seen, shifts.tolist(), None if window is None else MONDAY, end)
        assert shift in left


def test_the_earlier_shifts_and_what_they_gave_away() -> None:
    assert len(earlier_shifts()) == 3268
    found = {(f.maker, f.window, f.visits): f for f in measure_linkage(windows=(2, None), visits=(10,), patients=60)}
    before, now, bound = (found[maker, 2, 10] for maker in ("before", "now", "any shift"))
    assert before.left < now.left <= bound.left
    assert before.direction_certain == now.direction_certain == 1
    assert found["now", None, 10].left > 3 * found["before", None, 10].left
    assert found["now", None, 10].direction_certain == 0
    assert found["now", None, 10].left == pytest.approx(found["now, whole weeks", None, 10].left, abs=2)


def test_a_patients_shift_is_one_of_those_that_are_counted() -> None:
    for number in range(20):
        keyed = Keyed(bytes([number]) * 32, ("project", "patient", "p"))
        assert keyed_days(keyed, whole_weeks=False) in makers()["now"]
        assert keyed_days(keyed, whole_weeks=True) in makers()["now, whole weeks"]


def test_the_command_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    options = build_parser().parse_args(["date-linkage", "--patients", "3"])
    assert options.run(options) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| known window | visits |")
    assert len(lines) == 2 + 4 * 4 * 4
