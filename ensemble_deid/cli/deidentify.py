"""`deidentify`: notes in any form in, the same form without PHI out, and a folder that says what was done."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid import __version__
from ensemble_deid.atomic import exclusive, folder_atomically, open_atomically, remove_stale
from ensemble_deid.cli.deidentify_outputs import check_outputs
from ensemble_deid.cli.input_digest import input_digest
from ensemble_deid.cli.note_source import SUFFIX, add_input, format_of, note_source
from ensemble_deid.cli.options import add_command, add_model, add_resume, add_running
from ensemble_deid.cli.replacement import add_replacement, make_replacer, policy_file
from ensemble_deid.cli.site_lists import add_lists, list_files, read_lists, report_lists
from ensemble_deid.cli.terminal import NOTES_WITHHELD, counted, progress_bar, say, warn
from ensemble_deid.corpora.records import Source, digest_of
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.corpora.tables.sql import SqlQuery
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.training.progress import Step

if TYPE_CHECKING:
    from ensemble_deid.deidentify.run import Batch
    from ensemble_deid.keys import Key

STANDARD = "-"


@dataclass(frozen=True, slots=True)
class _Places:
    """What is read, where the output goes, the run's folder; `standard` where the output goes to standard output."""

    input: Path
    out: Path
    run: Path
    standard: bool


def add_commands(commands: Any) -> None:
    """Add this module's command to the parser."""
    parser = add_command(
        commands,
        "deidentify",
        "write the notes without their PHI (docs/deidentify-tables.md)",
        example="deidentify en notes --out clean --style surrogate --key-file site.key",
    )
    add_model(parser)
    add_input(parser)
    parser.add_argument("--out", metavar="OUT", type=Path, help="a folder, or a file where INPUT is one")
    add_lists(parser, strict=True)
    add_replacement(parser)
    add_running(parser)
    add_resume(parser)
    rare = parser.rare()
    rare.add_argument("--run", metavar="DIR", dest="run_folder", type=Path, help="default: OUT.run")
    rare.add_argument("--spans", metavar="FILE", type=Path, help="a copy of the run's spans.jsonl")
    parser.set_defaults(run=run_deidentify)


def run_deidentify(options: argparse.Namespace) -> int:
    """De-identify all notes, and say what was withheld."""
    from ensemble_deid.deidentify.chain import is_run

    with _places(options) as places:
        source = note_source(options, places.input, leave_out=[places.out, places.run])
        inputs = (options.model, options.key_file, *list_files(options), policy_file(options))
        out = check_outputs(source, places.input, places.out, places.run, options.spans, *inputs)
        with exclusive(places.run, _written_to(source, out)) as unlocked:
            for place in unlocked:
                warn(f"{place}: the file system has no locks: start no other run with this output")
            finished = options.resume and is_run(places.run)
            if isinstance(source, SqlQuery) and not finished:
                source.refuse_existing()
            batch = _batch(options, places, source, out)
            if finished:
                return _already_done(places.run, batch, options)
            _run(batch, options)
            return _report(batch, options, places)


def _written_to(source: Source, out: Path) -> Path:
    """Return the place that the run has for itself: of a database in a file, the new table."""
    if isinstance(source, SqlQuery) and source.file is not None:
        return source.file.with_name(f"{source.file.name}.{source.table_out.casefold()}")
    return out


