"""The time that a fuzz test may take, and how it is filled.

FUZZ_SECONDS is the time of all tests together, 60 unless told otherwise; with another FUZZ_SEED they try other input,
and what fails can be repeated with the same one.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import ClassVar, TypeVar

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

T = TypeVar("T")
SEED = int(os.environ.get("FUZZ_SEED", "0"))
SECONDS = float(os.environ.get("FUZZ_SECONDS", "60"))


class Budget:
    """A test's share of the time; `tried` counts the inputs of all tests by the name of the test's function."""

    tried: ClassVar[Counter[str]] = Counter()

    def __init__(self, name: str, seconds: float) -> None:
        self.name = name
        self.end = time.monotonic() + seconds
        # The first input of each draw is the simplest there is.
        self.at_once = min(100, max(4, int(seconds)))

    def rounds(self) -> Iterator[int]:
        """Yield numbers to seed from until the time is over, one at least."""
        number = SEED * 1_000_000
        while number == SEED * 1_000_000 or time.monotonic() < self.end:
            self.tried[self.name] += 1
            yield number
            number += 1

    def every(self, strategy: st.SearchStrategy[T], check: Callable[[T], None]) -> None:
        """Check what the strategy gives until the time is over."""
        for number in self.rounds():
            # Counted below, one by one.
            self.tried[self.name] -= 1

            @seed(number)
            @settings(max_examples=self.at_once, database=None, suppress_health_check=list(HealthCheck))
            @given(strategy)
            def one(value: T) -> None:
                self.tried[self.name] += 1
                check(value)

            one()
