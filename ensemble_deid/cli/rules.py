"""`rules`: read, check, explain and replace learned rule lists."""

import argparse
from pathlib import Path
from typing import Any

from ensemble_deid.cli.terminal import say
from ensemble_deid.errors import ModelError


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    rules = commands.add_parser("rules", help="read, check, explain and replace learned rule lists")
    actions = rules.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="print a model's rule list")
    show.add_argument("model", metavar="MODEL", type=Path)
    show.set_defaults(run=run_show)


def run_show(options: argparse.Namespace) -> int:
    """Print the rule list as text."""
    from ensemble_deid.pipeline.directory import load_model
    from ensemble_deid.taggers.tbed.tagger import TbedTagger

    tagger = load_model(options.model)[0].taggers.get("tbed")
    if not isinstance(tagger, TbedTagger):
        raise ModelError(f"{options.model}: the model has no rule list: it was trained without tbed")
    say(tagger.rules.text())
    return 0