@contextmanager
def _places(options: argparse.Namespace) -> Iterator[_Places]:
    """Say where everything is; what comes from standard input is kept in a private folder, which is gone at the end."""
    standard_in, standard_out = options.input == STANDARD, options.out is None
    if standard_out and options.table_out is None and not standard_in:
        raise ConfigError("--out is needed, but where INPUT is - or a database")
    if options.resume and standard_out and options.run_folder is None:
        raise ConfigError("--resume needs --run where there is no --out")
    with ExitStack() as stack:
        own = Path()
        if standard_in or standard_out:
            remove_stale(Path(tempfile.gettempdir()))
            own = stack.enter_context(folder_atomically(Path(tempfile.gettempdir()) / "ensemble-deid"))
        given = Path(options.input)
        if standard_in:
            suffix = SUFFIX.get(options.input_format or "plain", f".{options.input_format}")
            given = own / f"standard-input{suffix}"
            with given.open("wb") as stream:
                shutil.copyfileobj(sys.stdin.buffer, stream)
        out = own / f"out{'.txt' if format_of(options) == 'files' else given.suffix}" if standard_out else options.out
        beside = own / "run" if standard_out else _beside(out)
        yield _Places(given, out, options.run_folder or beside, standard_out and options.table_out is None)


def _beside(out: Path) -> Path:
    """Return the usual folder of a run; `.` and `..` have a name only when they are resolved."""
    named = out.resolve() if out.name in ("", "..") else out
    return named.with_name(f"{named.name}.run")


def _batch(options: argparse.Namespace, places: _Places, source: Source, out: Path) -> "Batch":
    from ensemble_deid.deidentify.cells import Cells
    from ensemble_deid.deidentify.deidentifier import Deidentifier
    from ensemble_deid.deidentify.offsets import key_of_run
    from ensemble_deid.deidentify.run import Batch
    from ensemble_deid.stacking.stacker import check_threshold

    check_threshold(options.threshold)
    submodels = options.submodels.split(",") if options.submodels is not None else None
    model = Deidentifier.load(options.model, device=options.device, submodels=submodels, jobs=options.jobs)
    model.description.check_options(submodel=None, threshold=options.threshold, combiner=options.combiner)
    replacer = make_replacer(options, tell=warn if places.standard else say)
    key = key_of_run(places.run, replacer.key, resume=options.resume)
    replacer = replace(replacer, key=key)
    columns = getattr(source, "columns", None) or Columns()
    lists = read_lists(options, model.labels)
    finding = {
        "version": __version__,
        "model": "" if model.source is None else model.source.checksum,
        "submodels": list(model.description.submodels),
        "arithmetic": model.description.arithmetic,
        "threshold": options.threshold,
        "combiner": options.combiner,
        "format": source.format,
        "columns": {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(columns).items()
        },
        "keep_fields": options.keep_fields,
        "input": _hidden(digest_of(places.input) if places.input.is_file() else None, key),
        "lists": {name: _hidden(value, key) for name, value in lists.to_json().items()},
        "key": key.id,
    }
    styles = {"style": options.style, "set": options.settings, "policy": options.policy, "project": options.project}
    # A policy is a file that may have changed: what it says counts.
    of = replacer.styles
    meant = {"default": of.default, "by_label": dict(sorted(of.by_label.items())), "surrogates": dict(of.settings)}
    # What is read and written, as a hash: a database's address may hold a password.
    named = repr((options.input, STANDARD if options.out is None else str(out), options.query, options.table_out))
    # What came from standard input is in a file that has another name each time: its content is in `finding`.
    inputs = None if options.input == STANDARD else _hidden(input_digest(source), key)
    settings = {**finding, **styles, "styles": meant, "inputs": inputs, "places": _hidden(named, key)}
    cells = Cells(replacer, columns, source.bits, model.labels)
    return Batch(
        source,
        out,
        places.run,
        model,
        replacer,
        cells,
        settings,
        finding,
        lists=lists,
        threshold=options.threshold,
        combiner=options.combiner,
        jobs=options.jobs,
        standard=places.standard,
    )


def _hidden(content: Any, key: "Key") -> Any:
    """Return text, which may be or hold a plain digest, as an HMAC; anything else as it is."""
    return key.fingerprint("input", content.encode()) if isinstance(content, str) else content


def _run(batch: "Batch", options: argparse.Namespace) -> None:
    total = batch.source.count()
    with progress_bar(quiet=options.quiet) as show:
        strings = batch.find(
            lambda done: show(Step(done, total, f"{done} of {counted(total, 'note')} read by the model")),
            resume=options.resume,
        )
    with progress_bar(quiet=options.quiet) as show:

        def report(written: int, withheld: int) -> None:
            show(Step(written + withheld, total, f"{counted(written, 'note')} written, {withheld} withheld"))

        batch.write(strings, report)


