"""Progress of a long task, reported to whatever displays it."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """A step that was completed: `done` of `total` units of work (None if unknown), and a line of text."""

    done: float
    total: float | None
    message: str


Reporter = Callable[[Step], None]
