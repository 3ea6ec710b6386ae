"""The parser of the commands, and the options that several share: one name, one help text for one meaning."""

import argparse
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.config import named_configurations
from ensemble_deid.model.installed import find_model

if TYPE_CHECKING:
    from ensemble_deid.evaluation.operating_points import ThresholdRule

WIDTH = 100
SCREEN = 24
"""Lines for the options in a command's help; the rest is shown with `--help-all`."""
CORPUS = "annotated notes: a folder, a file, or demo:train, :dev, :test, :site, :later"
SYSTEM = "a corpus with the system's annotations, or a MODEL"
_RARE = "rarely used"

Container = argparse.ArgumentParser | argparse._ArgumentGroup
RunCommand = Callable[[argparse.Namespace], int | None]
"""Runs a command, and returns its exit status; None is 0."""


def _path(text: str) -> Path:
    """Return a path; an empty one, as of a variable that is not set, would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("an empty path")
    return Path(text)


class CommandParser(argparse.ArgumentParser):
    """A parser whose help fits a screen: a short usage, rarely used options on demand, one example at the end."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=_formatter, **settings)
        self._rare: argparse._ArgumentGroup | None = None
        self.register("type", Path, _path)

    def rare(self) -> argparse._ArgumentGroup:
        """Return the group of the options that only `--help-all` shows."""
        if self._rare is None:
            self.add_argument("--help-all", action=_HelpAll, nargs=0, help="show every option and exit")
            self._rare = self.add_argument_group(_RARE)
        return self._rare

    def format_usage(self) -> str:
        return f"usage: {self._short_usage()}\n"

    def format_help(self) -> str:
        """Return the help without the rarely used options."""
        return self.help_text(everything=False)

    def help_text(self, *, everything: bool) -> str:
        """Return usage, purpose, options by group, and the example."""
        formatter = self._get_formatter()
        formatter.add_usage(self._short_usage(), [], [])
        formatter.add_text(self.description)
        for group in self._action_groups:
            if everything or group is not self._rare:
                formatter.start_section(group.title)
                formatter.add_arguments(group._group_actions)
                formatter.end_section()
        formatter.add_text(self.epilog)
        if self._subparsers is not None:
            # argparse forgets the indent of the commands when it measures them.
            formatter._action_max_length += 2
        return formatter.format_help()

    def _short_usage(self) -> str:
        choices = [group for group in self._mutually_exclusive_groups if group.required]
        grouped = {id(action) for group in choices for action in group._group_actions}
        needed = [a for a in self._actions if a.option_strings and a.required and id(a) not in grouped]
        optional = any(a.option_strings and not a.required for a in self._actions if a.dest != "help")
        positional = [a for a in self._actions if not a.option_strings]
        words = " ".join(
            [
                self.prog,
                *(f"({' | '.join(_written(action) for action in group._group_actions)})" for group in choices),
                *map(_written, positional),
                *map(_written, needed),
                *(["[OPTIONS]"] if optional else []),
            ]
        )
        return textwrap.fill(words, WIDTH - len("usage: "), subsequent_indent="    ")


class _HelpAll(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        parser._print_message(
            parser.help_text(everything=True) if isinstance(parser, CommandParser) else "", sys.stdout
        )
        parser.exit()


def _formatter(prog: str) -> argparse.HelpFormatter:
    width = min(WIDTH, shutil.get_terminal_size().columns)
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=30, width=width)


def _written(action: argparse.Action) -> str:
    """Return an argument as shown in a usage line."""
    metavar = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    words = " ".join(metavar) if isinstance(metavar, tuple) else metavar
    if action.option_strings:
        return action.option_strings[0] if action.nargs == 0 else f"{action.option_strings[0]} {words}"
    if action.nargs == "?" or not action.required:
        return f"[{words}]"
    return f"{words} [{words} ...]" if action.nargs == "+" else words


def add_command(
    commands: Any, name: str, run: RunCommand, *, example: str = "", purpose: str | None = None
) -> CommandParser:
    """Add a command; `example` has arguments that it could be given.

    `purpose`, by default the first line of what `run` says of itself, is one sentence.
    """
    sentence = purpose or (run.__doc__ or name).partition("\n")[0]
    parser: CommandParser = commands.add_parser(
        name, help=f"{sentence[0].lower()}{sentence[1:].removesuffix('.')}", description=sentence
    )
    parser.set_defaults(run=run)
    parser.epilog = f"example:\n  {parser.prog} {example}".rstrip()
    return parser


def add_on_model(commands: Any, name: str, run: RunCommand, *, example: str) -> CommandParser:
    """Add a command whose first argument is MODEL."""
    parser = add_command(commands, name, run, example=example)
    add_model(parser)
    return parser


def add_group(commands: Any, name: str, purpose: str) -> Any:
    """Add a command that has commands of its own, and return what these are added to."""
    parser = commands.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.")
    return parser.add_subparsers(dest="action", required=True, metavar="COMMAND")


def add_model(parser: CommandParser, name: str = "model", **settings: Any) -> None:
    """Add an argument that takes a model's folder, or the name of an installed one (`find_models`)."""
    usual = {"metavar": "MODEL", "help": "a model's folder, or an installed one's name"}
    action = parser.add_argument(name, type=Path, **{**usual, **settings})
    parser.set_defaults(models=(*(parser.get_default("models") or ()), action.dest))


def find_models(options: argparse.Namespace) -> None:
    """Replace models' names by their folders. Raises ModelError for an unknown name."""
    for name in getattr(options, "models", ()):
        if getattr(options, name) is not None:
            setattr(options, name, find_model(getattr(options, name)))


