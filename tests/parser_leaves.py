"""All commands of the program, as its parser has them."""

import argparse
from collections.abc import Iterator

from ensemble_deid.cli.main import build_parser


def leaves(parser: argparse.ArgumentParser | None = None) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the words of each command that can be run, such as `corpus convert`, and its own parser."""
    parser = parser or build_parser()
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield parser.prog.partition(" ")[2], parser
    for group in groups:
        for child in group.choices.values():
            yield from leaves(child)
