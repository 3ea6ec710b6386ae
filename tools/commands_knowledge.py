"""`knowledge`: compile the tables of public lists."""

import argparse
from pathlib import Path
from typing import Any

from ensemble_deid.cli.options import add_command, add_group
from ensemble_deid.cli.terminal import say
from ensemble_deid.deidentify.outputs import refuse_output


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    actions = add_group(commands, "knowledge", "compile the tables of public lists (rules/knowledge)")
    build = add_command(actions, "build", run_build, example="--out rules/knowledge/en")
    build.add_argument("--out", metavar="DIR", type=Path, required=True, help="folder for the tables")
    build.add_argument("--scowl", metavar="DIR", type=Path, help="where Debian's package scowl put its word lists")


def run_build(options: argparse.Namespace) -> int:
    """Compile the English tables from openly licensed packages."""
    from tools.knowledge_build import SCOWL, build_knowledge

    refuse_output(options.out, options.scowl)
    sizes = build_knowledge(options.out, scowl=options.scowl or SCOWL)
    for name, size in sizes.items():
        say(f"{name:<12} {size:>8}")
    say(f"written to {options.out}")
    return 0
