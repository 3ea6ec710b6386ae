"""`keygen`: make a key."""

import argparse
from pathlib import Path
from typing import Any

from ensemble_deid.cli.options import add_command
from ensemble_deid.cli.terminal import say
from ensemble_deid.keys import make_key_file


def add_commands(commands: Any) -> None:
    """Add this module's command to the parser."""
    keygen = add_command(
        commands,
        "keygen",
        "make a secret key, for surrogates, hashes, pseudonyms and signatures",
        example="keygen site.key",
    )
    keygen.add_argument("file", metavar="FILE", type=Path, help="a new file, readable by you alone")
    keygen.set_defaults(run=run_keygen)


def run_keygen(options: argparse.Namespace) -> int:
    """Write a new key; an existing file stays as it is."""
    key = make_key_file(options.file)
    say(f"{options.file}: a new key, with the id {key.id}; guard it like the notes, and keep a copy")
    return 0
