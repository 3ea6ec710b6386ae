"""De-identify a table, a database or a folder of notes in one call, and leave a folder that says what was done."""

import logging
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Unpack

from ensemble_deid import __version__
from ensemble_deid.atomic import exclusive, folder_atomically, open_atomically, remove_stale
from ensemble_deid.corpora.input_options import SUFFIX, InputOptions
from ensemble_deid.corpora.records import NoteSource, digest_of
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.corpora.tables.sql import SqlQuery
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.manifest import SPANS, STANDARD_OUTPUT, is_run, verify_run
from ensemble_deid.deidentify.offsets import key_of_run
from ensemble_deid.deidentify.options import RunChoices, RunOptions, files_of
from ensemble_deid.deidentify.prediction import Report
from ensemble_deid.deidentify.project.night import ONE_FILE_A_NOTE, NewNotes, Night, Project
from ensemble_deid.deidentify.recognizers import Recognizer
from ensemble_deid.deidentify.rows import RowPass
from ensemble_deid.deidentify.run import Run
from ensemble_deid.deidentify.sources import check_outputs, input_digest, locked_table, note_source, written_to
from ensemble_deid.deidentify.summary import RunSummary, read_summary, write_summary
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.keys import Key
from ensemble_deid.model.installed import find_model

_LOG = logging.getLogger(__name__)
_Place = str | Path | BinaryIO
AS_NAMED = InputOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One call: what is read and how, and where everything goes."""

    source: _Place
    out: _Place | None
    input: InputOptions
    run: Path | None
    resume: bool
    spans: Path | None
    summary: Path | None
    against: Path | None
    within: Project | None
    report: Report


def deidentify_table(
    source: _Place,
    out: _Place | None,
    model: Deidentifier | str | Path,
    *,
    columns: Columns | None = None,
    input: InputOptions = AS_NAMED,
    run: str | Path | None = None,
    resume: bool = False,
    spans: str | Path | None = None,
    summary: str | Path | None = None,
    against: str | Path | None = None,
    within: Project | None = None,
    report: Report = lambda progress: None,
    device: str | None = None,
    submodels: Sequence[str] | None = None,
    options: RunOptions | None = None,
    **choices: Unpack[RunChoices],
) -> RunSummary:
    """Write a table of the same form without PHI; all notes of a patient are processed together.

    `source` is a table (CSV, TSV, Parquet, Arrow, JSONL, FHIR, HL7), a folder of such tables, a database's URL, or a
    binary stream; `out` is a file, a folder or a binary stream, None for a database. `columns` say what the columns
    hold, and `input` how the source is read. The run's folder, `run` (`OUT.run` where that is None), has a manifest,
    the spans and the withheld notes; `verify_run` checks it all. With `resume` a run that was broken off goes on, and a
    finished one is checked. `spans` is the name of a copy of the spans, `summary` of the summary as JSON
    (`RunSummary.to_dict`), which is compared with that of an earlier run, `against`; with `within`, only the notes that
    the project has not handed out are written (docs/project.md); `report` is told of the progress. `device` and
    `submodels` as in `Deidentifier.load`, for a model given by its folder or name. `options` and `choices` as in
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
    chosen = replace(input, columns=columns) if columns is not None else input
    if not isinstance(source, str | Path):
        if chosen.format is None:
            raise ConfigError("a stream has no name that tells its format: name it")
    elif chosen.kind_of(source) == "files":
        raise ConfigError(f"{source}: is no table, but a file or folder of notes: use deidentify_files")
    places = {"run": _path(run), "spans": _path(spans), "summary": _path(summary), "against": _path(against)}
    job = _Job(source=source, out=out, input=chosen, resume=resume, within=within, report=report, **places)
    return _deidentify(job, _Loading(model, device, submodels), options, choices)


