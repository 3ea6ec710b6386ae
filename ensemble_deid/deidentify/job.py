"""De-identify a table, a database or a folder of notes in one call, and leave a folder that says what was done."""

import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ensemble_deid.atomic import exclusive, naming, open_atomically
from ensemble_deid.corpora.input_options import InputOptions
from ensemble_deid.corpora.record_map import RecordMap
from ensemble_deid.corpora.records import NoteSource
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.corpora.tables.sql import SqlQuery
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.manifest import MANIFEST, SPANS, STANDARD_OUTPUT, VerifiedRun, is_run, verify_run
from ensemble_deid.deidentify.members import files_of_members
from ensemble_deid.deidentify.offsets import FILE as OFFSETS
from ensemble_deid.deidentify.offsets import key_of_run
from ensemble_deid.deidentify.options import RunChoices, RunOptions, files_of
from ensemble_deid.deidentify.prediction import Report
from ensemble_deid.deidentify.rows import RowPass
from ensemble_deid.deidentify.run import Run
from ensemble_deid.deidentify.run_settings import finding_of, hidden
from ensemble_deid.deidentify.sources import (
    FileOrStream,
    RunPlaces,
    SomeRecords,
    check_outputs,
    input_digest,
    locked_table,
    note_source,
    places_of,
    places_written,
    written_to,
)
from ensemble_deid.deidentify.summary import RunSummary, read_summary, write_summary
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.model.installed import find_model

if TYPE_CHECKING:
    from ensemble_deid.deidentify.project.night import Project

_LOG = logging.getLogger(__name__)
AS_NAMED = InputOptions()
_NOT_COMPARED = "the run was finished before, and compares nothing again: run without --resume"


class JobChoices(RunChoices, total=False):
    """The keyword arguments of `deidentify_table` and `deidentify_files`."""

    input: InputOptions
    run: str | Path | None
    resume: bool
    spans: str | Path | None
    compare: str | Path | None
    summary: str | Path | None
    against: str | Path | None
    within: "Project | None"
    report: Report
    device: str | None
    submodels: Sequence[str] | None
    members: Mapping[str, str | Path] | None
    options: RunOptions | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One call; `choices` are those of the options. The model is loaded once the output is known to be writable."""

    source: FileOrStream
    out: FileOrStream | None
    model: Deidentifier | str | Path
    input: InputOptions = AS_NAMED
    run: Path | None = None
    resume: bool = False
    spans: Path | None = None
    compare: Path | None = None
    summary: Path | None = None
    against: Path | None = None
    within: "Project | None" = None
    report: Report = lambda progress: None
    device: str | None = None
    submodels: Sequence[str] | None = None
    members: Mapping[str, str | Path] | None = None
    options: RunOptions | None = None
    choices: RunChoices = field(default_factory=RunChoices)

    @classmethod
    def of(
        cls, source: FileOrStream, out: FileOrStream | None, model: Deidentifier | str | Path, given: JobChoices
    ) -> "_Job":
        named: dict[str, Any] = {name: value for name, value in given.items() if name in cls.__slots__}
        rest: Any = {name: value for name, value in given.items() if name not in cls.__slots__}
        places = ("run", "spans", "compare", "summary", "against")
        named |= {name: Path(named[name]) for name in places if named.get(name) is not None}
        if named.get("against") is not None and named.get("summary") is None:
            raise ConfigError("against: goes with summary")
        return cls(source=source, out=out, model=model, choices=rest, **named)

    @property
    def kind(self) -> str:
        """The form of the input, which is no stream."""
        written = places_written(Path(self.out), self.run) if isinstance(self.out, str | Path) else ()
        return self.input.kind_of(str(self.source), leave_out=written)

    @property
    def read(self) -> Sequence[Path | None]:
        """The inputs besides the notes: the model's folder, an earlier summary and the files of the options."""
        model, files = self.model, (files_of(self.choices) if self.options is None else self.options.files)
        record_map = self.input.record_map
        files = (*files, *files_of_members(self.members or {}), *([] if self.against is None else [self.against]))
        if record_map is not None and Path(record_map.place).is_file():
            files = (*files, Path(record_map.place))
        if isinstance(model, Deidentifier):
            return None if model.source is None else model.source.directory, *files
        return find_model(model), *files

    def loaded(self) -> Deidentifier:
        """Return the model. Raises ConfigError for choices that a loaded model cannot follow any more."""
        if isinstance(self.model, Deidentifier):
            for name, value in (("device", self.device), ("submodels", self.submodels), ("members", self.members)):
                if value is not None:
                    raise ConfigError(
                        f"{name}: choose it where the model is loaded, or give the model's folder or name"
                    )
            return self.model
        jobs = self.choices.get("jobs", 1) if self.options is None else self.options.prediction.jobs
        return Deidentifier.load(
            self.model, device=self.device, submodels=self.submodels, members=self.members, jobs=jobs
        )


