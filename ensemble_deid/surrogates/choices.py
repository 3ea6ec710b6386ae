"""Choices that a secret key determines: the same key and value give the same choice on every machine, in any order."""

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

_ATTEMPTS = 64


@dataclass(frozen=True, slots=True)
class Keyed:
    """Numbers from HMAC-SHA256 over the scope (a name, the patient) and the value: nothing is drawn in sequence."""

    secret: bytes = field(repr=False)
    scope: tuple[str, ...] = field(repr=False)

    def digest(self, *parts: str) -> bytes:
        """Return 32 bytes for the parts, of which no other division into parts gives the same."""
        return _digest(self.secret, (*self.scope, *parts))

    def number(self, below: int, *parts: str) -> int:
        """Return a number from 0 to `below` - 1 (its bias is below 2**-100)."""
        return int.from_bytes(self.digest(*parts)[:24], "big") % below

    def draw(self, values: Sequence[str], *parts: str, fits: Callable[[str], bool], attempts: int) -> str | None:
        """Return the first of so many drawn values that fits, None where none does."""
        drawn = (values[self.number(len(values), *parts, str(attempt))] for attempt in range(attempts))
        return next((value for value in drawn if fits(value)), None)

    def pick(self, values: Sequence[str], *parts: str, fits: Callable[[str], bool] = lambda _: True) -> str | None:
        """Return one of the values that fits, None where none of all does."""
        drawn = self.draw(values, *parts, fits=fits, attempts=_ATTEMPTS)
        return drawn if drawn is not None else next((value for value in values if fits(value)), None)


@lru_cache(maxsize=1 << 14)
def _digest(secret: bytes, parts: tuple[str, ...]) -> bytes:
    message = b"".join(len(data).to_bytes(4, "big") + data for data in (part.encode() for part in parts))
    return hmac.digest(secret, message, "sha256")
