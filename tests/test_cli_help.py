"""What the commands are called, and that their help fits a screen and ends with an example that parses."""

import argparse
import shlex
from collections import defaultdict
from pathlib import Path

import pytest
from every_command import parser_of
from parser_leaves import leaves

from ensemble_deid.cli import main as package
from ensemble_deid.cli.main import main
from ensemble_deid.cli.options import SCREEN, WIDTH, CommandParser

LEAVES = dict(leaves())
MOST_AT_THE_TOP = 14
# What an option is given says what it means; these are given one of several kinds of output, or a file among few.
WRITES_OF_SEVERAL_KINDS = {"--out"}
MEANINGS = {
    # A corpus of dev notes; where a system is scored, with its answer.
    "--dev": 2,
    # Of a report, or of a run.
    "--summary": 2,
    # A setting of training, or one of the replacement.
    "--set": 2,
    # A model, or the folder of a package of one.
    "--model": 2,
    # Of a reviewer's account, or of who signs a release.
    "--role": 2,
}


@pytest.fixture(autouse=True)
def workplace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A wide terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


def top() -> list[str]:
    (group,) = package.build_parser()._subparsers._group_actions  # type: ignore[union-attr]
    return list(group.choices)


@pytest.mark.parametrize("command", package._MODULES)
def test_a_command_that_is_parsed_alone_is_parsed_alike(command: str) -> None:
    (group,) = package.build_parser(command)._subparsers._group_actions  # type: ignore[union-attr]
    (whole,) = package.build_parser()._subparsers._group_actions  # type: ignore[union-attr]
    module = package._MODULES[command]
    assert list(group.choices) == [name for name, its in package._MODULES.items() if its == module]
    alone, among_all = (found.choices[command] for found in (group, whole))
    assert alone.format_help() == among_all.format_help()


def test_few_commands_are_at_the_top() -> None:
    assert len(top()) <= MOST_AT_THE_TOP


@pytest.mark.parametrize("name", LEAVES)
def test_help_fits_a_screen_and_ends_with_an_example_that_parses(name: str) -> None:
    parser = LEAVES[name]
    assert isinstance(parser, CommandParser)
    *lines, title, example = parser.format_help().rstrip("\n").splitlines()
    assert title == "example:"
    assert all(len(line) <= WIDTH for line in (*lines, example))
    options = lines[lines.index("options:") + 1 :]
    assert len([line for line in options if line]) <= SCREEN
    # Rarely used options are hidden from one help only.
    shown = {option for line in lines for option in line.split() if option.startswith("--")}
    everything = parser.help_text(everything=True)
    assert all(action.option_strings[-1] in everything for action in parser._actions if action.option_strings)
    hidden = {a.option_strings[-1] for a in parser._actions if a.option_strings} - shown
    assert bool(hidden) == ("--help-all" in shown)
    words = shlex.split(example)[3 if example.startswith("  python -m ") else 1 :]
    assert " ".join(words).startswith(name)
    assert callable(parser_of(words).parse_args(words).run)


def test_every_argument_is_explained() -> None:
    for name, parser in LEAVES.items():
        for action in parser._actions:
            assert action.help, f"{name} {action.dest}"


def test_an_option_of_one_name_takes_one_thing() -> None:
    kinds: defaultdict[str, set[object]] = defaultdict(set)
    for parser in LEAVES.values():
        for action in parser._actions:
            for option in action.option_strings:
                kinds[option].add((str(action.metavar), action.nargs, isinstance(action, argparse._StoreTrueAction)))
    several = {name: found for name, found in kinds.items() if len(found) > MEANINGS.get(name, 1)}
    assert set(several) <= WRITES_OF_SEVERAL_KINDS, several


def test_an_installed_model_is_named_wherever_a_folder_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = 0
    for name, parser in LEAVES.items():
        for action in parser._actions:
            if "MODEL" in str(action.metavar) and not (action.option_strings and action.dest == "out"):
                named += 1
                if action.type is not None:
                    assert action.dest in parser.get_default("models"), f"{name} {action.dest}"
    assert named > 25
    assert main(["rules", "show", "no_such_model"]) == 2
    assert "no model of this name is installed" in capsys.readouterr().err


def test_rarely_used_options_are_shown_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    for option, shown in (("--help", False), ("--help-all", True)):
        with pytest.raises(SystemExit) as stopped:
            main(["train", option])
        assert stopped.value.code == 0
        assert ("--group-by" in capsys.readouterr().out) == shown