def deidentify_table(
    source: FileOrStream,
    out: FileOrStream | None,
    model: Deidentifier | str | Path,
    *,
    columns: Columns | None = None,
    record_map: RecordMap | str | Path | None = None,
    **choices: Unpack[JobChoices],
) -> RunSummary:
    """Write a table of the same form without PHI; all notes of a patient are processed together.

    `source` is a table (CSV, TSV, Parquet, Arrow, JSONL, FHIR, HL7), a folder of such tables, a database's URL, or a
    binary stream; `out` is a file, a folder or a binary stream, None for a database. `columns` say what the columns
    hold, a `record_map`, its name or file what every column and field holds (docs/data-engineer.md#record-maps), and
    `input` how the source is read. The run's folder, `run` (`OUT.run` where that is None), has a manifest,
    the spans and the withheld notes; `verify_run` checks it all. With `resume` a run that was broken off goes on, and a
    finished one is checked. `spans` is the name of a copy of the spans, `compare` of a page with the notes before and
    after, side by side, which contains PHI, and `summary` of the summary as JSON (`RunSummary.to_dict`), which is
    compared with that of an earlier run, `against`; with `within`, only the notes that the project has not handed out
    are written (docs/project.md); `report` is told of the progress. `device`, `submodels` and `members` as in
    `Deidentifier.load`, for a model given by its folder or name. `options`, and all others, as in
    `Deidentifier.deidentify`. A note that cannot be processed whole is empty in the output, and its reason is in the
    summary. Raises CorpusError, ConfigError, ModelError.

    >>> from pathlib import Path
    >>> from ensemble_deid import Columns, deidentify_table, verify_run
    >>> _ = Path("notes.csv").write_text("mrn,text\\n7,Date: 03/04/2019\\n")
    >>> deidentify_table("notes.csv", "clean.csv", "model", columns=Columns(patient="mrn")).written
    1
    >>> Path("clean.csv").read_text().endswith("Date: [DATE]\\n"), verify_run("clean.csv.run").files
    (True, 1)
    """
    if columns is not None:
        choices["input"] = replace(choices.get("input", AS_NAMED), columns=columns)
    if record_map is not None:
        choices["input"] = replace(choices.get("input", AS_NAMED), record_map=RecordMap.of(record_map))
    job = _Job.of(source, out, model, choices)
    if not isinstance(source, str | Path):
        if job.input.format is None:
            raise ConfigError("a stream has no name that tells its format: name it")
    elif job.kind == "files":
        raise ConfigError(f"{source}: a file or folder of notes, not a table: use deidentify_files")
    return _deidentify(job)


def deidentify_files(
    source: FileOrStream, out: FileOrStream, model: Deidentifier | str | Path, **choices: Unpack[JobChoices]
) -> RunSummary:
    """Write the notes of a folder or file as plain text without PHI; all notes of a patient are processed together.

    `source` is a folder, a file of notes in any format of corpora, `demo:dev` and the like, or a binary stream of one
    plain note; `out` is a folder, a file or a binary stream. A note that cannot be processed whole is not written. The
    rest is as in `deidentify_table`.

    >>> from pathlib import Path
    >>> from ensemble_deid import deidentify_files
    >>> _ = Path("note.txt").write_text("Date: 03/04/2019")
    >>> deidentify_files("note.txt", "clean.txt", "model", style="remove").withheld
    ()
    >>> Path("clean.txt").read_text()
    'Date: '
    """
    job = _Job.of(source, out, model, choices)
    if isinstance(source, str | Path) and job.kind != "files":
        raise ConfigError(f"{source}: a table, not a file or folder of notes: use deidentify_table")
    return _deidentify(job)


