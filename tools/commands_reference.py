"""`reference`: write the pages of commands and configuration that the documents link to."""

import argparse
from pathlib import Path
from typing import Any

from ensemble_deid.cli.options import add_command
from ensemble_deid.cli.terminal import say

ROOT = Path(__file__).parents[1]


def add_commands(commands: Any) -> None:
    """Add this module's command to the parser."""
    parser = add_command(commands, "reference", run_reference)
    parser.add_argument(
        "out", metavar="DIR", type=Path, nargs="?", default=ROOT / "docs" / "reference", help="default: docs/reference"
    )


def run_reference(options: argparse.Namespace) -> int:
    """Write docs/reference from the code."""
    from tools.reference import write_references

    for path in write_references(options.out):
        say(f"written to {path}")
    return 0
