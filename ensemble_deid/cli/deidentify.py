"""`deidentify`: notes in any form in, the same form without PHI out, and a folder that says what was done."""

import argparse
import gc
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.cli.options import (
    CommandParser,
    add_command,
    add_model,
    add_repeatable,
    add_running,
    add_shared,
    members_of,
    submodels_of,
)
from ensemble_deid.cli.replacement import (
    add_columns,
    add_gate,
    add_lists,
    add_recognizers,
    add_replacement,
    columns_of,
    report_lists,
    rules_of,
    run_choices,
    tell_of_key,
)
from ensemble_deid.cli.terminal import NOTES_WITHHELD, counted, progress_bar, say, warn
from ensemble_deid.corpora.input_options import FORMATS, InputOptions
from ensemble_deid.corpora.record_map import RecordMap
from ensemble_deid.errors import ConfigError
from ensemble_deid.parallel import Reporter, Step

if TYPE_CHECKING:
    from ensemble_deid.deidentify.prediction import RunProgress
    from ensemble_deid.deidentify.project.night import Project
    from ensemble_deid.deidentify.project.store import Store
    from ensemble_deid.deidentify.summary import RunSummary
    from ensemble_deid.keys import Key
STANDARD = "-"


def add_commands(commands: Any) -> None:
    example = "en notes --out clean --style surrogate --key-file site.key"
    parser = add_command(commands, "deidentify", run_deidentify, example=example)
    add_options(parser)
    parser.rare().add_argument("--project", metavar="DIR", help="only what it has not handed out (docs/project.md)")


def add_options(parser: CommandParser) -> None:
    """Add what every command that writes notes without PHI takes."""
    add_model(parser)
    add_input(parser)
    parser.add_argument("--out", metavar="OUT", type=Path, help="a folder, or a file where INPUT is one")
    add_lists(parser, strict=True)
    add_replacement(parser)
    add_gate(parser)
    add_recognizers(parser)
    add_running(parser)
    add_shared(parser, "resume")
    rare = parser.rare()
    rare.add_argument("--run", metavar="DIR", dest="run_folder", type=Path, help="default: OUT.run")
    rare.add_argument("--spans", metavar="FILE", type=Path, help="a copy of the run's spans.jsonl")
    rare.add_argument(
        "--compare", metavar="FILE", type=Path, help="a page of the notes before and after, with scores: CONTAINS PHI"
    )
    rare.add_argument("--summary", metavar="FILE", type=Path, help="JSON with counts by label, for monitoring")
    rare.add_argument("--against", metavar="FILE", type=Path, help="the summary of an earlier run, to compare with")
    parser.set_defaults(project=None)


def add_input(parser: CommandParser) -> None:
    parser.add_argument(
        "input", metavar="INPUT", help="a folder, a file of notes or a table, - (standard input), a database's URL"
    )
    add_reading(parser)
    rare = parser.rare()
    rare.add_argument("--keep-fields", action="store_true", help="FHIR and HL7: pass other fields unchanged")
    rare.add_argument("--query", metavar="SQL", help="database: rows to read, ending with ORDER BY a unique column")
    rare.add_argument("--table-out", metavar="NAME", help="database: new table for the rows")


def add_reading(parser: CommandParser) -> None:
    add_columns(parser)
    rare = parser.rare()
    rare.add_argument("--map", metavar="MAP", help="what every field holds: a .toml file, omop, hl7-v2, fhir-r4, ...")
    add_repeatable(rare, "--column", "NAME=KIND", "staff, zip, drop, pseudonym:patient, ...")
    rare.add_argument("--input-format", choices=FORMATS, help="default: by the suffix; standard input: plain")
    rare.add_argument("--recursive", action="store_true", help="include subfolders of INPUT; OUT has the same")


def run_deidentify(options: argparse.Namespace) -> int:
    """Write the notes without their PHI (docs/data-engineer.md)."""
    # Nearly all objects stay in use: with Python's default threshold, collecting garbage takes 4% of a one-note run.
    gc.set_threshold(50_000)
    from ensemble_deid.deidentify.job import deidentify_files, deidentify_table
    from ensemble_deid.deidentify.sources import places_written

    standard = _check(options)
    tell = warn if standard else say
    reading = reading_of(options)
    written = () if options.out is None else places_written(options.out, options.run_folder)
    kind = reading.kind_of(options.input, leave_out=written)
    call = deidentify_files if kind == "files" else deidentify_table
    sys.stdout.flush()
    with progress_bar(quiet=options.quiet) as show:
        summary = call(
            sys.stdin.buffer if options.input == STANDARD else options.input,
            sys.stdout.buffer if standard else options.out,
            options.model,
            input=reading,
            run=options.run_folder,
            resume=options.resume,
            spans=options.spans,
            compare=options.compare,
            summary=options.summary,
            against=options.against,
            within=_project(options),
            report=_shown(show),
            device=options.device,
            submodels=submodels_of(options),
            members=members_of(options),
            **run_choices(options),
        )
    if summary.finished_before:
        say(f"{summary.folder}: the run was finished before, and its output is as it was written")
    else:
        _report(summary, options, tell=tell, standard=standard)
        _tell_recall(summary, tell=tell)
    return NOTES_WITHHELD if summary.withheld else 0


