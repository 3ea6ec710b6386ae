"""The command `ensemble-deid`: parse, call one function, print."""

import argparse
import sys
from collections.abc import Sequence

from ensemble_deid import __version__
from ensemble_deid.errors import DeidError

BAD_INPUT, NOTES_WITHHELD = 2, 3


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands; each command's module adds its own."""
    from ensemble_deid.cli import corpus, evaluation, prediction, rules, training

    parser = argparse.ArgumentParser(
        prog="ensemble-deid", description="Find and remove protected health information in clinical notes."
    )
    parser.add_argument("--version", action="version", version=f"ensemble-deid {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (training, prediction, evaluation, rules, corpus):
        module.add_commands(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 2 for bad input, 3 when notes were withheld."""
    options = build_parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except DeidError as error:
        sys.stderr.write(f"ensemble-deid: {error}\n")
        return BAD_INPUT
    except BrokenPipeError:
        return 1
    return status
