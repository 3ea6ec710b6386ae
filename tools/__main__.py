"""`python -m tools`: build the demo corpus, the tables of public lists and the references, in a checkout."""

import argparse
import sys

from ensemble_deid.cli.main import run
from ensemble_deid.cli.options import CommandParser
from tools import commands_bundle, commands_corpus, commands_knowledge, commands_reference


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the builders' commands."""
    parser = CommandParser(prog="python -m tools", description="Build what the package ships.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (commands_bundle, commands_corpus, commands_knowledge, commands_reference):
        module.add_commands(commands)
    return parser


if __name__ == "__main__":
    sys.exit(run(build_parser()))