def _report(batch: "Batch", options: argparse.Namespace, places: _Places) -> int:
    from ensemble_deid.deidentify.cells import EMPTIED, NOBODY
    from ensemble_deid.deidentify.chain import SPANS
    from ensemble_deid.deidentify.run import IN_LISTED_SENTENCES

    for warning in batch.source.warnings():
        warn(warning)
    for problem in batch.problems:
        warn(f"withheld: {problem}")
    report_lists(batch.lists, batch.counts)
    for counted_as in (*EMPTIED, NOBODY):
        if batch.counts[counted_as]:
            warn(f"{batch.counts[counted_as]} {counted_as}")
    if batch.counts[IN_LISTED_SENTENCES]:
        (warn if places.standard else say)(f"{batch.counts[IN_LISTED_SENTENCES]} {IN_LISTED_SENTENCES}")
    if options.spans is not None:
        with (places.run / SPANS).open("rb") as source, open_atomically(options.spans) as copy:
            shutil.copyfileobj(source, copy)
    where = options.table_out or ("standard output" if places.standard else options.out)
    summary = f"{counted(batch.counts['written'], 'note')} written to {where}, {len(batch.problems)} withheld"
    if places.standard:
        _copy_to_standard_output(batch.out)
        warn(summary)
    else:
        say(summary)
    _tell_recall(batch, tell=warn if places.standard else say)
    return NOTES_WITHHELD if batch.problems else 0


def _tell_recall(batch: "Batch", *, tell: Callable[[str], None]) -> None:
    from ensemble_deid.cli.measured_recall import measured_recall
    from ensemble_deid.model.combiners import SVM
    from ensemble_deid.model.manifest import read_manifest

    source, model = batch.model.source, batch.model.description
    if source is None:
        return
    if batch.combiner != SVM:
        tell(f"no recall was measured with the combiner {batch.combiner}: measure it on annotated notes of your own")
        return
    manifest = read_manifest(source.directory)
    threshold = model.threshold if batch.threshold is None else batch.threshold
    tell(measured_recall(manifest, threshold, submodels=list(model.submodels)))


def _copy_to_standard_output(path: Path) -> None:
    # Nothing was written for the only note of a file where it was withheld.
    if path.is_file():
        with path.open("rb") as stream:
            sys.stdout.flush()
            shutil.copyfileobj(stream, sys.stdout.buffer)
            sys.stdout.buffer.flush()


def _already_done(folder: Path, batch: "Batch", options: argparse.Namespace) -> int:
    from ensemble_deid.deidentify.chain import SPANS, verify_run

    run = verify_run(folder)
    if batch.replacer.key.throwaway:
        raise CorpusError(
            f"{folder}: holds a finished run; whether the notes are still the same can only be told with its key: "
            "give --key-file, or run without --resume"
        )
    differing = [name for name, value in batch.settings.items() if run.settings.get(name) != value]
    if differing:
        raise CorpusError(f"{folder}: holds a finished run with other settings: {', '.join(differing)}")
    if isinstance(batch.source, SqlQuery) and run.tables.get(batch.source.table_out) != batch.source.digest():
        raise CorpusError(f"{batch.source.table_out}: the table is not as the run in {folder} wrote it, or is missing")
    if run.printed:
        raise CorpusError(
            f"{folder}: the run was finished before, and its output went to standard output, which nothing keeps: "
            "run without --resume"
        )
    if options.spans is not None:
        with (folder / SPANS).open("rb") as source, open_atomically(options.spans) as copy:
            shutil.copyfileobj(source, copy)
    say(f"{folder}: the run was finished before, and its output is as it was written")
    return NOTES_WITHHELD if run.counts.get("withheld") else 0
