"""Run a command of the package, of `python -m research` or of `python -m tools`, whichever has it."""

import argparse
from collections.abc import Sequence

from ensemble_deid.cli import main as package
from research import __main__ as research
from tools import __main__ as tools


def parsers() -> tuple[argparse.ArgumentParser, ...]:
    """Return the three parsers."""
    return package.build_parser(), research.build_parser(), tools.build_parser()


def parser_of(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser that has the command, the package's where none has."""
    return next((parser for parser in parsers() if _has(parser, arguments)), package.build_parser())


def main(arguments: Sequence[str]) -> int:
    """Run a command and return its exit status."""
    return package.run(parser_of(arguments), arguments)


def _has(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> bool:
    choices = next(iter(parser._subparsers._group_actions)).choices  # type: ignore[union-attr]
    return bool(arguments) and arguments[0] in choices
