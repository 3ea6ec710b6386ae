"""A limit on the processor's time for one piece of work, cheap to ask for."""

import time

_FRESH = 0.01


class TimeLimit:
    """So many seconds of the processor, from now on.

    Asking the system for them takes longer than matching a pattern on a short text, so they are read again only when
    the clock, which costs next to nothing, has gone on by a hundredth of a second.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.process_time() + seconds
        self._left = seconds
        self._read = time.monotonic()

    def left(self) -> float:
        """Return the seconds that are left. Raises TimeoutError when there are none."""
        now = time.monotonic()
        if now - self._read > _FRESH:
            self._left, self._read = self._end - time.process_time(), now
        if self._left <= 0:
            raise TimeoutError
        return self._left
