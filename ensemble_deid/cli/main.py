"""The command `ensemble-deid`: parse, call one function, print."""

import argparse
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from ensemble_deid import __version__
from ensemble_deid.cli.options import CommandParser, add_group, find_models
from ensemble_deid.cli.terminal import BAD_INPUT, INTERRUPTED, READER_GONE, TERMINATED, UNFORESEEN, warn
from ensemble_deid.errors import DeidError
from ensemble_deid.reproducible import MARK, is_pinned, pinned_environment
from ensemble_deid.service.logs import describe

_MODULES = {
    "train": "training",
    "deidentify": "deidentify",
    "predict": "prediction",
    "evaluate": "evaluation",
    "review": "review",
    "audit": "audit",
    "serve": "service",
    "spark": "service",
}
"""The commands of each module; only the module of the given command is loaded."""


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands, or of one of `_MODULES`; each module adds its own."""
    parser = CommandParser(
        prog="ensemble-deid", description="Find and remove protected health information in clinical notes."
    )
    parser.add_argument("--version", action="version", version=f"ensemble-deid {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    if command in _MODULES:
        import_module(f"ensemble_deid.cli.{_MODULES[command]}").add_commands(commands)
    else:
        _add_all(commands)
    return parser


def _add_all(commands: Any) -> None:
    from ensemble_deid.cli import (
        audit,
        corpus,
        deidentify,
        evaluation,
        explain,
        model_changes,
        models,
        prediction,
        project,
        review,
        rules,
        service,
        training,
    )

    for module in (training, deidentify, prediction, evaluation, review, audit, service, models):
        module.add_commands(commands)
    of_model = add_group(commands, "model", "inspect, adjust and share a model")
    for adds in (models, model_changes, explain, evaluation):
        adds.add_model_commands(of_model)
    project.add_commands(add_group(commands, "project", "release nightly batches consistently"))
    rules.add_commands(add_group(commands, "rules", "read, check, review, approve and replace learned rules"))
    of_corpus = add_group(commands, "corpus", "inspect, convert and enlarge corpora")
    corpus.add_commands(of_corpus)
    evaluation.add_corpus_commands(of_corpus)
    of_research = add_group(commands, "research", "experiments: cross-validation, search, ablation, comparisons")
    training.add_experiments(of_research)
    evaluation.add_research_commands(of_research)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status (`cli/terminal.py`, docs/administrator.md)."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    return run(build_parser(given[0] if given else None), given)


def run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments, run the command they name, and return its exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    _open_streams()
    options = parser.parse_args(given)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name or a rule that the terminal's encoding lacks must not end a command that has done its work.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with _orderly_termination():
            find_models(options)
            status: int = start_pinned(given) if must_be_pinned(options) else options.run(options) or 0
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
        return _refuse(f"{describe(error)}This is a fault of ensemble-deid: please report these lines.", UNFORESEEN)
    return status


def _open_streams() -> None:
    """Take the null device for a standard stream that is closed, as where a daemon starts the command."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 (open to the end)


def must_be_pinned(options: argparse.Namespace) -> bool:
    """Return whether a command is to run pinned and does not yet. Raises ConfigError where that is impossible."""
    if not is_pinned():
        return bool(getattr(options, "reproducible", False))
    return any(os.environ.get(name) != value for name, value in pinned_environment().items() if name != MARK)


def start_pinned(arguments: Sequence[str]) -> int:
    """Run the command again in a process whose libraries are pinned before they are loaded; return its status."""
    environment = {**os.environ, **pinned_environment()}
    command = [sys.executable, "-m", "ensemble_deid", *arguments]
    # The user's own arguments, to the same program, without a shell.
    with subprocess.Popen(command, env=environment) as process:  # noqa: S603
        try:
            status = process.wait()
        except BaseException:
            # It ends its own workers and removes what is unfinished, which it could not if it were killed.
            process.terminate()
            process.wait()
            raise
    return status if status >= 0 else 128 - status


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

    usual: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
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