def deidentify_files(
    source: _Place,
    out: _Place,
    model: Deidentifier | str | Path,
    *,
    input: InputOptions = AS_NAMED,
    run: str | Path | None = None,
    resume: bool = False,
    spans: str | Path | None = None,
    summary: str | Path | None = None,
    against: str | Path | None = None,
    within: Project | None = None,
    report: Report = lambda progress: None,
    device: str | None = None,
    submodels: Sequence[str] | None = None,
    options: RunOptions | None = None,
    **choices: Unpack[RunChoices],
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
    if isinstance(source, str | Path) and input.kind_of(source) != "files":
        raise ConfigError(f"{source}: is a table, not a file or folder of notes: use deidentify_table")
    places = {"run": _path(run), "spans": _path(spans), "summary": _path(summary), "against": _path(against)}
    job = _Job(source=source, out=out, input=input, resume=resume, within=within, report=report, **places)
    return _deidentify(job, _Loading(model, device, submodels), options, choices)


def _path(place: str | Path | None) -> Path | None:
    return None if place is None else Path(place)


@dataclass(frozen=True, slots=True)
class _Places:
    """What is read, where the output goes, the run's folder; `standard` where the output goes to a stream."""

    input: str | Path
    out: Path
    run: Path
    standard: bool


@contextmanager
def _places(job: _Job) -> Iterator[_Places]:
    """Say where everything is; what comes from or goes to a stream is in a private folder, which is gone at the end."""
    streamed = not isinstance(job.source, str | Path) or not isinstance(job.out, str | Path)
    with ExitStack() as stack:
        own = Path()
        if streamed:
            remove_stale(Path(tempfile.gettempdir()))
            own = stack.enter_context(folder_atomically(Path(tempfile.gettempdir()) / "ensemble-deid"))
        given = job.source
        if not isinstance(given, str | Path):
            suffix = SUFFIX.get(job.input.format or "plain", f".{job.input.format}")
            with (own / f"standard-input{suffix}").open("wb") as stream:
                shutil.copyfileobj(given, stream)
            given = own / f"standard-input{suffix}"
        if isinstance(job.out, str | Path):
            yield _Places(given, Path(job.out), job.run or _beside(Path(job.out)), standard=False)
        else:
            suffix = ".txt" if job.input.kind_of(given) == "files" else Path(given).suffix
            yield _Places(given, own / f"out{suffix}", job.run or own / "run", standard=job.out is not None)


def _beside(out: Path) -> Path:
    """Return the usual folder of a run; `.` and `..` have a name only when they are resolved."""
    named = out.resolve() if out.name in ("", "..") else out
    return named.with_name(f"{named.name}.run")


@dataclass(frozen=True, slots=True)
class _Loading:
    """A model, or where and how to load it, which is done once it is known that the output can be written."""

    model: Deidentifier | str | Path
    device: str | None
    submodels: Sequence[str] | None

    @property
    def directory(self) -> Path | None:
        if isinstance(self.model, Deidentifier):
            return None if self.model.source is None else self.model.source.directory
        return find_model(self.model)

    def load(self, *, jobs: int) -> Deidentifier:
        if isinstance(self.model, Deidentifier):
            return self.model
        return Deidentifier.load(self.model, device=self.device, submodels=self.submodels, jobs=jobs)


def _deidentify(job: _Job, loading: _Loading, options: RunOptions | None, choices: RunChoices) -> RunSummary:
    with _places(job) as places:
        source = note_source(places.input, job.input, leave_out=[places.out, places.run])
        if job.against is not None and job.summary is None:
            raise ConfigError("against: goes with summary")
        read = (loading.directory, job.against, *(files_of(choices) if options is None else options.files))
        beside = (job.spans, job.summary)
        out = check_outputs(source, Path(places.input), places.out, places.run, beside, *read)
        before = None if job.against is None else read_summary(job.against)
        with exclusive(places.run, written_to(source, out)) as unlocked, locked_table(source) as no_lock:
            finished = job.resume and is_run(places.run) and job.within is None
            if isinstance(source, SqlQuery) and not finished:
                source.refuse_existing()
            loaded = loading.load(jobs=choices.get("jobs", 1) if options is None else options.prediction.jobs)
            chosen = RunOptions.given(options, choices, loaded.labels)
            key = key_of_run(places.run, chosen.replacer.key, resume=job.resume)
            chosen = replace(chosen, replacer=replace(chosen.replacer, key=key))
            loaded.description.check_options(chosen.prediction)
            if job.within is not None:
                summary = _night(job, places, source, out, model=loaded, options=chosen)
            else:
                run = _run(job, places, source, out, model=loaded, options=chosen)
                summary = _finished(run) if finished else _done(run, resume=job.resume)
            _copy_out(job, places, out)
            if job.summary is not None:
                write_summary(job.summary, summary, before)
    _LOG.info("%s: %d notes written, %d withheld", summary.folder, summary.written, len(summary.withheld))
    remarks = [f"{place}: the file system has no locks: start no other run with this output" for place in unlocked]
    remarks += [f"{table}: the database has no locks: start no other run with this table" for table in no_lock]
    return replace(summary, warnings=(*remarks, *summary.warnings))


def _night(
    job: _Job, places: _Places, source: NoteSource, out: Path, *, model: Deidentifier, options: RunOptions
) -> RunSummary:
    """Do what a project has not handed out yet. Raises ConfigError where the output is that of another night."""
    if job.within is None:
        raise ConfigError("a night belongs to a project")
    options = job.within.options(options)
    night = Night(job.within, source, out, "" if model.source is None else model.source.checksum)
    night.plan()
    run = _run(job, places, source, out, model=model, options=options)
    run.source = NewNotes(source, night)
    run.finding = {**run.finding, "night": night.digest}
    run.settings, run.written = {**run.settings, **run.finding}, night.written
    before = verify_run(places.run).settings.get("night", "") if is_run(places.run) else None
    if before not in (None, night.digest) or (before is None and not job.resume and _is_taken(source, out)):
        if job.resume and not night.todo:
            return RunSummary(places.run, counts=dict(night.counts), model=model, options=options, finished_before=True)
        raise ConfigError(f"{out}: holds the output of another run: name another --out, or --run, for each night")
    night.begin(run.rows)
    # A run that came to its end before the project was told of it is done once more.
    summary = _done(run, resume=job.resume and before is None)
    night.commit()
    return replace(summary, counts={**summary.counts, **{name: n for name, n in night.counts.items() if n}})


def _is_taken(source: NoteSource, out: Path) -> bool:
    return source.format not in (*ONE_FILE_A_NOTE, "sql") and out.exists()


def _done(run: Run, *, resume: bool) -> RunSummary:
    """Make both passes."""
    run.find(resume=resume)
    run.write()
    return RunSummary(
        run.folder,
        run.counts["written"],
        tuple(run.problems),
        counts=dict(sorted(run.counts.items())),
        labels=dict(sorted(run.labels.items())),
        words=run.words,
        warnings=tuple(run.source.warnings()),
        head=run.head,
        model=run.model,
        options=run.options,
    )


def _copy_out(job: _Job, places: _Places, out: Path) -> None:
    """Copy the spans, and what goes to a stream."""
    if job.spans is not None:
        with (places.run / SPANS).open("rb") as stream, open_atomically(job.spans) as copy:
            shutil.copyfileobj(stream, copy)
    # Nothing was written for the only note of a file where it was withheld.
    if job.out is not None and not isinstance(job.out, str | Path) and out.is_file():
        with out.open("rb") as stream:
            shutil.copyfileobj(stream, job.out)
        job.out.flush()


def _run(job: _Job, places: _Places, source: NoteSource, out: Path, model: Deidentifier, options: RunOptions) -> Run:
    columns = getattr(source, "columns", None) or Columns()
    finding = _finding(job, places, source, columns, model=model, options=options)
    replacer = options.replacer
    styles = replacer.styles
    # What is read and written, as a hash: a database's address may hold a password.
    given = str(job.source) if isinstance(job.source, str | Path) else STANDARD_OUTPUT
    written = str(out) if isinstance(job.out, str | Path) else STANDARD_OUTPUT
    named = repr((given, written, job.input.query, job.input.table_out))
    settings = {
        **finding,
        "project": replacer.project,
        "gate": {"accept_unfit": options.accept_unfit, "least_recall": options.least_recall},
        "styles": {**styles.to_json(), "surrogates": dict(styles.settings)},
        # A stream is in a file that has another name each time: its content is in `finding`.
        "inputs": _hidden(input_digest(source), replacer.key) if isinstance(job.source, str | Path) else None,
        "places": _hidden(named, replacer.key),
    }
    return Run(
        source=source,
        out=out,
        folder=places.run,
        model=model,
        options=options,
        rows=RowPass.of(model, options, columns, source.bits),
        settings=settings,
        finding=finding,
        standard=places.standard,
        report=job.report,
    )


def _finding(
    job: _Job, places: _Places, source: NoteSource, columns: Columns, model: Deidentifier, options: RunOptions
) -> dict[str, Any]:
    """Return what decides what is found, as a run records it."""
    prediction, key, given = options.prediction, options.replacer.key, Path(places.input)
    named = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(columns).items()}
    return {
        "version": __version__,
        "model": "" if model.source is None else model.source.checksum,
        "submodels": list(model.description.submodels),
        "arithmetic": model.description.arithmetic,
        "submodel": prediction.submodel,
        "threshold": prediction.threshold,
        "combiner": prediction.combiner,
        "batch_size": prediction.batch_size,
        "format": source.format,
        "columns": named,
        "keep_fields": job.input.keep_fields,
        "input": _hidden(digest_of(given) if given.is_file() else None, key),
        "lists": {name: _hidden(value, key) for name, value in options.lists.to_json().items()},
        "recognizers": [
            {**found, "sha256": _hidden(found["sha256"], key)} for found in map(Recognizer.to_json, options.recognizers)
        ],
        "key": key.id,
    }


def _hidden(content: Any, key: Key) -> Any:
    """Return text, which may be or hold a plain digest, as an HMAC; anything else as it is."""
    return key.fingerprint("input", content.encode()) if isinstance(content, str) else content


def _finished(run: Run) -> RunSummary:
    """Check a run that was finished before. Raises CorpusError where it is not this one, or not as it was written."""
    verified = verify_run(run.folder)
    if run.options.replacer.key.throwaway:
        raise CorpusError(
            f"{run.folder}: holds a finished run; whether the notes are still the same can only be told with its key: "
            "give --key-file, or run without --resume"
        )
    differing = [name for name, value in run.settings.items() if verified.settings.get(name) != value]
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
