"""The options that name a site's lists, and what is said of them at the end."""

import argparse
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from ensemble_deid.cli.terminal import counted, warn

if TYPE_CHECKING:
    from ensemble_deid.deidentify.known.site_lists import ListFiles, SiteLists


def add_lists(parser: argparse.ArgumentParser, *, strict: bool) -> None:
    """Add the options to a command; `strict` for one that writes notes without PHI."""
    parser.add_argument("--known", metavar="FILE", type=Path, help="identifiers of patients and staff, CSV or TSV")
    parser.add_argument("--allow", metavar="FILE", type=Path, help="strings that are never PHI, one a line")
    parser.add_argument("--deny", metavar="FILE", type=Path, help="strings to remove everywhere, CSV or TSV")
    if strict:
        parser.add_argument("--strict", action="store_true", help="withhold notes that still hold a known identifier")


def named_lists(options: argparse.Namespace) -> "ListFiles":
    """Return the files that the options name."""
    from ensemble_deid.deidentify.known.site_lists import ListFiles

    return ListFiles(options.known, options.allow, options.deny, getattr(options, "strict", False))


def read_lists(options: argparse.Namespace, labels: Collection[str]) -> "SiteLists":
    """Read the files that the options name."""
    return named_lists(options).read(labels)


def list_files(options: argparse.Namespace) -> tuple[Path | None, ...]:
    """Return the files that are read, which no output may overwrite."""
    return options.known, options.allow, options.deny


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
