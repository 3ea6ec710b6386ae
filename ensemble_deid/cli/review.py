"""`review`: people correct on a page what a model found, and their decisions become a corpus."""

import argparse
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.cli.options import CommandParser, add_command, add_group, add_on_model, add_port, add_shared
from ensemble_deid.cli.terminal import counted, progress_bar, say, warn
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.deidentify.outputs import refuse_output, refuse_output_files, refuse_output_model
from ensemble_deid.errors import ConfigError, needs_extra
from ensemble_deid.parallel import Step

if TYPE_CHECKING:
    from ensemble_deid.service.review.accounts import Account
    from ensemble_deid.service.review.fill import Reviewed

_ROLES = ("reviewer", "adjudicator", "owner")


def add_commands(commands: Any) -> None:
    actions = add_group(commands, "review", "correct what a model found, on a page in the browser (docs/reviewer.md)")
    start = add_on_model(actions, "start", run_review, example="en notes --store decisions.sqlite")
    start.add_argument("notes", metavar="NOTES", help="a folder or file of notes, or demo:train")
    start.add_argument("--store", metavar="FILE", type=Path, required=True, help="file that stores every decision")
    add_port(start, default=8001)
    start.add_argument("--add-labels", metavar="LIST", help="labels that the model lacks, comma-separated")
    add_shared(start, "jobs", "device", "quiet", jobs=1)

    export = add_command(actions, "export", run_export, example="decisions.sqlite --out reviewed.jsonl")
    _add_store(export)
    export.add_argument("--out", metavar="OUT", type=Path, required=True, help="a folder, or a .jsonl file")
    export.add_argument("--format", choices=("jsonl", "brat"), default="jsonl", help="default: jsonl")
    export.add_argument("--reviewer", metavar="NAME", help="only this reviewer's decisions, or `adjudication`")
    export.add_argument("--drawn", action="store_true", help="only notes drawn at random: others measure no model")
    _add_learn(actions)
    _add_team(actions)


def _add_learn(actions: Any) -> None:
    learn = add_on_model(actions, "learn", run_learn, example="en decisions.sqlite --out better")
    _add_store(learn)
    learn.add_argument("--out", metavar="NEW", type=Path, required=True, help="a new folder for the model")
    learn.add_argument(
        "--false-positives", metavar="N", type=float, default=5.0, help="in 1000 tokens, for the threshold; default: 5"
    )
    learn.add_argument("--folds", metavar="N", type=int, default=5, help="groups of patients to measure on; default: 5")
    learn.add_argument(
        "--min-patients", metavar="N", type=int, default=1, help="keep only words of N patients or more; default: 1"
    )
    learn.add_argument("--remark", metavar="TEXT", default="", help="for the model's record: who asked for it, and why")
    add_shared(learn, "quiet")


def _add_team(actions: Any) -> None:
    accounts = add_group(actions, "account", "manage the page's accounts, each with a token")
    add = add_command(accounts, "add", run_account_add, example="decisions.sqlite kim")
    remove = add_command(accounts, "remove", run_account_remove, example="decisions.sqlite kim")
    listed = add_command(accounts, "list", run_account_list, example="decisions.sqlite")
    for command in (add, remove, listed):
        _add_store(command)
    for command in (add, remove):
        command.add_argument("name", metavar="NAME", help="of the person")
    add.add_argument("--role", choices=_ROLES, default=_ROLES[0], help="default: reviewer")

    assign = add_command(actions, "assign", run_assign, example="decisions.sqlite kim lee mo --each 2")
    _add_store(assign)
    assign.add_argument("reviewers", metavar="NAME", nargs="+", help="who reviews")
    assign.add_argument("--each", metavar="N", type=int, default=1, help="reviewers of each note; default: 1")
    draw = add_command(actions, "draw", run_draw, example="decisions.sqlite --size 50 --blind")
    _add_store(draw)
    draw.add_argument("--size", metavar="N", type=int, required=True, help="how many notes, in whole patients")
    draw.add_argument("--blind", action="store_true", help="reviewers do not see what the model found")
    for command in (assign, draw):
        command.add_argument("--seed", metavar="N", type=int, default=0, help="for the order of drawing; default: 0")


def _add_store(parser: CommandParser) -> None:
    parser.add_argument("store", metavar="STORE", type=Path, help="the file of `review start --store`")


def run_review(options: argparse.Namespace) -> None:
    """Open the page for correcting a model's spans."""
    with needs_extra("service", "the review page"):
        from ensemble_deid.service.review.app import make_review_app
        from ensemble_deid.service.review.routes import Review
        from ensemble_deid.service.server import serve
    from ensemble_deid.deidentify.deidentifier import Deidentifier
    from ensemble_deid.service.review.file import Facts, ReviewFile, settle_facts
    from ensemble_deid.service.review.fill import fill
    from ensemble_deid.service.settings import ServiceSettings, tokens_from_environment
    from ensemble_deid.service.tokens import Tokens

    refuse_output_files([options.store], options.notes, options.model)
    settings = ServiceSettings(
        model=options.model,
        port=options.port,
        device=options.device,
        tokens=Tokens() if _accounts(options.store) else tokens_from_environment(),
        time_limit=120.0,
    )
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

    named = " ".join(shlex.quote(str(value)) for value in (options.model, options.store))
    then = (
        "Let the model learn from the finished notes, and measure both on patients that it did not learn from:",
        f"ensemble-deid review learn {named} --out better",
    )
    review = Review(file, facts)
    serve(settings, started=started, create=lambda s: make_review_app(review, model, s, then=then))
    file.close()


