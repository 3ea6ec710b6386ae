"""`project`: notes that come night by night, each patient's alike (docs/project.md)."""

import argparse
import csv
import io
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.atomic import write_new_private_file
from ensemble_deid.cli.deidentify import add_options, add_reading, opened, project_key, reading_of, run_deidentify
from ensemble_deid.cli.options import CommandParser, RunCommand, add_command, add_running, members_of, submodels_of
from ensemble_deid.cli.replacement import add_key_file, add_lists, add_recognizers, named_lists
from ensemble_deid.cli.terminal import PROBLEMS, counted, say
from ensemble_deid.errors import ConfigError

if TYPE_CHECKING:
    from ensemble_deid.deidentify.project.store import KeptNote

_DIR = "the project: a folder, or a database's URL"


def add_commands(commands: Any) -> None:
    _add(commands, "create", run_create, "asthma --key-file site.key")
    add = _add_night(commands, "add", "Write the notes that the project has not handed out.", "notes.csv")
    add.rare().add_argument("--hold", metavar="N", type=int, default=0, help="wait for so many notes of a patient")
    correct = _add_night(commands, "correct", "Write corrected notes, which the project must know.", "late.csv")
    correct.set_defaults(only_known=True)
    forget = _add(commands, "forget", run_forget, "asthma M300 --key-file site.key")
    forget.add_argument("patient", metavar="PATIENT", help="as the notes name the patient")
    _add(commands, "status", run_status, "asthma --key-file site.key")
    _add_diff(commands)
    export = _add(commands, "export-pseudonyms", run_export, "asthma --key-file site.key --csv pseudonyms.csv")
    export.add_argument("--csv", metavar="FILE", type=Path, required=True, help="a new file, which only you may read")
    rotate = _add(commands, "rotate-key", run_rotate, "asthma --key-file site.key --new-key-file new.key")
    rotate.add_argument("--new-key-file", metavar="FILE", type=Path, required=True, help="the key of the new release")


def _add_night(commands: Any, name: str, purpose: str, notes: str) -> CommandParser:
    example = f"asthma en {notes} --out new.csv --id-column id --key-file key"
    parser = add_command(commands, name, run_deidentify, example=example, purpose=purpose)
    parser.add_argument("project", metavar="DIR", help=_DIR)
    add_options(parser)
    parser.rare().add_argument("--again", action="store_true", help="write unchanged notes, too")
    return parser


def _add(commands: Any, name: str, run: RunCommand, example: str) -> CommandParser:
    parser = add_command(commands, name, run, example=example)
    parser.add_argument("project", metavar="DIR", help=_DIR)
    add_key_file(parser)
    return parser


def _add_diff(commands: Any) -> None:
    example = "asthma notes.csv --id-column id --model new_model --key-file site.key"
    diff = _add(commands, "diff", run_diff, example)
    diff.add_argument("input", metavar="INPUT", nargs="?", help="with --model: notes that were handed out")
    diff.add_argument("--model", metavar="MODEL", type=Path, help="a model's folder, or an installed one's name")
    diff.add_argument("--most", metavar="N", type=int, default=200, help="notes to read; default: 200")
    add_lists(diff, strict=False)
    add_recognizers(diff, rename=False)
    add_running(diff, quiet=False)
    add_reading(diff)
    diff.set_defaults(models=("model",), keep_fields=False, query=None, table_out=None)


def run_create(options: argparse.Namespace) -> None:
    """Make a new project."""
    from ensemble_deid.deidentify.project.store import Store, is_url

    store = Store.create(options.project, project_key(options.key_file))
    where = "the database" if is_url(options.project) else options.project
    say(f"{where}: a new project, sealed with the key {store.key.id}; without this key nobody can read it")


def run_status(options: argparse.Namespace) -> int:
    """List notes to hand out again.

    Returns 1 where there are any.
    """
    from ensemble_deid.deidentify.project.night import WITHHELD
    from ensemble_deid.deidentify.project.store import HELD

    store = opened(options)
    rows = list(store.rows())
    due = [row for row in rows if row.due not in (None, HELD, WITHHELD)]
    withheld = [row for row in rows if row.due == WITHHELD]
    held = sum(row.due == HELD for row in rows)
    out = [row for row in rows if row.output is not None and "beside" not in row.memory]
    patients = counted(len({row.patient for row in rows}), "patient")
    say(f"release {store.release}, {counted(store.night, 'night')}, {patients}")
    say(f"{counted(len(out), 'note')} handed out, {len(withheld)} withheld, {held} held, {len(due)} to hand out again")
    for model, number in sorted(Counter(row.model for row in out).items()):
        say(f"{counted(number, 'note')} by the model {model[:12] or 'without a folder'}")
    for line in sorted(f"withheld: {row.memory['id']}{_where(row)}" for row in withheld):
        say(line)
    for line in sorted(f"again: {row.memory['id']}: {row.due}{_where(row)}" for row in due):
        say(line)
    return PROBLEMS if due else 0


