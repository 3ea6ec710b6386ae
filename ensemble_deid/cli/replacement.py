"""The options that say what columns hold and what takes the place of PHI, and the options of a run that they make."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ensemble_deid.cli.options import Container
from ensemble_deid.cli.site_lists import named_lists
from ensemble_deid.cli.terminal import say
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.errors import ConfigError

if TYPE_CHECKING:
    from ensemble_deid.deidentify.options import RunChoices
    from ensemble_deid.deidentify.replacement import Replacer

_KEYED = ("surrogate", "hash")


def add_replacement(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command."""
    parser.add_argument(
        "--style", metavar="STYLE", help="tag (default), numbered, mask, remove, hash, surrogate or text:WORDS"
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="settings",
        help="styles.LABEL=STYLE, surrogates.whole_weeks=true and the like",
    )
    parser.add_argument("--policy", metavar="NAME|FILE.toml", help="safe-harbor, limited-data-set, everything, a file")
    add_key_file(parser, required=False)
    parser.add_argument("--scope", metavar="NAME", default="", help="another name gives other surrogates")


def add_key_file(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the file of the secret key."""
    parser.add_argument(
        "--key-file", metavar="FILE", type=Path, required=required, help="the site's secret key, as keygen makes it"
    )


def run_choices(options: argparse.Namespace) -> "RunChoices":
    """Return the choices of a run. Raises ConfigError for a setting that is none."""
    styles, settings = _settings(options.settings)
    choices: RunChoices = {
        "style": options.style,
        "styles": styles,
        "policy": options.policy,
        "settings": settings,
        "key": options.key_file,
        "project": options.scope,
        "lists": named_lists(options),
        "threshold": options.threshold,
    }
    if "combiner" in options:
        choices["combiner"], choices["jobs"] = options.combiner, options.jobs
    return choices


def tell_of_key(replacer: "Replacer", *, tell: Callable[[str], None] = say) -> None:
    """Say that nothing else will give the same surrogates, where that is so."""
    if replacer.key.throwaway and not replacer.styles.used.isdisjoint(_KEYED):
        tell("no --key-file: the key is made for this run alone, and no other run gives the same surrogates")


def add_columns(parser: Container) -> None:
    """Add what a table's columns, or the fields of JSONL, hold."""
    table = parser.add_argument_group("columns of a table, fields of JSONL (commas between several)")
    table.add_argument("--text-column", metavar="NAME", default="text", help="the notes; default: text")
    table.add_argument("--id-column", metavar="NAME", help="becomes a keyed pseudonym; in JSONL: id")
    table.add_argument("--patient-column", metavar="NAME", help="notes treated together; a pseudonym, too")
    table.add_argument("--date-columns", metavar="NAMES", help="are shifted like the dates in the patient's notes")
    table.add_argument("--date-order", metavar="ORDER", help="of numbers in date columns: dmy, mdy or ymd")
    table.add_argument("--keep-columns", metavar="NAMES", help="are passed through unchanged; all: every other column")


def columns_of(options: argparse.Namespace) -> Columns:
    """Return what the columns hold."""

    def several(names: str | None) -> tuple[str, ...]:
        return tuple(names.split(",")) if names else ()

    return Columns(
        text=options.text_column,
        id=options.id_column,
        patient=options.patient_column,
        dates=several(options.date_columns),
        keep=several(options.keep_columns),
        date_order=options.date_order,
    )


def _settings(given: list[str]) -> tuple[dict[str, str], dict[str, bool]]:
    styles: dict[str, str] = {}
    settings: dict[str, bool] = {}
    for setting in given:
        key, sign, value = setting.partition("=")
        section, dot, name = key.strip().partition(".")
        if not (sign and dot and name) or section not in ("styles", "surrogates"):
            raise ConfigError(f"--set {setting}: expected styles.LABEL=STYLE or surrogates.NAME=true")
        if section == "styles":
            styles[name] = value.strip()
        elif value.strip() in ("true", "false"):
            settings[name] = value.strip() == "true"
        else:
            raise ConfigError(f"--set {setting}: expected true or false")
    return styles, settings
