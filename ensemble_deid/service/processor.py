"""A worker's model, its bounded queue, and the one thread that processes notes, in batches of waiting ones."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from ensemble_deid.service.refusal import Refused

_Item = TypeVar("_Item")
Result = TypeVar("Result")
THREAD = "ensemble-deid-model"


class Processor:
    """Runs work in a thread of its own, in order of arrival, so that `/health` answers meanwhile.

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


@dataclass(slots=True, eq=False)
class _Waiting(Generic[_Item, Result]):
    """An item and its outcome, None while it waits."""

    item: _Item
    size: int
    outcome: Result | Exception | None = None


class Gatherer(Generic[_Item, Result]):
    """Batches waiting items for a processor: at most `most` of them, of total size `room`.

    `work` returns the result of each item, or its exception. A batch is held for at most `pause` seconds until it is as
    large as the last one; a lone item is never held. `watch` receives the number of waiting items and the size of a
    batch.
    """

    def __init__(
        self,
        processor: Processor,
        work: Callable[[Sequence[_Item]], Sequence[Result | Exception]],
        *,
        most: int,
        room: int,
        pause: float = 0.005,
        watch: Callable[[int, int | None], None] = lambda waiting, together: None,
    ) -> None:
        self._processor, self._work, self._watch = processor, work, watch
        self._most, self._room, self._pause = most, room, pause
        self._items: deque[_Waiting[_Item, Result]] = deque()
        self._arrived = threading.Condition()
        self._expected = 1

    async def one(self, item: _Item, *, size: int) -> Result:
        """Return the result of one item. Raises Refused as `Processor.run` does, or the item's exception."""
        waiting: _Waiting[_Item, Result] = _Waiting(item, size)
        with self._arrived:
            self._items.append(waiting)
            self._arrived.notify()
            self._watch(len(self._items), None)
        try:
            outcome = await self._processor.run(partial(self._outcome, waiting))
        finally:
            with self._arrived:
                # It is still there only if its deadline passed before work began, or its client has left.
                if waiting in self._items:
                    self._items.remove(waiting)
                    self._watch(len(self._items), None)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _outcome(self, own: _Waiting[_Item, Result]) -> Result | Exception:
        """Return an item's outcome, in the processor's thread: the first in line processes those behind it, too."""
        # More than once where those before it, whose time is over, are not out of the line yet.
        while own.outcome is None and (together := self._gathered(own)):
            for waiting, outcome in zip(together, self._work([each.item for each in together]), strict=True):
                waiting.outcome = outcome
        # No client waits for an item that was removed.
        return Refused(503, "dropped", retry=True) if own.outcome is None else own.outcome

    def _gathered(self, first: _Waiting[_Item, Result]) -> list[_Waiting[_Item, Result]]:
        end = time.monotonic() + self._pause
        with self._arrived:
            if first not in self._items:
                return []
            expected = min(self._most, self._expected)
            while len(self._items) < expected and (left := end - time.monotonic()) > 0:
                self._arrived.wait(left)
            taken = [self._items.popleft()]
            room = self._room - taken[0].size
            while self._items and len(taken) < self._most and self._items[0].size <= room:
                taken.append(self._items.popleft())
                room -= taken[-1].size
            # Clients that wait now or are answered now may send again at the same time.
            self._expected = len(taken) + len(self._items)
            self._watch(len(self._items), len(taken))
        return taken
