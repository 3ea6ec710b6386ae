"""`errors`: the notes in which a model makes most errors, to be corrected and trained on."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.sources import read_gold, read_system
from ensemble_deid.cli.terminal import counted, say
from ensemble_deid.corpora.locate import locate_corpus
from ensemble_deid.corpora.outputs import refuse_output, refuse_output_files, refuse_shared
from ensemble_deid.errors import ConfigError
from ensemble_deid.resources import data_directory

if TYPE_CHECKING:
    from ensemble_deid.evaluation.worst_notes import NoteErrors


def add_commands(commands: Any) -> None:
    """Add this module's command to the parser."""
    parser = commands.add_parser("errors", help="the notes in which a model makes most errors")
    parser.add_argument(
        "corpus", metavar="CORPUS", help="annotated notes to correct and learn from; not those of a test"
    )
    parser.add_argument("system", metavar="SYSTEM", help="a MODEL, or a corpus with a system's annotations")
    parser.add_argument("--worst", metavar="N", type=int, default=20, help="how many notes (default: 20)")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="write these notes with CORPUS's annotations; they contain PHI"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="the numbers of errors of these notes")
    parser.add_argument("--test-split", action="store_true", help="allow demo:test: whoever reads its errors spoils it")
    parser.set_defaults(run=run_errors)


def run_errors(options: argparse.Namespace) -> int:
    """Print the notes with their numbers of errors, and write them where that is asked for."""
    from ensemble_deid.corpora.write import write_corpus
    from ensemble_deid.evaluation.worst_notes import worst_notes

    if options.worst < 1:
        raise ConfigError(f"--worst: at least 1, not {options.worst}")
    location = locate_corpus(options.corpus)
    if not options.test_split and location.source.resolve() == (data_directory() / "demo" / "test").resolve():
        raise ConfigError(
            f"{options.corpus}: what is learned from the errors of test notes makes them useless as a test; "
            "--test-split allows it"
        )
    if options.out is not None:
        refuse_output(options.out, location, options.system, format="jsonl")
    refuse_output_files([options.json], location, options.system)
    refuse_shared(options.out, options.json)
    gold = read_gold(options.corpus)
    system = read_system(options.system, gold.documents)
    for warning in system.warnings:
        say(f"WARNING: {warning}.\n")
    found = worst_notes(gold.documents, system.answer)
    shown = found[: options.worst]
    say("errors  missed  annotations  site  note")
    for note in shown:
        say(f"{note.errors:>6}  {note.missed:>6}  {note.annotations:>11}  {note.site or '-':<4}  {note.id}")
    everything, part = sum(note.errors for note in found), sum(note.errors for note in shown)
    say(
        f"\n{counted(len(found), 'note')} of {len(gold.documents)} have {counted(everything, 'error')}; "
        f"those listed have {part}"
    )
    if options.json is not None:
        write_text_atomically(options.json, json.dumps([_as_dict(note) for note in shown], indent=1) + "\n")
    if options.out is not None and not shown:
        say("nothing is written: there is nothing to correct")
    elif options.out is not None:
        by_id = {note.id: note for note in gold.documents}
        write_corpus([by_id[note.id] for note in shown], options.out, "jsonl")
        say(
            f"these notes are in {options.out}, with all their PHI: correct them, then train --start-from MODEL on them"
        )
    return 0


def _as_dict(note: "NoteErrors") -> dict[str, Any]:
    return {**asdict(note), "kinds": dict(sorted(note.kinds.items())), "errors": note.errors}
