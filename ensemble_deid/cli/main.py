"""The command `ensemble-deid`: parse, call one function, print."""

import argparse
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from ensemble_deid import __version__
from ensemble_deid.cli.pinned import must_be_pinned, start_pinned
from ensemble_deid.cli.status import BAD_INPUT, INTERRUPTED, READER_GONE, TERMINATED, UNFORESEEN
from ensemble_deid.cli.terminal import warn
from ensemble_deid.errors import DeidError
from ensemble_deid.model.installed import find_model


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands; each command's module adds its own."""
    from ensemble_deid.cli import (
        additions,
        combiners,
        corpus,
        deidentify,
        disagreements,
        downloads,
        errors,
        evaluation,
        experiments,
        explain,
        models,
        prediction,
        review,
        rules,
        service,
        spark,
        thresholds,
        training,
    )

    parser = argparse.ArgumentParser(
        prog="ensemble-deid", description="Find and remove protected health information in clinical notes."
    )
    parser.add_argument("--version", action="version", version=f"ensemble-deid {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    modules = (
        training,
        experiments,
        prediction,
        deidentify,
        evaluation,
        thresholds,
        disagreements,
        errors,
        explain,
        rules,
        additions,
        combiners,
        corpus,
        downloads,
        models,
        service,
        review,
        spark,
    )
    for module in modules:
        module.add_commands(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status (`cli/status.py`, docs/cli.md)."""
    return run(build_parser(), arguments)


def run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments, run the command they name, and return its exit status."""
    options = parser.parse_args(arguments)
    # A command that starts itself again needs them.
    options.arguments = sys.argv[1:] if arguments is None else list(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name or a rule that the terminal's encoding lacks must not end a command that has done its work.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with _orderly_termination():
            if isinstance(getattr(options, "model", None), Path):
                options.model = find_model(options.model)
            status: int = start_pinned(options.arguments) if must_be_pinned(options) else options.run(options)
            sys.stdout.flush()
    except DeidError as error:
        return _refuse(str(error), BAD_INPUT)
    except BrokenPipeError:
        # Whoever read the output has gone; Python would fail once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        return _refuse(f"{place}{error.strerror or type(error).__name__}", BAD_INPUT)
    except _Terminated:
        return _refuse("terminated", TERMINATED)
    except KeyboardInterrupt:
        return _refuse("interrupted", INTERRUPTED)
    except Exception as error:  # noqa: BLE001 (an unforeseen error's message may quote a note: it is not printed)
        return _refuse(_describe(error), UNFORESEEN)
    return status


class _Terminated(KeyboardInterrupt):
    """The process was asked to end, as by `kill` or a system that shuts down."""


@contextmanager
def _orderly_termination() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does: no half file, no worker; once, and without a traceback."""

    def end(number: int, _frame: FrameType | None) -> None:
        for other in chosen:
            signal.signal(other, signal.SIG_IGN)
        # A thread that feeds the workers does not expect to lose them.
        threading.excepthook = lambda _: None
        raise KeyboardInterrupt if number == signal.SIGINT else _Terminated

    usual: dict[signal.Signals, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
    }
    if hasattr(signal, "SIGHUP"):
        usual[signal.SIGHUP] = signal.SIG_DFL
    # What somebody else handles, or ignores (`nohup`), stays so. Only the main thread can set handlers.
    chosen = [number for number, handler in usual.items() if signal.getsignal(number) == handler]
    if threading.current_thread() is not threading.main_thread():
        chosen = []
    before_hook = threading.excepthook
    for number in chosen:
        signal.signal(number, end)
    try:
        yield
    finally:
        threading.excepthook = before_hook
        for number in chosen:
            signal.signal(number, usual[number])


def _refuse(message: str, status: int) -> int:
    warn(message)
    return status


def _describe(error: Exception) -> str:
    """Return where an unforeseen error arose and its type, without its message."""
    where = "".join(traceback.format_tb(error.__traceback__))
    return (
        f"unforeseen {type(error).__name__}; its message is left out, since it may quote a note. It arose in\n{where}"
        "This is a fault of ensemble-deid: please report these lines."
    )
