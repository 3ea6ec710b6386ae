"""What a person at a terminal sees: a progress bar on standard error. `--quiet` and non-terminals get none."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from ensemble_deid.corpora.checks import printable
from ensemble_deid.experiments.progress import Reporter, Step


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Reporter]:
    """Give a function that shows steps as a bar, or one that shows nothing."""
    # The stream is asked, not rich: variables such as FORCE_COLOR make rich take a log file for a terminal.
    if quiet or not sys.stderr.isatty():
        yield lambda step: None
        return
    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(step: Step) -> None:
            bar.update(task, total=step.total, completed=step.done, description=step.message)

        yield show


def say(text: str) -> None:
    """Write to standard output."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def warn(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"ensemble-deid: {printable(text)}\n")


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, which takes an s for any number but one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def percent(value: float | None) -> str:
    """Return a share as a percentage with two decimals; `undefined` where it is."""
    return "undefined" if value is None else f"{100 * value:.2f}"