def _deidentify(job: _Job) -> RunSummary:
    if job.out is None and not (isinstance(job.source, str | Path) and job.kind == "sql"):
        raise ConfigError("out: name a file, a folder or a stream; None is for a database")
    with places_of(job.source, job.out, job.run, job.input) as places:
        source = note_source(places.input, job.input, leave_out=[places.out, places.run])
        beside = (job.spans, job.compare, job.summary)
        out = check_outputs(source, Path(places.input), places.out, places.run, beside, *job.read)
        before = None if job.against is None else read_summary(job.against)
        with exclusive(places.run, written_to(source, out)) as unlocked, locked_table(source) as no_lock:
            finished = job.resume and is_run(places.run) and job.within is None
            if finished and job.compare is not None:
                raise ConfigError(_NOT_COMPARED)
            if isinstance(source, SqlQuery):
                source.resumed = job.resume and any((places.run / name).is_file() for name in (MANIFEST, OFFSETS))
                source.refuse_existing()
            RunOptions.check(job.choices)
            loaded = job.loaded()
            chosen = RunOptions.given(job.options, job.choices, loaded.labels)
            key = key_of_run(places.run, chosen.replacer.key, resume=job.resume)
            chosen = replace(chosen, replacer=replace(chosen.replacer, key=key))
            loaded.description.check_options(chosen.prediction)
            if job.within is not None:
                summary = _night(job, places, source, out, model=loaded, options=chosen)
            else:
                run = _run(job, places, source, out, model=loaded, options=chosen)
                summary = _finished(run, verify_run(places.run)) if finished else _done(run, resume=job.resume)
            _copy_out(job, places, out)
            if job.summary is not None:
                write_summary(job.summary, summary, before)
    _LOG.info("%s: %d notes written, %d withheld", summary.folder, summary.written, len(summary.withheld))
    remarks = [f"{place}: the file system has no locks: start no other run with this output" for place in unlocked]
    remarks += [f"{table}: the database has no locks: start no other run with this table" for table in no_lock]
    return replace(summary, warnings=(*remarks, *summary.warnings))


def _night(
    job: _Job, places: RunPlaces, source: NoteSource, out: Path, *, model: Deidentifier, options: RunOptions
) -> RunSummary:
    """Do what a project has not handed out yet. Raises ConfigError where the output is that of another night."""
    from ensemble_deid.deidentify.project.night import ONE_FILE_A_NOTE, Night, made_with

    if job.within is None:
        raise ConfigError("a night belongs to a project")
    if places.standard:
        raise ConfigError("a project must know where its outputs are: name --out")
    options = job.within.options(options)
    run = _run(job, places, source, out, model=model, options=options)
    night = Night(
        project=job.within,
        source=source,
        streamed=not isinstance(job.source, str | Path),
        place=f"table {source.table_out}" if isinstance(source, SqlQuery) else str(out.resolve()),
        model="" if model.source is None else model.source.checksum,
        options=options,
        made=made_with(job.within.store, run.settings, options),
    )
    night.plan()
    run.source = SomeRecords(source, night.wants)
    run.finding = {**run.finding, "night": night.digest}
    run.settings, run.treated = {**run.settings, **run.finding}, night.treated
    verified = verify_run(places.run) if is_run(places.run) else None
    before = None if verified is None else verified.settings.get("night", "")
    is_taken = source.format not in (*ONE_FILE_A_NOTE, "sql") and out.exists()
    if before not in (None, night.digest) or (before is None and not job.resume and is_taken):
        if job.resume and verified is not None and before and night.would_repeat:
            if job.compare is not None:
                raise ConfigError(_NOT_COMPARED)
            return replace(_finished(run, verified), model=model, options=options)
        raise ConfigError(
            f"{out}: holds the output of another run: name another --out, or --run, for each night; "
            "where this very run was broken off: --resume"
        )
    night.begin(run.rows)
    # A run that came to its end before the project was told of it is done once more.
    summary = _done(run, resume=job.resume and before is None)
    night.commit()
    return replace(summary, counts={**summary.counts, **{name: n for name, n in night.counts.items() if n}})