def add_signing_key(parser: Container, name: str) -> None:
    help_text = "your private key, as `keygen --signing` makes it"
    parser.add_argument(name, metavar="FILE", type=Path, required=True, dest="signing_key", help=help_text)


def add_repeatable(parser: Container, name: str, metavar: str, meaning: str, **settings: Any) -> None:
    """Add an option whose values are a list, which is empty where it is not given."""
    parser.add_argument(name, metavar=metavar, action="append", default=[], help=meaning, **settings)


def add_files(parser: Container, forms: Sequence[str]) -> None:
    """Add `--out` for a command that prints its figures."""
    kinds = " or ".join([", ".join(forms[:-1]), forms[-1]] if forms[1:] else forms)
    several = "; repeatable" if forms[1:] else ""
    add_repeatable(parser, "--out", "FILE", f"also write them: {kinds}{several}", type=Path)


_SHARED: dict[str, dict[str, Any]] = {
    "allow-overlap": {"action": "store_true", "help": "accept notes or patients seen in training"},
    "combiner": {"metavar": "NAME", "default": "svm", "help": "svm (the final estimator), union, majority or per-type"},
    "device": {"choices": ("auto", "cpu", "cuda"), "help": "device for networks"},
    "group-by": {"choices": ("auto", "patient", "site"), "help": "what folds keep together"},
    "jobs": {"metavar": "N", "type": int, "help": "processes at a time"},
    "labels": {"metavar": "LIST", "help": "score only these labels, categories or groups A to D"},
    "quiet": {"action": "store_true", "help": "no progress bar"},
    # `main` starts the command again with pinned libraries where it is given.
    "reproducible": {"action": "store_true", "help": "same result on every processor; slower"},
    "resume": {"action": "store_true", "help": "continue an interrupted run"},
    "remark": {"metavar": "TEXT", "default": "", "help": "for the record: who asked for it, and why"},
    "seed": {"metavar": "N", "type": int, "help": "seed of everything random"},
    "submodels": {"metavar": "LIST", "help": "only these, such as regex,tbed,crf,neural"},
    "threshold": {"metavar": "T", "type": float, "help": "least probability of an accepted span, 0 to 1"},
    "text": {"action": "store_true", "help": "quote the notes: the output contains PHI"},
}


def add_shared(parser: Container, *names: str, **defaults: int) -> None:
    """Add options by name, in this order; a keyword has an option's default (a setting's is the configuration's)."""
    for name in names:
        settings = _SHARED[name] | ({"default": defaults[name]} if name in defaults else {})
        parser.add_argument(f"--{name}", **settings)


def add_resampling(parser: Container, *, default: int = 10_000) -> None:
    parser.add_argument("--resamples", metavar="N", type=int, default=default, help="0 for no intervals")
    add_shared(parser, "seed", seed=0)


def add_port(parser: Container, *, default: int) -> None:
    parser.add_argument("--port", metavar="N", type=int, default=default, help=f"default: {default}; 0: a free one")


def add_config(parser: Container, *, default: str | None = None) -> None:
    names = f"default: {default}" if default else f"{', '.join(named_configurations())}, or a file"
    parser.add_argument("--config", metavar="NAME|FILE.toml", default=default, help=names)
    add_repeatable(parser, "--set", "KEY=VALUE", "a setting, as section.key", dest="overrides")


def submodels_of(options: argparse.Namespace) -> list[str] | None:
    return None if options.submodels is None else [name.strip() for name in options.submodels.split(",")]


def add_member(parser: Container) -> None:
    """Add where the spans of other systems come from that are members of the stack."""
    meaning = "another system's spans by note id, NAME=recognizer:MODULE:FUNCTION, or an installed NAME; repeatable"
    add_repeatable(parser, "--member", "NAME[=FILE.jsonl]", meaning)


def members_of(options: argparse.Namespace) -> dict[str, str]:
    """Return the members that are named. Raises ConfigError."""
    from ensemble_deid.deidentify.members import parse_members

    return parse_members(options.member)


def add_running(parser: CommandParser, *, quiet: bool = True) -> None:
    """Add the options of every command that runs a model over notes; `quiet` for one with a progress bar."""
    add_shared(parser, "threshold", "jobs", *(["quiet"] if quiet else []), jobs=1)
    rare = parser.rare()
    add_shared(rare, "submodels", "combiner", "device", "reproducible")
    add_member(rare)


def add_target(parser: argparse._MutuallyExclusiveGroup) -> None:
    parser.add_argument("--sensitivity", type=float, metavar="S", help="share of PHI tokens to find, such as 0.997")
    parser.add_argument("--precision", type=float, metavar="P", help="highest recall at this precision or more")
    parser.add_argument(
        "--max-false-positives", type=float, metavar="N", help="highest recall at N wrong tokens in 1000 or fewer"
    )


def target_of(options: argparse.Namespace) -> "tuple[ThresholdRule, float] | None":
    """Return a threshold's target, or None. Raises EvaluationError for an impossible one."""
    from ensemble_deid.evaluation.operating_points import check_target

    targets: dict[ThresholdRule, float | None] = {
        "sensitivity": options.sensitivity,
        "precision": options.precision,
        "false-positives": options.max_false_positives,
    }
    target = next(((rule, wanted) for rule, wanted in targets.items() if wanted is not None), None)
    if target is not None:
        check_target(*target)
    return target
