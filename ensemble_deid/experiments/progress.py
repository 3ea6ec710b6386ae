"""How far a long piece of work is, said to whoever shows it."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """Something was finished: `done` of `total` units of work (None where nobody knows), and a line for a person."""

    done: float
    total: float | None
    message: str


Reporter = Callable[[Step], None]
