"""`python -m research`: experiments on how systems transfer and what their errors give away, in a checkout."""

import argparse
import sys

from ensemble_deid.cli.main import run
from ensemble_deid.cli.options import CommandParser
from research import (
    audit_coverage,
    benchmark,
    commands_encoders,
    commands_exposure,
    commands_parts,
    commands_transfer,
    date_linkage,
    names,
)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the research commands."""
    parser = CommandParser(prog="python -m research", description="Experiments beside the product.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (
        audit_coverage,
        benchmark,
        commands_encoders,
        commands_exposure,
        commands_parts,
        commands_transfer,
        date_linkage,
        names,
    ):
        module.add_commands(commands)
    return parser


if __name__ == "__main__":
    sys.exit(run(build_parser()))
