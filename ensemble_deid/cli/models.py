"""`export`: a model without what only training and ablations need."""

import argparse
from pathlib import Path
from typing import Any

from ensemble_deid.cli.terminal import say


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    export = commands.add_parser("export", help="copy a model without its private files (docs/models.md)")
    export.add_argument("model", metavar="MODEL", type=Path)
    export.add_argument("--out", metavar="MODEL", type=Path, required=True, help="folder to write the copy to")
    export.add_argument("--shareable", action="store_true", help="refuse a model that was not trained with --shareable")
    export.set_defaults(run=run_export)


def run_export(options: argparse.Namespace) -> int:
    """Write the copy."""
    from ensemble_deid.pipeline.export import export_model

    names = export_model(options.model, options.out, shareable=options.shareable)
    say(f"{len(names)} files copied to {options.out}; its private files stay in {options.model}")
    return 0
