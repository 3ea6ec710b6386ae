"""`deidentify`: notes in any form in, the same form without PHI out, and a folder that says what was done."""

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.cli.prediction import add_running
from ensemble_deid.cli.replacement import add_replacement, run_options, several
from ensemble_deid.cli.site_lists import add_lists, report_lists
from ensemble_deid.cli.status import NOTES_WITHHELD
from ensemble_deid.cli.terminal import counted, progress_bar, say, warn
from ensemble_deid.corpora.input_options import FORMATS, InputOptions
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.errors import ConfigError
from ensemble_deid.training.progress import Reporter, Step

if TYPE_CHECKING:
    from ensemble_deid.deidentify.deidentifier import Deidentifier
    from ensemble_deid.deidentify.job import RunSummary
    from ensemble_deid.deidentify.options import RunOptions
    from ensemble_deid.deidentify.run import RunProgress
STANDARD = "-"


def add_commands(commands: Any) -> None:
    """Add this module's command to the parser."""
    parser = commands.add_parser("deidentify", help="write the notes without their PHI (docs/deidentify-tables.md)")
    parser.add_argument("model", metavar="MODEL", type=Path)
    _add_input(parser)
    parser.add_argument("--out", metavar="OUT", type=Path, help="a folder, or a file where INPUT is one")
    parser.add_argument("--run", metavar="DIR", dest="run_folder", type=Path, help="default: OUT.run")
    parser.add_argument("--resume", action="store_true", help="continue a run that was broken off")
    parser.add_argument("--spans", metavar="FILE", type=Path, help="a copy of the run's spans.jsonl")
    add_lists(parser, strict=True)
    add_replacement(parser)
    add_running(parser)
    parser.set_defaults(run=run_deidentify)


def _add_input(parser: argparse.ArgumentParser) -> None:
    """Add INPUT and what says how to read it."""
    parser.add_argument(
        "input", metavar="INPUT", help="a folder, a file of notes or a table, - for standard input, or a database's URL"
    )
    parser.add_argument("--input-format", choices=FORMATS, help="default: by the suffix; standard input: plain")
    parser.add_argument("--recursive", action="store_true", help="also the folders in INPUT, which OUT will have, too")
    table = parser.add_argument_group("columns of a table, fields of JSONL (commas between several)")
    table.add_argument("--text-column", metavar="NAME", default="text")
    table.add_argument("--id-column", metavar="NAME", help="becomes a keyed pseudonym; in JSONL: id")
    table.add_argument("--patient-column", metavar="NAME", help="a pseudonym, too; in JSONL: patient_id")
    table.add_argument("--date-columns", metavar="NAMES", help="are shifted like the dates in the patient's notes")
    table.add_argument("--keep-columns", metavar="NAMES", help="are handed out as they are; all: every other column")
    parser.add_argument(
        "--keep-fields", action="store_true", help="FHIR and HL7: hand out all that is not note text as it is"
    )
    base = parser.add_argument_group("databases")
    base.add_argument("--query", metavar="SQL", help="rows to read, ending with ORDER BY and a unique column")
    base.add_argument("--table-out", metavar="NAME", help="new table for the rows in the same database")


def run_deidentify(options: argparse.Namespace) -> int:
    """De-identify all notes, and say what was withheld."""
    from ensemble_deid.deidentify.deidentifier import Deidentifier
    from ensemble_deid.deidentify.job import deidentify_files, deidentify_table

    standard = _check(options)
    tell = warn if standard else say
    reading = _reading(options)
    source = sys.stdin.buffer if options.input == STANDARD else options.input
    out = sys.stdout.buffer if standard else options.out
    submodels = options.submodels.split(",") if options.submodels is not None else None
    model = Deidentifier.load(options.model, device=options.device, submodels=submodels, jobs=options.jobs)
    chosen = run_options(options, model.labels, tell=tell)
    call = deidentify_files if reading.kind_of(options.input) == "files" else deidentify_table
    sys.stdout.flush()
    with progress_bar(quiet=options.quiet) as show:
        summary = call(
            source,
            out,
            model,
            input=reading,
            run=options.run_folder,
            resume=options.resume,
            spans=options.spans,
            report=_shown(show),
            options=chosen,
        )
    if summary.finished_before:
        say(f"{summary.folder}: the run was finished before, and its output is as it was written")
        return NOTES_WITHHELD if summary.withheld else 0
    _report(summary, options, chosen, tell=tell, standard=standard)
    _tell_recall(model, chosen, tell=tell)
    return NOTES_WITHHELD if summary.withheld else 0


def _check(options: argparse.Namespace) -> bool:
    """Return whether the output goes to standard output. Raises ConfigError where nothing says where it goes."""
    if options.out is None and options.table_out is None and options.input != STANDARD:
        raise ConfigError("--out is needed, but where INPUT is - or a database")
    if options.resume and options.out is None and options.run_folder is None:
        raise ConfigError("--resume needs --run where there is no --out")
    return options.out is None and options.table_out is None


def _reading(options: argparse.Namespace) -> InputOptions:
    return InputOptions(
        format=options.input_format,
        recursive=options.recursive,
        columns=Columns(
            text=options.text_column,
            id=options.id_column,
            patient=options.patient_column,
            dates=several(options.date_columns),
            keep=several(options.keep_columns),
        ),
        keep_fields=options.keep_fields,
        query=options.query,
        table_out=options.table_out,
    )


def _shown(show: Reporter) -> "Callable[[RunProgress], None]":
    def report(progress: "RunProgress") -> None:
        message = f"{progress.done} of {counted(progress.total, 'note')} read by the model"
        if progress.phase == "write":
            message = f"{counted(progress.done - progress.withheld, 'note')} written, {progress.withheld} withheld"
        show(Step(progress.done, progress.total, message))

    return report


def _report(
    summary: "RunSummary",
    options: argparse.Namespace,
    chosen: "RunOptions",
    *,
    tell: Callable[[str], None],
    standard: bool,
) -> None:
    from ensemble_deid.deidentify.cells import EMPTIED
    from ensemble_deid.deidentify.one_pass import IN_LISTED_SENTENCES

    counts = Counter(summary.counts)
    for warning in summary.warnings:
        warn(warning)
    for problem in summary.withheld:
        warn(f"withheld: {problem}")
    report_lists(chosen.lists, counts)
    for emptied in EMPTIED:
        if counts[emptied]:
            warn(f"{counts[emptied]} {emptied}")
    if counts[IN_LISTED_SENTENCES]:
        tell(f"{counts[IN_LISTED_SENTENCES]} {IN_LISTED_SENTENCES}")
    where = options.table_out or ("standard output" if standard else options.out)
    tell(f"{counted(summary.written, 'note')} written to {where}, {len(summary.withheld)} withheld")


def _tell_recall(model: "Deidentifier", chosen: "RunOptions", *, tell: Callable[[str], None]) -> None:
    from ensemble_deid.cli.measured_recall import measured_recall
    from ensemble_deid.model.combiners import SVM
    from ensemble_deid.model.manifest import read_manifest

    if model.source is None:
        return
    prediction = chosen.prediction
    if prediction.combiner != SVM:
        tell(
            f"no recall was measured with the combiner {prediction.combiner}: measure it on annotated notes of your own"
        )
        return
    manifest = read_manifest(model.source.directory)
    threshold = model.description.threshold if prediction.threshold is None else prediction.threshold
    tell(measured_recall(manifest, threshold, submodels=list(model.description.submodels)))