def run_export(options: argparse.Namespace) -> None:
    """Write the reviewers' decisions as a corpus."""
    from ensemble_deid.corpora.write import write_corpus

    refuse_output(options.out, options.store, format=options.format)
    ready = _ready(options.store, reviewer=options.reviewer, drawn=options.drawn)
    written = write_corpus(ready.documents, options.out, options.format)
    place = written[0] if options.format == "jsonl" else options.out
    say(f"{counted(len(ready.documents), 'note')} written to {place}")
    if ready.unfinished or ready.disputed:
        say(f"not written: {ready.unfinished} not finished, {ready.disputed} on which reviewers differ")


def run_learn(options: argparse.Namespace) -> None:
    """Write a model that has learned from the finished notes, and measure both."""
    from ensemble_deid.training.learn import learn

    refuse_output_model(options.out, options.store, options.model)
    ready = _ready(options.store)
    total = len(ready.documents)
    with progress_bar(quiet=options.quiet) as show:
        learned = learn(
            options.model,
            options.out,
            ready.documents,
            wanted=options.false_positives,
            folds=options.folds,
            min_patients=options.min_patients,
            remark=options.remark,
            progress=lambda done: show(Step(done, total, "reading notes")),
        )
    say(f"{options.out} has learned from {counted(learned.notes, 'note')} of {counted(learned.patients, 'patient')}")
    kinds = ((learned.rules, "rule"), (learned.patterns, "enforced pattern"), (learned.sentences, "listed sentence"))
    for n, kind in kinds:
        if n:
            say(f"with it: {counted(n, kind)} from these notes")
    say(f"at {options.false_positives:g} false positives in 1000 tokens, each patient held out:")
    for name, point in (("before", learned.before), ("after", learned.after)):
        missed = "no threshold reaches it"
        if point is not None:
            missed = f"{point.counts.fn} of {point.counts.tp + point.counts.fn} PHI tokens missed"
        say(f"  {name}: {missed}")


def run_account_add(options: argparse.Namespace) -> None:
    """Add an account and print its token, which is shown once."""
    from ensemble_deid.service.review.accounts import add_account

    # The store may be made here, so that the page is never open to everyone.
    with _opened(options.store, create=True) as database:
        token = add_account(database, options.name, options.role)
    say(token)


def run_account_remove(options: argparse.Namespace) -> None:
    """Remove an account."""
    from ensemble_deid.service.review.accounts import remove_account

    with _opened(options.store) as database:
        remove_account(database, options.name)
    say(f"{options.name} no longer has an account; the decisions stay")


def run_account_list(options: argparse.Namespace) -> None:
    """List names and roles."""
    from ensemble_deid.service.review.accounts import read_accounts

    with _opened(options.store) as database:
        accounts = read_accounts(database)
    for account in accounts:
        say(f"{account.name}: {account.role}")


def run_assign(options: argparse.Namespace) -> None:
    """Assign the notes that nobody has to reviewers, by patient."""
    from ensemble_deid.service.review.team import assign

    with _opened(options.store) as database:
        load = assign(database, options.reviewers, each=options.each, seed=options.seed)
    for name, notes in load.items():
        say(f"{name}: {counted(notes, 'note')}")


def run_draw(options: argparse.Namespace) -> None:
    """Draw notes at random, so that they can measure a model."""
    from ensemble_deid.service.review.team import draw

    with _opened(options.store) as database:
        drawn = draw(database, options.size, blind=options.blind, seed=options.seed)
    say(f"{counted(drawn, 'note')} drawn; on the page: First, drawn at random")


@contextmanager
def _opened(store: Path, *, create: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a store for one transaction. Raises ReviewError."""
    from ensemble_deid.service.review.file import ReviewFile

    file = ReviewFile(store, create=create)
    try:
        with file.transaction() as database:
            yield database
    finally:
        file.close()


def _ready(store: Path, *, reviewer: str | None = None, drawn: bool = False) -> "Reviewed":
    """Return the finished notes. Raises ConfigError where there are none."""
    from ensemble_deid.service.review.fill import reviewed

    with _opened(store) as database:
        ready = reviewed(database, reviewer=reviewer, drawn=drawn)
    if not ready.documents:
        raise ConfigError(f"{store}: no note is finished" + (", or reviewers differ" if ready.disputed else ""))
    return ready


def _accounts(store: Path) -> "list[Account]":
    from ensemble_deid.service.review.accounts import read_accounts

    if not store.exists():
        return []
    with _opened(store) as database:
        return read_accounts(database)


def _further_labels(text: str | None) -> list[str]:
    labels = [] if text is None else [label.strip() for label in text.split(",")]
    for label in labels:
        if not label or not label.isprintable() or any(character.isspace() for character in label):
            raise ConfigError("--add-labels: labels need at least one character and no white space")
    return labels
