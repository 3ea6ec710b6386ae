"""Running a command in a process of its own whose numerical libraries are pinned before they are loaded."""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from ensemble_deid.reproducible import MARK, is_pinned, pinned_environment


def add_reproducible(parser: argparse.ArgumentParser, help: str) -> None:
    """Add the option; `main` starts the command again where it is given."""
    parser.add_argument("--reproducible", action="store_true", help=help)


def must_be_pinned(options: argparse.Namespace) -> bool:
    """Return whether a command is to run pinned, by its option or by the environment, and does not yet.

    Raises ConfigError on a processor that cannot be pinned.
    """
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
