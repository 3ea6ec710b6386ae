"""`corpus`: look at corpora, convert, check, build and enlarge them."""

import argparse
import json
from pathlib import Path
from typing import Any

from ensemble_deid.cli.output import refuse_output
from ensemble_deid.cli.status import PROBLEMS
from ensemble_deid.cli.terminal import say, warn
from ensemble_deid.corpora.locate import locate_corpus
from ensemble_deid.corpora.read import read_corpus

_FORMATS = ("i2b2", "meddocan", "brat", "jsonl", "plain")


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    corpus = commands.add_parser("corpus", help="look at corpora, convert, check, build and enlarge them")
    actions = corpus.add_subparsers(dest="action", required=True, metavar="ACTION")
    stats = actions.add_parser("stats", help="notes, patients, words and PHI by label")
    stats.add_argument("corpus", metavar="CORPUS")
    stats.add_argument("--json", action="store_true", help="print JSON")
    stats.set_defaults(run=run_stats)
    convert = actions.add_parser("convert", help="write a corpus in another format")
    convert.add_argument("corpus", metavar="CORPUS")
    convert.add_argument("--out", metavar="DIR", type=Path, required=True)
    convert.add_argument("--format", choices=_FORMATS, required=True)
    convert.set_defaults(run=run_convert)
    check = actions.add_parser("check", help="list everything that is wrong with marked-up notes (.note files)")
    check.add_argument("paths", metavar="FILE_OR_FOLDER", type=Path, nargs="+")
    check.set_defaults(run=run_check)
    build = actions.add_parser("build", help="build the demo corpus from its marked-up sources")
    build.add_argument("demo", metavar="DEMO", type=Path, nargs="?", help="folder with src/ and splits.toml")
    build.set_defaults(run=run_build)
    resample = actions.add_parser("resample", help="copies of the notes with every PHI replaced by a fresh value")
    resample.add_argument("corpus", metavar="CORPUS")
    resample.add_argument("--copies", metavar="N", type=int, default=1)
    resample.add_argument("--seed", metavar="S", type=int, default=13)
    resample.add_argument("--out", metavar="DIR", type=Path, required=True)
    resample.add_argument("--format", choices=_FORMATS[:-1], default="i2b2")
    resample.set_defaults(run=run_resample)


def run_stats(options: argparse.Namespace) -> int:
    """Print a corpus's figures."""
    from ensemble_deid.corpora.statistics import corpus_statistics, render_statistics

    corpus = read_corpus(options.corpus)
    for warning in corpus.warnings:
        warn(warning)
    statistics = corpus_statistics(corpus)
    say(json.dumps(statistics.as_dict(), indent=1) if options.json else render_statistics(statistics))
    return 0


def run_convert(options: argparse.Namespace) -> int:
    """Write a corpus in another format."""
    from ensemble_deid.corpora.write import write_corpus

    refuse_output(options.out, locate_corpus(options.corpus))
    corpus = read_corpus(options.corpus)
    for warning in corpus.warnings:
        warn(warning)
    paths = write_corpus(corpus.documents, options.out, options.format)
    say(f"{len(corpus)} notes written to {options.out} in {len(paths)} files")
    return 0


def run_check(options: argparse.Namespace) -> int:
    """Print every problem of marked-up notes as file:line:column; the exit status tells whether there is one."""
    from ensemble_deid.corpora.note_sources import note_files, read_note_sources

    paths = note_files(options.paths)
    problems = read_note_sources(paths).problems
    for problem in problems:
        say(problem)
    say(f"notes checked: {len(paths)}, problems: {len(problems)}")
    return PROBLEMS if problems else 0


def run_build(options: argparse.Namespace) -> int:
    """Build XML from the sources, and the data card."""
    from ensemble_deid.corpora.build import build_corpus
    from ensemble_deid.corpora.data_card import write_data_card
    from ensemble_deid.resources import data_directory

    demo = options.demo or data_directory() / "demo"
    for split in build_corpus(demo / "src", demo, splits=demo / "splits.toml"):
        say(f"{split.name}: {split.notes} notes of {split.patients} patients")
    say(f"the data card is {write_data_card(demo)}")
    return 0


def run_resample(options: argparse.Namespace) -> int:
    """Write resampled copies of a corpus."""
    from ensemble_deid.corpora.resample import resample_corpus
    from ensemble_deid.corpora.write import write_corpus

    refuse_output(options.out, locate_corpus(options.corpus))
    corpus = read_corpus(options.corpus)
    copies = resample_corpus(corpus.documents, copies=options.copies, seed=options.seed)
    write_corpus(copies, options.out, options.format)
    say(f"{len(copies)} resampled notes written to {options.out}")
    return 0
