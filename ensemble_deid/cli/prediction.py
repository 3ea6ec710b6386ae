"""`predict`: a folder in, a folder out, note by note failing closed."""

import argparse
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ensemble_deid.cli.output import refuse_output
from ensemble_deid.cli.site_lists import add_lists, list_files, read_lists, report_lists
from ensemble_deid.cli.status import NOTES_WITHHELD
from ensemble_deid.cli.terminal import counted, progress_bar, say, warn
from ensemble_deid.corpora.locate import Location, locate_corpus
from ensemble_deid.corpora.note_writer import note_writer
from ensemble_deid.corpora.read import iterate_notes
from ensemble_deid.errors import CorpusError, DeidError
from ensemble_deid.experiments.progress import Step
from ensemble_deid.text.document import Document

FORMATS = ("i2b2", "meddocan", "brat", "jsonl")


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    predict = commands.add_parser("predict", help="write the spans that a model finds")
    predict.add_argument("model", metavar="MODEL", type=Path)
    predict.add_argument("input", metavar="INPUT", help="a folder or file of notes, or demo:test")
    predict.add_argument("--out", metavar="DIR", type=Path, required=True)
    add_lists(predict, strict=False)
    add_running(predict)
    predict.add_argument("--format", choices=FORMATS, help="default: the input's own, jsonl for plain text")
    predict.add_argument("--submodel", metavar="NAME", help="that submodel's answer instead of the ensemble's")
    predict.set_defaults(run=run_predict)


def add_running(parser: argparse.ArgumentParser) -> None:
    """Add what every command that runs a model over notes can be told."""
    parser.add_argument("--submodels", metavar="NAMES", help="load only these, such as regex,tbed,crf,neural")
    parser.add_argument("--threshold", metavar="T", type=float, help="probability to accept a span at, 0 to 1")
    parser.add_argument("--jobs", metavar="N", type=int, default=1)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run_predict(options: argparse.Namespace) -> int:
    """Write each note with the spans found, in the chosen format."""
    location = locate_corpus(options.input)
    own = location.format.name

    def rounded(document: Document) -> Document:
        return document.with_spans(replace(span, score=round(span.score, 4)) for span in document.spans)

    format = options.format or (own if own in FORMATS else "jsonl")
    return _run(options, location, rounded, format=format, submodel=options.submodel)


def _run(
    options: argparse.Namespace,
    location: Location,
    finish: Callable[[Document], Document],
    *,
    format: str,
    submodel: str | None = None,
) -> int:
    from ensemble_deid.pipeline.deidentifier import Deidentifier

    refuse_output(options.out, location, options.model, *list_files(options), format=format)
    for remark in location.remarks:
        warn(remark)
    # A line-based file does not say how many notes it holds before it is read.
    total = None if location.format.name == "jsonl" else len(location.files)
    submodels = options.submodels.split(",") if options.submodels is not None else None
    model = Deidentifier.load(options.model, device=options.device, submodels=submodels)
    lists = read_lists(options, model.labels)
    counts: Counter[str] = Counter()

    def finished(document: Document) -> Document:
        return finish(lists.apply(document, counts))

    # Results are in the order of the notes, so the first of these is the name of the note whose result comes next.
    names: deque[str] = deque()

    def named() -> Iterator[Document | CorpusError]:
        for note in iterate_notes(location.without(options.out), file_names=format != "jsonl"):
            names.append((note.id if isinstance(note, Document) else note.note) or "")
            yield note

    notes = model.predict_each(named(), submodel=submodel, threshold=options.threshold, jobs=options.jobs)
    problems: list[str] = []
    count = 0
    with progress_bar(quiet=options.quiet) as show, note_writer(options.out, format) as writer:
        for note in notes:
            name = names.popleft()
            problem = str(note) if isinstance(note, DeidError) else _finish_and_write(note, finished, writer.write)
            if problem is None:
                count += 1
            else:
                writer.withhold(name)
                problems.append(problem)
            show(Step(count + len(problems), total, f"{counted(count, 'note')} written, {len(problems)} withheld"))
    for problem in problems:
        warn(f"withheld: {problem}")
    report_lists(lists, counts)
    for name, count in sorted(counts.items()):
        say(f"{name}: {count}")
    say(f"{counted(count, 'note')} written to {options.out}, {len(problems)} withheld")
    return NOTES_WITHHELD if problems else 0


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