def _done(run: Run, *, resume: bool) -> RunSummary:
    run.find(resume=resume)
    run.write()
    return RunSummary(
        run.folder,
        run.counts["written"],
        tuple(run.problems),
        counts=dict(sorted(run.counts.items())),
        labels=dict(sorted(run.labels.items())),
        words=run.words,
        warnings=tuple(map(run.shown, run.source.warnings())),
        head=run.head,
        model=run.model,
        options=run.options,
    )


def _copy_out(job: _Job, places: RunPlaces, out: Path) -> None:
    if job.spans is not None:
        with (places.run / SPANS).open("rb") as stream, open_atomically(job.spans) as copy:
            shutil.copyfileobj(stream, copy)
    # Nothing was written for the only note of a file where it was withheld.
    if job.out is not None and not isinstance(job.out, str | Path) and out.is_file():
        # It is the stream that fails, not the private folder, which would be named.
        with naming(getattr(job.out, "name", "the output")), out.open("rb") as stream:
            shutil.copyfileobj(stream, job.out)
            job.out.flush()


def _run(job: _Job, places: RunPlaces, source: NoteSource, out: Path, model: Deidentifier, options: RunOptions) -> Run:
    columns = getattr(source, "columns", None) or Columns()
    finding = finding_of(Path(places.input), job.input, source, columns, model=model, options=options)
    replacer = options.replacer
    # What is read and written, as a hash: a database's address may hold a password.
    given = str(job.source) if isinstance(job.source, str | Path) else STANDARD_OUTPUT
    written = str(out) if isinstance(job.out, str | Path) else STANDARD_OUTPUT
    named = repr((given, written, job.input.query, job.input.table_out))
    settings = {
        **finding,
        "scope": replacer.scope,
        "gate": {"accept_unfit": options.accept_unfit, "least_recall": options.least_recall},
        "styles": {**replacer.styles.to_json(), "surrogates": asdict(replacer.styles.settings)},
        # A stream is in a file that has another name each time: its content is in `finding`.
        "inputs": hidden(input_digest(source), replacer.key) if isinstance(job.source, str | Path) else None,
        "places": hidden(named, replacer.key),
        # Relative, as the manifest has each output: an audit reads them again, also where all was moved.
        "out": os.path.relpath(out.resolve(), places.run.resolve()) if isinstance(job.out, str | Path) else None,
        "recursive": job.input.recursive,
        "rules": job.input.rules_json(places.input),
    }
    return Run(
        source=source,
        out=out,
        folder=places.run,
        model=model,
        options=options,
        rows=RowPass.of(model, options, columns, source.bits, mapped=job.input.record_map is not None),
        settings=settings,
        finding=finding,
        standard=places.standard,
        shown=places.shown,
        compare=job.compare,
        report=job.report,
    )


def _finished(run: Run, verified: VerifiedRun) -> RunSummary:
    """Check a run that was finished before. Raises CorpusError where it is not this one, or not as it was written."""
    if run.options.replacer.key.throwaway:
        raise CorpusError(
            f"{run.folder}: holds a finished run; whether the notes are still the same can only be told with its key: "
            "give --key-file, or run without --resume"
        )
    # A finished night has nothing left to do.
    named = [name for name in run.settings if name != "night"]
    differing = [name for name in named if verified.settings.get(name) != run.settings[name]]
    if differing:
        raise CorpusError(f"{run.folder}: holds a finished run with other settings: {', '.join(differing)}")
    source = run.source
    if isinstance(source, SqlQuery) and verified.tables.get(source.table_out) != source.digest():
        raise CorpusError(f"{source.table_out}: the table is not as the run in {run.folder} wrote it, or is missing")
    if verified.printed:
        raise CorpusError(
            f"{run.folder}: the run was finished before, and its output went to standard output, which nothing keeps: "
            "run without --resume"
        )
    counts = dict(verified.counts)
    withheld = tuple("withheld before" for _ in range(counts.get("withheld", 0)))
    return RunSummary(
        run.folder,
        counts.get("written", 0),
        withheld,
        counts=counts,
        labels=verified.labels,
        words=verified.words,
        head=verified.head,
        finished_before=True,
    )
