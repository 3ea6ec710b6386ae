"""`check` and `build`: the demo corpus from its marked-up sources."""

import argparse
from pathlib import Path
from typing import Any

from ensemble_deid.cli.options import add_command
from ensemble_deid.cli.terminal import PROBLEMS, counted, say
from ensemble_deid.corpora.read import DEMO_SPLITS as SPLITS
from ensemble_deid.deidentify.outputs import refuse_output, refuse_output_files
from ensemble_deid.resources import data_directory
from tools.build import build_corpus
from tools.data_card import CARD_NAME, INTRODUCTION_NAME, KINDS_NAME, write_data_card
from tools.note_sources import note_files, read_note_sources


def add_commands(actions: Any) -> None:
    """Add this module's commands to the parser."""
    check = add_command(actions, "check", run_check, example="data/demo/src")
    check.add_argument("paths", metavar="PATH", type=Path, nargs="+", help=".note files, or folders of them")
    build = add_command(actions, "build", run_build)
    build.add_argument("demo", metavar="DEMO", type=Path, nargs="?", help="folder with src/ and splits.toml")


def run_check(options: argparse.Namespace) -> int:
    """List everything that is wrong with marked-up notes."""
    paths = note_files(options.paths)
    problems = read_note_sources(paths).problems
    for problem in problems:
        say(problem)
    say(f"notes checked: {len(paths)}, problems: {len(problems)}")
    return PROBLEMS if problems else 0


def run_build(options: argparse.Namespace) -> int:
    """Build the demo corpus from its marked-up sources."""
    demo = options.demo or data_directory() / "demo"
    inputs = [demo / "src", demo / "splits.toml", demo / INTRODUCTION_NAME, demo / KINDS_NAME]
    for name in SPLITS:
        refuse_output(demo / name, *inputs)
    refuse_output_files([demo / CARD_NAME], *inputs)
    for split in build_corpus(demo / "src", demo, splits=demo / "splits.toml"):
        say(f"{split.name}: {counted(split.notes, 'note')} of {counted(split.patients, 'patient')}")
    say(f"the data card is {write_data_card(demo)}")
    return 0
