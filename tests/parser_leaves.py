"""All commands of the package, of `python -m research` and of `python -m tools`, as their parsers have them."""

import argparse
from collections.abc import Iterator

from every_command import parsers


def leaves() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the words of each command that can be run, such as `corpus convert`, and its own parser."""
    for parser in parsers():
        for words, leaf in _below(parser):
            yield words.removeprefix(parser.prog).strip(), leaf


def _below(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield parser.prog, parser
    for group in groups:
        for child in group.choices.values():
            yield from _below(child)