def _check(options: argparse.Namespace) -> bool:
    """Return whether the output goes to standard output. Raises ConfigError where nothing says where it goes."""
    if options.out is None and options.table_out is None and options.input != STANDARD:
        raise ConfigError("--out is required unless INPUT is - or a database")
    standard = options.out is None and options.table_out is None
    if standard and getattr(sys.stdout, "name", None) == os.devnull:
        raise ConfigError("standard output is closed: name --out")
    if options.input == STANDARD and sys.stdin is None:
        raise ConfigError("standard input is closed")
    if options.resume and options.out is None and options.run_folder is None:
        raise ConfigError("--resume without --out needs --run")
    return standard


def reading_of(options: argparse.Namespace) -> InputOptions:
    return InputOptions(
        format=options.input_format,
        recursive=options.recursive,
        columns=columns_of(options),
        record_map=None if options.map is None else RecordMap.read(options.map),
        rules=rules_of(options),
        keep_fields=options.keep_fields,
        query=options.query,
        table_out=options.table_out,
    )


def _project(options: argparse.Namespace) -> "Project | None":
    """Return the project that the notes belong to. Raises ConfigError where it cannot be opened."""
    if options.project is None:
        return None
    from ensemble_deid.deidentify.outputs import refuse_shared
    from ensemble_deid.deidentify.project.night import Project

    if "://" not in options.project:
        beside = (options.spans, options.compare, options.summary)
        refuse_shared(Path(options.project), options.out, options.run_folder, *beside)
    store = opened(options)
    chosen = {name: getattr(options, name) for name in ("hold", "only_known", "again") if hasattr(options, name)}
    return Project(store=store, **chosen)


def opened(options: argparse.Namespace) -> "Store":
    """Return the project that is named, opened with its key. Raises ConfigError."""
    from ensemble_deid.deidentify.project.store import Store

    return Store(options.project, project_key(options.key_file))


def project_key(given: Path | None) -> "Key":
    """Return the key of a project, of a file or of the environment. Raises ConfigError where nothing gives one."""
    from ensemble_deid.keys import Key

    key = Key.find(given)
    if key.throwaway:
        raise ConfigError("a project needs its key: --key-file")
    return key


def _shown(show: Reporter) -> "Callable[[RunProgress], None]":
    def report(progress: "RunProgress") -> None:
        message = f"{progress.done} of {counted(progress.total, 'note')} read by the model"
        if progress.phase == "write":
            message = f"{counted(progress.done - progress.withheld, 'note')} written, {progress.withheld} withheld"
        show(Step(progress.done, progress.total, message))

    return report


def _report(summary: "RunSummary", options: argparse.Namespace, *, tell: Callable[[str], None], standard: bool) -> None:
    from ensemble_deid.deidentify.cells import EMPTIED, NOBODY
    from ensemble_deid.deidentify.gate import ACCEPTED, CHANGED
    from ensemble_deid.deidentify.one_pass import HARD_FORM, IN_LISTED_SENTENCES

    counts = Counter(summary.counts)
    tell_of_key(summary.options.replacer, tell=tell)
    for warning in summary.warnings:
        warn(warning)
    for problem in summary.withheld:
        warn(f"withheld: {problem}")
    report_lists(summary.options.lists, counts)
    for name in sorted(counts):
        if name.startswith(ACCEPTED) or name == CHANGED:
            warn(f"{counted(counts[name], 'note')} {name}")
    for counted_as in (*EMPTIED, NOBODY):
        if counts[counted_as]:
            warn(f"{counts[counted_as]} {counted_as}")
    named: tuple[str, ...] = (IN_LISTED_SENTENCES, HARD_FORM)
    if options.project is not None:
        from ensemble_deid.deidentify.project.night import COUNTED

        named = (*COUNTED, *named)
    for counted_as in named:
        if counts[counted_as]:
            tell(f"{counts[counted_as]} {counted_as}")
    where = options.table_out or ("standard output" if standard else options.out)
    tell(f"{counted(summary.written, 'note')} written to {where}, {len(summary.withheld)} withheld")


def _tell_recall(summary: "RunSummary", *, tell: Callable[[str], None]) -> None:
    from ensemble_deid.cli.report_facts import measured_recall
    from ensemble_deid.model.manifest import read_manifest
    from ensemble_deid.model.options import SVM

    model, prediction = summary.model, summary.options.prediction
    if model is None or model.source is None:
        return
    if prediction.combiner != SVM:
        tell(
            f"no recall was measured with the combiner {prediction.combiner}: measure it on annotated notes of your own"
        )
        return
    manifest = read_manifest(model.source.directory)
    threshold = model.description.threshold if prediction.threshold is None else prediction.threshold
    tell(measured_recall(manifest, threshold, submodels=list(model.description.submodels)))
