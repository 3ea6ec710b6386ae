"""Options of a run: site lists, what columns hold, and what takes the place of PHI."""

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ensemble_deid.cli.options import CommandParser, Container, add_repeatable
from ensemble_deid.cli.terminal import counted, say, warn
from ensemble_deid.corpora.record_map import FieldRule, FieldRules
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.errors import ConfigError

if TYPE_CHECKING:
    from ensemble_deid.deidentify.known.site_lists import ListFiles, SiteLists
    from ensemble_deid.deidentify.options import RunChoices
    from ensemble_deid.deidentify.replacement import Replacer


def add_gate(parser: CommandParser) -> None:
    parser.add_argument("--accept-unfit", action="store_true", help="write notes the model could not read; count them")
    parser.rare().add_argument(
        "--least-recall", metavar="R", type=float, help="least measured recall of the model; default: 0.8"
    )


def add_lists(parser: argparse.ArgumentParser, *, strict: bool) -> None:
    """Add the options to a command; `strict` for one that writes notes without PHI."""
    parser.add_argument("--known", metavar="FILE", type=Path, help="identifiers of patients and staff, CSV or TSV")
    parser.add_argument("--allow", metavar="FILE", type=Path, help="strings that are never PHI, one a line")
    parser.add_argument("--deny", metavar="FILE", type=Path, help="strings to remove everywhere, CSV or TSV")
    if strict:
        parser.add_argument("--strict", action="store_true", help="withhold notes that still hold a known identifier")


def named_lists(options: argparse.Namespace) -> "ListFiles":
    from ensemble_deid.deidentify.known.site_lists import ListFiles

    return ListFiles(options.known, options.allow, options.deny, getattr(options, "strict", False))


def report_lists(lists: "SiteLists", counts: Counter[str]) -> None:
    """Warn of known identifiers in the output, and of notes for which there were none."""
    from ensemble_deid.deidentify.known.site_lists import LEFT, UNKNOWN

    if lists.known is None:
        return
    if counts[UNKNOWN]:
        warn(f"{counted(counts[UNKNOWN], 'note')} of patients without known identifiers, or without a patient")
    if counts[LEFT]:
        action = "and withheld" if lists.strict else "and written; --strict withholds such notes"
        warn(f"{counted(counts[LEFT], 'known identifier')} found in the output, {action}")


def add_recognizers(parser: CommandParser, *, rename: bool = True) -> None:
    """Add what others find besides the model, and with `rename` what labels are called in the output."""
    rare = parser.rare()
    meaning = "module:function or an installed one, enforced; with a score its spans are votes"
    add_repeatable(rare, "--recognizer", "NAME[@SCORE]", meaning)
    add_repeatable(rare, "--spans-from", "FILE[@SCORE]", "JSONL notes with spans, likewise")
    if rename:
        rare.add_argument("--rename", metavar="OLD=NEW,...", help="names of labels and categories in the output")


def rename_of(options: argparse.Namespace) -> dict[str, str] | None:
    """Return the new names of labels. Raises ConfigError."""
    if options.rename is None:
        return None
    names: dict[str, str] = {}
    for pair in options.rename.split(","):
        label, sign, name = (part.strip() for part in pair.partition("="))
        if not (label and sign and name) or label in names:
            raise ConfigError(f"--rename {options.rename}: expected OLD=NEW for each label once, commas between them")
        names[label] = name
    return names


_KEYED = ("surrogate", "hash")


def add_replacement(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--style", metavar="STYLE", help="tag (default), numbered, mask, remove, hash, surrogate or text:WORDS"
    )
    meaning = "styles.LABEL=STYLE, surrogates.min_score=0.5 and the like"
    add_repeatable(parser, "--set", "KEY=VALUE", meaning, dest="settings")
    parser.add_argument("--policy", metavar="NAME|FILE.toml", help="safe-harbor, limited-data-set, everything, a file")
    add_key_file(parser)
    parser.add_argument("--scope", metavar="NAME", default="", help="each scope has its own surrogates")


def add_key_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key-file", metavar="FILE", type=Path, help="the site's secret key, as keygen makes it")


def finding_choices(options: argparse.Namespace) -> "RunChoices":
    """Return the options that decide what is found and which notes are written. Raises ConfigError."""
    choices: RunChoices = {
        "key": options.key_file,
        "rename": rename_of(options),
        "lists": named_lists(options),
        "recognizers": options.recognizer,
        "spans_from": options.spans_from,
        "accept_unfit": options.accept_unfit,
    }
    if options.least_recall is not None:
        choices["least_recall"] = options.least_recall
    return choices


def run_choices(options: argparse.Namespace) -> "RunChoices":
    """Return the choices of a run. Raises ConfigError for a setting that is none."""
    styles, settings = _settings(options.settings)
    choices: RunChoices = {
        **finding_choices(options),
        "style": options.style,
        "styles": styles,
        "policy": options.policy,
        "settings": settings,
        "scope": options.scope,
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
    table = parser.add_argument_group("columns of a table, fields of JSONL (commas between several)")
    table.add_argument("--text-column", metavar="NAME", default="text", help="the notes; default: text")
    table.add_argument("--id-column", metavar="NAME", help="becomes a keyed pseudonym; in JSONL: id")
    table.add_argument("--patient-column", metavar="NAME", help="groups a patient's notes; becomes a pseudonym")
    table.add_argument("--date-columns", metavar="NAMES", help="shift like the dates in the patient's notes")
    table.add_argument("--date-order", metavar="ORDER", help="order of numeric dates in columns: dmy, mdy or ymd")
    table.add_argument("--keep-columns", metavar="NAMES", help="pass unchanged; all: every other column")


def rules_of(options: argparse.Namespace) -> FieldRules:
    """Return the rules of single columns. Raises ConfigError."""
    rules = {}
    for given in options.column:
        name, sign, kind = given.rpartition("=")
        if not (sign and name) or name in rules:
            raise ConfigError(f"--column {given}: expected NAME=KIND, for each column once")
        kind, _, of = kind.partition(":")
        rules[name] = FieldRule.parse({"kind": kind, "of": of} if of else kind, f"--column {given}")
    return rules


def columns_of(options: argparse.Namespace) -> Columns:
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


def _settings(given: list[str]) -> tuple[dict[str, str], dict[str, bool | float]]:
    styles: dict[str, str] = {}
    settings: dict[str, bool | float] = {}
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
            try:
                settings[name] = float(value)
            except ValueError:
                raise ConfigError(f"--set {setting}: expected true, false or a number") from None
    return styles, settings