def _where(row: "KeptNote") -> str:
    return f" ({row.memory['outs'][-1]})" if row.memory.get("outs") else ""


def run_forget(options: argparse.Namespace) -> None:
    """Delete a patient's records.

    Lists the outputs to delete.
    """
    with opened(options).changing(purge=True) as commit:
        for name, place in commit.forget(options.patient):
            say(f"delete: {name} ({place})")
        say("the patient is forgotten; delete the outputs above, and their lines in the runs' spans.jsonl")
        # Nothing is forgotten before the list is out: nobody could make it again.
        sys.stdout.flush()


def run_diff(options: argparse.Namespace) -> None:
    """List outputs that were replaced, or what a new model would change."""
    if (options.model is None) != (options.input is None):
        raise ConfigError("--model and INPUT go together: notes that were handed out, to read with the new model")
    if options.model is not None:
        _compare(options)
        return
    store = opened(options)
    for change in store.changes():
        facts = change.facts
        new = "withheld" if facts["new"] is None else facts["new"][:12]
        nights = f"night {facts['since']}: {facts['old'][:12]}, night {change.night}: {new}"
        say(f"{facts['note']}: {facts['why']}; {nights}; replaces the output in {facts['out']}")
    say(f"{counted(len(store.changes()), 'output')} of release {store.release} replaced")


def _compare(options: argparse.Namespace) -> None:
    from ensemble_deid.deidentify.deidentifier import Deidentifier
    from ensemble_deid.deidentify.options import RunOptions
    from ensemble_deid.deidentify.project.night import Project
    from ensemble_deid.deidentify.project.upgrade import KINDS, compare_models
    from ensemble_deid.deidentify.sources import note_source

    project = Project(store=opened(options))
    source = note_source(options.input, reading_of(options), leave_out=[])
    model = Deidentifier.load(
        options.model,
        jobs=options.jobs,
        device=options.device,
        submodels=submodels_of(options),
        members=members_of(options),
    )
    # Styles are those of the release: a label whose style shows what it holds gives way to others.
    styles = (project.store.settings or {}).get("styles", {})
    chosen = RunOptions.choose(
        model.labels,
        style=styles.get("default"),
        styles=styles.get("by_label"),
        lists=named_lists(options),
        recognizers=options.recognizer,
        spans_from=options.spans_from,
        key=project.store.key,
        threshold=options.threshold,
        combiner=options.combiner,
        jobs=options.jobs,
    )
    found = compare_models(project, source, model, chosen, options.most)
    say(" ".join(f"{title:>14}" for title in ("label", *KINDS)))
    for label, counts in sorted(found.by_label.items()):
        say(" ".join([f"{label:>14}", *(f"{counts[kind]:>14}" for kind in KINDS)]))
    unread = f", {found.unread} more cannot be read by it" if found.unread else ""
    say(f"{found.changed} of {counted(found.notes, 'note')} would change{unread}")


def run_export(options: argparse.Namespace) -> None:
    """Write the ids of notes and patients beside their pseudonyms.

    The table leads back to patients: guard it like the notes.
    """
    store, file = opened(options), io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(["release", "note", "note_pseudonym", "patient", "patient_pseudonym"])
    rows = [row.memory for row in store.rows() if row.output is not None and "beside" not in row.memory]
    for memory in sorted(rows, key=lambda memory: str(memory["id"])):
        new_id = memory["id"] if memory.get("new_id") is None else memory["new_id"]
        table.writerow([store.release, memory["id"], new_id, memory["patient"], memory.get("new_patient") or ""])
    try:
        write_new_private_file(options.csv, file.getvalue().encode("utf-8", "surrogatepass"))
    except FileExistsError:
        raise ConfigError(f"{options.csv}: there is such a file already") from None
    say(f"{options.csv}: {counted(len(rows), 'note')}; it leads back to the patients: guard it like the notes")


def run_rotate(options: argparse.Namespace) -> None:
    """Begin a release that cannot be joined with the one before."""
    store = opened(options)
    release = store.rotate(project_key(options.new_key_file))
    say(f"release {release} has the key {store.key.id}; all notes are to be handed out again")
    say("destroy the old key when the release before is deleted everywhere: with it, old outputs can be made again")
