"""Output of commands: lines, a progress bar on standard error (none with `--quiet` or off a terminal), exit status."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from typing import ParamSpec

from ensemble_deid.corpora.checks import printable
from ensemble_deid.errors import DeidError
from ensemble_deid.parallel import Reporter, Step

_Given = ParamSpec("_Given")

# The exit statuses, as docs/administrator.md lists them. Argument errors exit 2, too: argparse does so.
DIFFERENCES = 1
PROBLEMS = 1
BAD_INPUT = 2
NOTES_WITHHELD = 3
UNFORESEEN = 70
INTERRUPTED = 130
READER_GONE = 141
TERMINATED = 143


def expected_end(step: Step, *, start: float, now: float) -> float | None:
    """Return when the work will be done, in seconds of the clock of `start` and `now`; None while unknown."""
    if not step.total or not step.done:
        return None
    return start + (now - start) * step.total / step.done


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Reporter]:
    """Give a function that shows steps as a bar, or one that shows nothing."""
    # The stream is asked, not rich: variables such as FORCE_COLOR make rich take a log file for a terminal.
    if quiet or not sys.stderr.isatty():
        yield lambda step: None
        return
    # Imported here: rich loads slowly, and only a terminal shows a bar.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn
    from rich.progress import TimeElapsedColumn as TimeElapsed
    from rich.text import Text

    class TimeLeftColumn(ProgressColumn):
        """Estimated time left; rich's own column uses only the last seconds, but a training step can take minutes."""

        def render(self, task: Task) -> Text:
            end: float | None = task.fields["end"]
            if end is None:
                return Text("")
            return Text(f"about {timedelta(seconds=max(0, round(end - time.monotonic())))} left")

    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsed(),
        TimeLeftColumn(),
        TextColumn("{task.description}", markup=False),
    )
    start = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None, end=None)

        def show(step: Step) -> None:
            end = expected_end(step, start=start, now=time.monotonic())
            bar.update(task, total=step.total, completed=step.done, description=step.message, end=end)

        yield show


def say(text: str) -> None:
    """Write to standard output."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def warn(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"ensemble-deid: {printable(text)}\n")


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, plural unless the number is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def as_script(work: Callable[_Given, int | None]) -> Callable[_Given, int]:
    """Make a function the `main` of a script: bad input ends it with one line and its exit status."""

    @wraps(work)
    def main(*args: _Given.args, **kwargs: _Given.kwargs) -> int:
        try:
            return work(*args, **kwargs) or 0
        except DeidError as error:
            sys.stderr.write(f"{error}\n")
            return BAD_INPUT

    return main
