"""Work that is counted, not timed: the calls that a function makes, and a guard against what never ends."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_PROCESSOR_SECONDS = 120


@contextmanager
def no_hang() -> Iterator[None]:
    """Fail where the block never ends: after two minutes of this process's own work, however busy the machine is."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError("this does not end")

    if sys.platform == "win32":
        yield
        return
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _PROCESSOR_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def calls(work: Callable[[], object]) -> int:
    """Return how many functions, of Python and of C, are called in some work; it must end."""
    count = 0

    def counted(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    with no_hang():
        sys.setprofile(counted)
        try:
            work()
        finally:
            sys.setprofile(before)
    return count
