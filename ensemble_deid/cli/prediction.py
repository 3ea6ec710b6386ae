"""`predict` and `deidentify`: a folder in, a folder out, note by note failing closed."""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ensemble_deid.cli.terminal import progress_bar, say, warn
from ensemble_deid.corpora.locate import locate_corpus
from ensemble_deid.corpora.read import iterate_notes
from ensemble_deid.corpora.write import write_document
from ensemble_deid.errors import CorpusError, DeidError
from ensemble_deid.experiments.train import Step
from ensemble_deid.text.document import Document

FORMATS = ("i2b2", "meddocan", "brat", "jsonl")
_STYLES = ("tag", "mask", "remove")


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    predict = commands.add_parser("predict", help="write the spans that a model finds")
    _add_common(predict)
    predict.add_argument("--format", choices=FORMATS, help="default: the input's own, jsonl for plain text")
    predict.add_argument("--submodel", metavar="NAME", help="that submodel's answer instead of the ensemble's")
    predict.set_defaults(run=run_predict)
    deidentify = commands.add_parser("deidentify", help="write the notes without their PHI")
    _add_common(deidentify)
    deidentify.add_argument("--style", choices=_STYLES, default="tag", help="[LABEL], XXXX, or nothing")
    deidentify.set_defaults(run=run_deidentify)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path)
    parser.add_argument("input", metavar="INPUT", help="a folder or file of notes, or demo:test")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True)
    parser.add_argument("--jobs", metavar="N", type=int, default=1)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run_predict(options: argparse.Namespace) -> int:
    """Write each note with the spans found, in the chosen format."""
    own = locate_corpus(options.input).format.name
    format = options.format or (own if own in FORMATS else "jsonl")

    def write(document: Document) -> None:
        rounded = document.with_spans(replace(span, score=round(span.score, 4)) for span in document.spans)
        write_document(rounded, options.out, format)

    return _run(options, write, submodel=options.submodel)


def run_deidentify(options: argparse.Namespace) -> int:
    """Write each note's text without its PHI, as `<id>.txt`."""
    from ensemble_deid.pipeline.redaction import redact

    def write(document: Document) -> None:
        text = redact(document.text, document.spans, style=options.style)
        write_document(Document(document.id, text), options.out, "plain")

    return _run(options, write, submodel=None)


def _run(options: argparse.Namespace, write: Callable[[Document], None], *, submodel: str | None) -> int:
    from ensemble_deid.cli.main import NOTES_WITHHELD
    from ensemble_deid.pipeline.notes import predict_notes

    if options.jobs < 1:
        raise CorpusError(f"--jobs must be at least 1, not {options.jobs}")
    notes = _not_into_itself(options)
    problems: list[str] = []
    count = 0
    with progress_bar(quiet=options.quiet) as show:
        outcomes = predict_notes(options.model, notes, submodel=submodel, jobs=options.jobs, device=options.device)
        for outcome in outcomes:
            problem = outcome.problem
            if outcome.document is not None:
                try:
                    write(outcome.document)
                except DeidError as error:
                    problem = str(error)
            count += problem is None
            if problem is not None:
                problems.append(problem)
            show(Step(0.0, 1.0, f"{count} notes written, {len(problems)} withheld"))
    for problem in problems:
        warn(f"withheld: {problem}")
    say(f"{count} notes written to {options.out}, {len(problems)} withheld")
    return NOTES_WITHHELD if problems else 0


def _not_into_itself(options: argparse.Namespace) -> Iterator[tuple[str, Document | DeidError]]:
    """Return the notes; refuse an output folder that is the input, whose notes would be overwritten."""
    location = locate_corpus(options.input)
    source = location.source if location.source.is_dir() else location.source.parent
    if options.out.exists() and options.out.resolve() == source.resolve():
        raise CorpusError(f"{options.out}: the output folder is the input folder")
    options.out.mkdir(parents=True, exist_ok=True)
    return iterate_notes(options.input)
