"""One worker's model, its bounded queue, and the one thread in which notes are processed."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from ensemble_deid.service.refusal import Refused

Result = TypeVar("Result")
THREAD = "ensemble-deid-model"


class Processor:
    """Runs work in a thread of its own, so that `/health` answers meanwhile; one note at a time, in order of arrival.

    A request has a place from the arrival of its body to the end of its answer; batches, whose lines arrive meanwhile,
    have half of the places. Further requests are refused at once (429), and all that are new once `stopping` is true
    (503).
    """

    def __init__(self, *, places: int, time_limit: float) -> None:
        self.stopping = False
        self.entered = 0
        self._batches = 0
        self._places = places
        self._time_limit = time_limit
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=THREAD)

    @contextmanager
    def place(self, *, batch: bool = False) -> Iterator[None]:
        """Take a place. Raises Refused."""
        if self.stopping:
            raise Refused(503, "the service is stopping", retry=True, close=True)
        if self.entered >= self._places or (batch and self._batches >= max(1, self._places // 2)):
            raise Refused(429, "too many requests are waiting; try again later", retry=True)
        self.entered += 1
        self._batches += batch
        try:
            yield
        finally:
            self.entered -= 1
            self._batches -= batch

    async def run(self, function: Callable[[], Result]) -> Result:
        """Return the function's result.

        Raises Refused (503) when it takes longer than the time limit, waiting included: what has not begun by then is
        dropped; what has begun cannot be stopped, and its result is thrown away.
        """
        waiting = asyncio.wrap_future(self._thread.submit(function))
        done, _ = await asyncio.wait([waiting], timeout=self._time_limit)
        if not done:
            waiting.cancel()
            raise Refused(503, f"not done within {self._time_limit:g} seconds; try again later", retry=True)
        return waiting.result()

    def close(self) -> None:
        """Drop what has not begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)
