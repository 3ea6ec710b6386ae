"""`bundle`: wheels of everything, to install where no network is."""

import argparse
from pathlib import Path
from typing import Any

from ensemble_deid.cli.options import add_command
from ensemble_deid.cli.terminal import counted, say
from tools.bundle import make_bundle

_ROOT = Path(__file__).parents[1]


def add_commands(commands: Any) -> None:
    """Add this module's command to the parser."""
    parser = add_command(commands, "bundle", run_bundle, example="wheels")
    parser.add_argument("out", metavar="DIR", type=Path, help="folder for the wheels")
    parser.add_argument("--extras", metavar="LIST", default="service,tables,sql", help="of the package")
    parser.add_argument("--model", metavar="DIR", type=Path, action="append", help="folder of a model package")


def run_bundle(options: argparse.Namespace) -> int:
    """Gather wheels and their checksums to install without a network."""
    models = options.model or sorted((_ROOT / "models").iterdir())
    extras = [extra for extra in options.extras.split(",") if extra]
    wheels = make_bundle(options.out, root=_ROOT, extras=extras, models=models)
    size = sum(wheel.stat().st_size for wheel in wheels) / 1e6
    say(f"{counted(len(wheels), 'wheel')} ({size:.0f} MB) in {options.out}; how to install them: INSTALL.txt")
    return 0
