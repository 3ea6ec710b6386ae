"""`predict`: a folder in, a folder or a page out, note by note failing closed."""

import argparse
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ensemble_deid.atomic import exclusive
from ensemble_deid.cli.options import add_on_model, add_running, members_of, submodels_of
from ensemble_deid.cli.replacement import add_lists, named_lists, report_lists
from ensemble_deid.cli.terminal import NOTES_WITHHELD, counted, progress_bar, say, warn
from ensemble_deid.corpora.formats import ANNOTATED, format_named
from ensemble_deid.corpora.note_files import NoteWriter, note_writer
from ensemble_deid.corpora.read import iterate_notes, locate_corpus
from ensemble_deid.deidentify.outputs import refuse_output, refuse_output_files, refuse_shared
from ensemble_deid.errors import ConfigError, CorpusError, DeidError
from ensemble_deid.evaluation.render.html.notes import NotesPage, notes_page
from ensemble_deid.note.digits import rounded
from ensemble_deid.note.document import Document
from ensemble_deid.parallel import Step


def add_commands(commands: Any) -> None:
    predict = add_on_model(commands, "predict", run_predict, example="en notes --out found --format brat")
    predict.add_argument("input", metavar="INPUT", help="a folder or file of notes, or demo:test")
    predict.add_argument("--out", metavar="DIR", type=Path, help="folder for the notes with their spans")
    predict.add_argument("--html", metavar="FILE", type=Path, help="a page with the spans highlighted; it contains PHI")
    predict.add_argument("--format", choices=ANNOTATED, help="default: the input's own, jsonl for plain text")
    add_lists(predict, strict=False)
    add_running(predict)
    predict.rare().add_argument("--submodel", metavar="NAME", help="one submodel's spans instead of the ensemble's")


def run_predict(options: argparse.Namespace) -> int:
    """Write the spans that a model finds."""
    from ensemble_deid.deidentify.deidentifier import Deidentifier
    from ensemble_deid.deidentify.members import files_of_members

    if options.out is None and options.html is None:
        raise ConfigError("predict: name --out DIR or --html FILE for the spans")
    location = locate_corpus(options.input)
    own = location.format.name
    format = options.format or (own if own in ANNOTATED else "jsonl")
    members = members_of(options)
    read = (options.model, options.known, options.allow, options.deny, *files_of_members(members))
    if options.out is not None:
        refuse_output(options.out, location, *read, format=format)
    refuse_output_files([options.html], location, *read)
    refuse_shared(options.out, options.html)
    for remark in location.remarks:
        warn(remark)
    # A file of many notes does not say how many it holds before it is read.
    total = None if location.format.frame is not None else len(location.files)
    model = Deidentifier.load(
        options.model, device=options.device, submodels=submodels_of(options), members=members, jobs=options.jobs
    )
    lists = named_lists(options).read(model.labels)
    counts: Counter[str] = Counter()

    def finished(document: Document) -> Document:
        document = lists.apply(document, counts)
        return document.with_spans(replace(span, score=rounded(span.score)) for span in document.spans)

    # Results are in the order of the notes, so the first of these is the name of the note whose result comes next.
    names: deque[str] = deque()
    source = location if options.out is None else location.without(options.out)
    notes = model.predict_each(
        _noting_names(iterate_notes(source, file_names=format_named(format).frame is None), names),
        submodel=options.submodel,
        must_stay=lists.places,
        threshold=options.threshold,
        combiner=options.combiner,
        jobs=options.jobs,
    )
    with progress_bar(quiet=options.quiet) as show, _outputs(options, format) as writer:
        count, problems = _write_all(notes, names, finished, writer, lambda done, told: show(Step(done, total, told)))
    for problem in problems:
        warn(f"withheld: {problem}")
    report_lists(lists, counts)
    for name, number in sorted(counts.items()):
        say(f"{name}: {number}")
    places = " and ".join(str(place) for place in (options.out, options.html) if place is not None)
    say(f"{counted(count, 'note')} written to {places}, {len(problems)} withheld")
    return NOTES_WITHHELD if problems else 0


def _noting_names(notes: Iterable[Document | CorpusError], names: deque[str]) -> Iterator[Document | CorpusError]:
    for note in notes:
        names.append((note.id if isinstance(note, Document) else note.note) or "")
        yield note


def _write_all(
    notes: Iterable[Document | DeidError],
    names: deque[str],
    finished: Callable[[Document], Document],
    writer: "_Outputs",
    report: Callable[[int, str], None],
) -> tuple[int, list[str]]:
    """Write every note; return how many were written, and why others were withheld."""
    problems: list[str] = []
    count = 0
    for note in notes:
        name = names.popleft()
        problem = str(note) if isinstance(note, DeidError) else _finish_and_write(note, finished, writer.write)
        if problem is None:
            count += 1
        else:
            writer.withhold(name, problem)
            problems.append(problem)
        report(count + len(problems), f"{counted(count, 'note')} written, {len(problems)} withheld")
    return count, problems


@dataclass(frozen=True, slots=True)
class _Outputs:
    files: NoteWriter | None
    page: NotesPage | None

    def write(self, document: Document) -> None:
        """Write one note. Raises CorpusError where it cannot be written: it is on no page then."""
        if self.files is not None:
            self.files.write(document)
        if self.page is not None:
            self.page.add(document)

    def withhold(self, name: str, problem: str) -> None:
        """Leave one note out, and remove what an earlier run wrote for it."""
        if self.files is not None:
            self.files.withhold(name)
        if self.page is not None:
            self.page.withhold(problem)


@contextmanager
def _outputs(options: argparse.Namespace, format: str) -> Iterator[_Outputs]:
    with ExitStack() as stack:
        stack.enter_context(exclusive(*(place for place in (options.out, options.html) if place is not None)))
        files = stack.enter_context(note_writer(options.out, format)) if options.out is not None else None
        title = f"What {options.model.name} finds in {options.input}"
        page = stack.enter_context(notes_page(options.html, title=title)) if options.html is not None else None
        yield _Outputs(files, page)


def _finish_and_write(
    document: Document, finish: Callable[[Document], Document], write: Callable[[Document], None]
) -> str | None:
    """Return why the note was not written, None where it was."""
    try:
        write(finish(document))
    except CorpusError as error:
        return str(error)
    except ValueError as error:
        # A redaction that cannot be true to its text; the message is not printed, since it may quote the note.
        return f"{document.id}: writing failed ({type(error).__name__})"
    return None
