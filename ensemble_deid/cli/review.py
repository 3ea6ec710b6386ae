"""`review`: people correct on a page what a model found, and their decisions become a corpus."""

import argparse
import shlex
from pathlib import Path
from typing import Any

from ensemble_deid.cli.options import add_command, add_group, add_model, add_port, add_shared
from ensemble_deid.cli.terminal import counted, progress_bar, say, warn
from ensemble_deid.deidentify.outputs import refuse_output, refuse_output_files
from ensemble_deid.errors import ConfigError


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    actions = add_group(commands, "review", "correct what a model found, on a page in the browser (docs/reviewer.md)")
    start = add_command(
        actions,
        "start",
        "open the page for correcting a model's spans",
        example="review start en notes --store decisions.sqlite",
    )
    add_model(start)
    start.add_argument("notes", metavar="NOTES", help="a folder or file of notes, or demo:train")
    start.add_argument("--store", metavar="FILE", type=Path, required=True, help="file that stores every decision")
    add_port(start, default=8001)
    start.add_argument("--add-labels", metavar="LIST", help="labels that the model lacks, comma-separated")
    add_shared(start, "jobs", "device", "quiet", jobs=1)
    start.set_defaults(run=run_review)

    export = add_command(
        actions,
        "export",
        "write the reviewers' decisions as a corpus",
        example="review export decisions.sqlite --out reviewed.jsonl",
    )
    export.add_argument("store", metavar="STORE", type=Path, help="the file of `review start --store`")
    export.add_argument("--out", metavar="OUT", type=Path, required=True, help="a folder, or a .jsonl file")
    export.add_argument("--format", choices=("jsonl", "brat"), default="jsonl", help="default: jsonl")
    export.add_argument("--reviewer", metavar="NAME", help="only this reviewer's decisions, or `adjudication`")
    export.set_defaults(run=run_export)


def run_review(options: argparse.Namespace) -> int:
    """Predict on the notes that the store lacks, then serve the page until a signal ends it."""
    try:
        from ensemble_deid.service.review.app import make_review_app
        from ensemble_deid.service.review.routes import Review
        from ensemble_deid.service.server import serve
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed: pip install 'ensemble_deid[service]'") from None
    from ensemble_deid.corpora.read import read_corpus
    from ensemble_deid.deidentify.deidentifier import Deidentifier
    from ensemble_deid.service.review.file import Facts, ReviewFile, settle_facts
    from ensemble_deid.service.review.fill import fill
    from ensemble_deid.service.settings import ServiceSettings, tokens_from_environment
    from ensemble_deid.training.progress import Step

    settings = ServiceSettings(
        model=options.model,
        port=options.port,
        device=options.device,
        tokens=tokens_from_environment(),
        time_limit=120.0,
    )
    refuse_output_files([options.store], options.notes, options.model)
    corpus = read_corpus(options.notes, gold=False)
    for remark in corpus.warnings:
        warn(remark)
    model = Deidentifier.load(options.model, device=options.device, jobs=options.jobs)
    threshold = model.description.threshold
    checksum = model.source.checksum if model.source is not None else ""
    file = ReviewFile(options.store, create=True)
    labels = (*model.labels, *_further_labels(options.add_labels))
    facts = settle_facts(file, Facts(checksum, threshold, tuple(dict.fromkeys(labels))))
    with progress_bar(quiet=options.quiet) as show:
        withheld = fill(
            file,
            corpus.documents,
            model,
            threshold=threshold,
            jobs=options.jobs,
            progress=lambda done, total: show(Step(done, total, "reading notes")),
        )
    for problem in withheld:
        warn(f"not in the review: {problem}")

    def started(address: str) -> None:
        say(f"reviewing {counted(len(corpus.documents) - len(withheld), 'note')} at {address}; stop with Ctrl-C")

    commands = _commands(options.store)
    review = Review(file, facts)
    serve(settings, started=started, create=lambda s: make_review_app(review, model, s, commands=commands))
    file.close()
    return 0


def run_export(options: argparse.Namespace) -> int:
    """Write the finished notes with their accepted spans."""
    from ensemble_deid.corpora.write import write_corpus
    from ensemble_deid.service.review.export import reviewed
    from ensemble_deid.service.review.file import ReviewFile

    refuse_output(options.out, options.store, format=options.format)
    file = ReviewFile(options.store, create=False)
    with file.transaction() as database:
        ready = reviewed(database, reviewer=options.reviewer)
    file.close()
    if not ready.documents:
        raise ConfigError(f"{options.store}: no note is finished" + (", or reviewers differ" if ready.disputed else ""))
    written = write_corpus(ready.documents, options.out, options.format)
    place = written[0] if options.format == "jsonl" else options.out
    say(f"{counted(len(ready.documents), 'note')} written to {place}")
    if ready.unfinished or ready.disputed:
        say(f"not written: {ready.unfinished} not finished, {ready.disputed} on which reviewers differ")
    return 0


def _further_labels(text: str | None) -> list[str]:
    labels = [] if text is None else [label.strip() for label in text.split(",")]
    for label in labels:
        if not label or not label.isprintable() or any(character.isspace() for character in label):
            raise ConfigError("--add-labels: labels need at least one character and no white space")
    return labels


def _commands(store: Path) -> dict[str, str]:
    """Return the commands that the page shows."""
    export = f"ensemble-deid review export {shlex.quote(str(store))} --out reviewed.jsonl"
    return {"export": export, "retrain": f"{export} && ensemble-deid train reviewed.jsonl --out retrained"}
