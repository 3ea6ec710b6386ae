"""The time that a fuzz test may take, and how it is filled.

FUZZ_SECONDS is the time of all tests together, 60 unless told otherwise; with another FUZZ_SEED they try other input,
and what fails can be repeated with the same one.
"""

import os
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

T = TypeVar("T")
SEED = int(os.environ.get("FUZZ_SEED", "0"))
SECONDS = float(os.environ.get("FUZZ_SECONDS", "60"))


class Budget:
    """A test's share of the time."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.tried = 0

    def rounds(self) -> Iterator[int]:
        """Yield numbers to seed from until the time is over, one at least."""
        number = SEED * 1_000_000
        while self.tried == 0 or time.monotonic() < self.end:
            yield number
            number += 1
            self.tried += 1

    def every(self, strategy: st.SearchStrategy[T], check: Callable[[T], None], *, at_once: int = 2) -> None:
        """Check what the strategy gives until the time is over."""
        for number in self.rounds():

            @seed(number)
            @settings(max_examples=at_once, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            @given(strategy)
            def one(value: T) -> None:
                check(value)

            one()
