"""`rules`: read, check, compare, explain and apply learned rules; review them, and put them into a model."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.options import (
    CORPUS,
    CommandParser,
    add_command,
    add_config,
    add_model,
    add_on_model,
    add_port,
    add_shared,
)
from ensemble_deid.cli.sources import check_out_files, read_gold
from ensemble_deid.cli.terminal import DIFFERENCES, counted, say, warn
from ensemble_deid.config import load_config
from ensemble_deid.corpora.formats import ANNOTATED
from ensemble_deid.corpora.read import locate_corpus, read_corpus
from ensemble_deid.deidentify.outputs import refuse_output, refuse_output_files
from ensemble_deid.errors import ConfigError, CorpusError, DeidError, RuleError, needs_extra
from ensemble_deid.model.installed import model_of
from ensemble_deid.note.digits import percent, rounded
from ensemble_deid.note.document import Document

FOR_PEOPLE = (
    "tbed.templates=plain",
    "tbed.max_rules=60",
    "tbed.min_patients=3",
    "tbed.min_accuracy=0.9",
    "tbed.names_phi=false",
)
"""Settings for a rule list that people can read and maintain."""

if TYPE_CHECKING:
    from ensemble_deid.training.rule_learning import OtherSystem
    from ensemble_deid.training.rules import RuleModel


def add_commands(actions: Any) -> None:
    show = add_on_model(actions, "show", run_show, example="en --labels DATE --top 10 --words")
    show.add_argument("--labels", metavar="LIST", help="only rules that add or remove one of these labels")
    show.add_argument("--template", metavar="TEMPLATE", help="only rules of this template: 'lower[-1] & tag[1]'")
    show.add_argument("--top", metavar="N", type=int, help="only the first N of these")
    show.add_argument("--words", action="store_true", help="each rule as a sentence, after its number in the list")

    check = add_on_model(actions, "check", run_check, example="en my/dev")
    check.add_argument("corpus", metavar="CORPUS", help=CORPUS)
    _add_rules(check)

    diff = add_command(actions, "diff", run_diff, example="model reviewed.rules")
    for name in ("a", "b"):
        add_model(diff, name, metavar=name.upper(), help="a file of rules, or a MODEL")

    _add_notes(actions)
    _add_learn(actions)
    _add_changes(actions)


def _add_notes(actions: Any) -> None:
    explain = add_on_model(actions, "explain", run_explain, example="en note.txt")
    explain.add_argument("note", metavar="NOTE", help="a file with one note")
    add_shared(explain, "text")

    apply = add_on_model(actions, "apply", run_apply, example="en notes --out found")
    apply.add_argument("corpus", metavar="CORPUS", help="a folder or file of notes")
    apply.add_argument("--out", metavar="DIR", type=Path, required=True, help="folder for the notes with their spans")
    apply.add_argument("--format", choices=ANNOTATED, default="jsonl", help="default: jsonl")
    _add_rules(apply)

    curve = add_on_model(actions, "curve", run_curve, example="en --out curve.png")
    curve.add_argument("--out", metavar="FILE.png", type=Path, help="F1 as a picture, too")


def _add_learn(actions: Any) -> None:
    learn = add_command(actions, "learn", run_learn, example="my/train --start none --dev my/dev --out list.rules")
    learn.add_argument("corpus", metavar="CORPUS", help=CORPUS)
    learn.add_argument(
        "--start",
        metavar="START",
        required=True,
        help="what the rules correct: patterns (.toml), none, a MODEL, or spans of both corpora (.jsonl)",
    )
    learn.add_argument("--dev", metavar="DEV", required=True, help="notes of other patients, to measure the list by")
    learn.add_argument("--out", metavar="FILE", type=Path, required=True, help="the rule list")
    learn.add_argument("--for-people", action="store_true", help="a list for people: at most 60 rules in plain words")
    add_config(learn)
    add_shared(learn, "seed", "allow-overlap")


def _add_rules(parser: CommandParser) -> None:
    parser.add_argument("--rules", metavar="FILE", type=Path, help="a rule list instead of the model's")


def _add_changes(actions: Any) -> None:
    review = add_on_model(actions, "review", run_review, example="model --corpus my/dev")
    review.add_argument("--corpus", metavar="CORPUS", help="annotated notes: what each rule fixes and breaks there")
    review.add_argument("--out", metavar="FILE.html", type=Path, help="write a page to read instead")
    add_port(review, default=8002)

    approve = add_on_model(actions, "approve", run_approve, example="model --rule 3,5 --by 'A. Reviewer'")
    which = approve.add_mutually_exclusive_group(required=True)
    which.add_argument("--rule", metavar="N[,N...]", dest="rules", help="the numbers of the rules, as `show` counts")
    which.add_argument("--all", action="store_true", help="all rules of the list")
    approve.add_argument("--by", metavar="NAME", required=True, help="who approves them")
    approve.add_argument("--date", metavar="YYYY-MM-DD", help="the day of the approval; default: today")
    approve.add_argument("--reject", action="store_true", help="record that they are rejected instead")

    put = add_on_model(actions, "replace", run_replace, example="model reviewed.rules --remark 'rule 7 hurts'")
    which = put.add_mutually_exclusive_group(required=True)
    which.add_argument("file", metavar="FILE", type=Path, nargs="?", help="the rule list")
    which.add_argument("--approved-only", action="store_true", help="the model's own list without unapproved rules")

    restore = add_on_model(actions, "restore", run_restore, example="model")
    for parser in (put, restore):
        add_shared(parser, "remark")


def _rule_model(options: argparse.Namespace) -> "RuleModel":
    """Read MODEL, with the rules of `--rules` in the place of its own."""
    from ensemble_deid.taggers.tbed.rulelist import RuleList
    from ensemble_deid.training.rules import RuleModel

    if options.model.is_file():
        raise RuleError(
            f"{options.model}: a file, not a model directory; rules need the model that they are for: "
            f"rules {options.action} MODEL CORPUS --rules {options.model}"
        )
    model = RuleModel.load(options.model)
    return model if options.rules is None else model.with_rules(RuleList.load(options.rules), name=str(options.rules))


def run_show(options: argparse.Namespace) -> None:
    """Print a model's rules, in order.

    The whole list is printed as the file, byte for byte, with a line for its approvals if it has any.
    """
    from ensemble_deid.taggers.tbed.rule_words import rule_in_words
    from ensemble_deid.taggers.tbed.templates import parse_template
    from ensemble_deid.training.rule_approvals import APPROVED_KEY, rule_approvals
    from ensemble_deid.training.rules import RuleModel

    if options.top is not None and options.top < 1:
        raise ConfigError(f"--top: at least 1, not {options.top}")
    model = RuleModel.load(options.model)
    rules = model.rules
    wanted = None if options.template is None else parse_template(options.template, place="--template")
    labels = None if options.labels is None else {label.strip() for label in options.labels.split(",")}
    if unknown := sorted((labels or set()).difference(model.tagger.scheme.labels)):
        known = ", ".join(model.tagger.scheme.labels)
        raise ConfigError(f"--labels: the model has no label {unknown[0]!r}; it has: {known}")
    chosen = [
        (number, rule)
        for number, rule in enumerate(rules, 1)
        if (labels is None or not labels.isdisjoint(rule.labels)) and wanted in (None, rule.template)
    ][: options.top]
    approvals = rule_approvals(options.model)
    if options.words:
        say(f"approved: {approvals.summary()}")
        for number, rule in chosen:
            say(f"{number:>4}  {rule_in_words(rule)} (fixed {rule.fixed}, broken {rule.broken})")
    elif len(chosen) < len(rules):
        say(rules.with_rules([rule for _, rule in chosen]).text())
    elif approvals.approvals:
        say(replace(rules, header={**rules.header, APPROVED_KEY: approvals.summary()}).text())
    else:
        say(rules.text())


def run_check(options: argparse.Namespace) -> None:
    """Count what each rule fixes and breaks on annotated notes."""
    from ensemble_deid.taggers.tbed.rule_text import write_rule
    from ensemble_deid.training.rules import check_rules

    model = _rule_model(options)
    checked = check_rules(model, read_gold(options.corpus).documents)
    say(f"{'rule':>5} {'fixed':>6} {'broken':>6} {'score':>6}  rule as learned")
    for row in checked:
        say(f"{row.number:>5} {row.fixed:>6} {row.broken:>6} {row.score:>6}  {write_rule(row.rule)}")
    silent = [str(row.number) for row in checked if row.changed == 0]
    harmful = [str(row.number) for row in checked if row.score < 0]
    say(f"rules that never fire here: {', '.join(silent) or 'none'}")
    say(f"rules that hurt here: {', '.join(harmful) or 'none'}")


def run_diff(options: argparse.Namespace) -> int:
    """List the rules that two lists do not share.

    Returns 1 where there are any.
    """
    from ensemble_deid.taggers.tbed.rulelist import RuleList
    from ensemble_deid.taggers.tbed.tagger import RULES
    from ensemble_deid.training.rules import diff_rules

    a, b = (RuleList.load(place / RULES if place.is_dir() else place) for place in (options.a, options.b))
    lines = diff_rules(a, b)
    for line in lines:
        say(line)
    say("the lists apply the same rules in the same order" if not lines else f"{counted(len(lines), 'difference')}")
    return DIFFERENCES if lines else 0


def run_explain(options: argparse.Namespace) -> None:
    """Show which rules made each span of a note."""
    from ensemble_deid.taggers.tbed.rule_text import write_rule
    from ensemble_deid.training.rules import RuleModel, explain_note

    documents = read_corpus(options.note, gold=False).documents
    if len(documents) != 1:
        raise CorpusError(f"{options.note}: expected one note, not {len(documents)}")
    model = RuleModel.load(options.model)
    traced = explain_note(model, documents[0])
    for found in traced:
        span = found.span
        text = f" {documents[0].text[span.start : span.end]!r}" if options.text else ""
        say(f"{span.start}-{span.end} {span.label}{text}")
        say(f"    started by {'the pattern ' + found.pattern if found.pattern else 'no pattern'}")
        for number in found.rules:
            say(f"    rule {number}: {write_rule(model.rules.rules[number - 1])}")
    say(counted(len(traced), "span"))


def run_apply(options: argparse.Namespace) -> None:
    """Write what a model's patterns and rules find."""
    from ensemble_deid.corpora.write import write_corpus
    from ensemble_deid.training.rules import apply_rules_to

    refuse_output(options.out, locate_corpus(options.corpus), options.model, options.rules, format=options.format)
    model = _rule_model(options)
    found = apply_rules_to(model, read_corpus(options.corpus, gold=False).documents)
    # Four significant digits of the scores, as `predict` writes them.
    documents = [d.with_spans(replace(span, score=rounded(span.score)) for span in d.spans) for d in found]
    write_corpus(documents, options.out, options.format)
    say(f"{counted(len(documents), 'note')} written to {options.out}")


def run_curve(options: argparse.Namespace) -> None:
    """Print F1 and token recall by the number of rules."""
    from ensemble_deid.training.rule_replacement import has_trained_rules
    from ensemble_deid.training.rules import curve_lines, draw_curve, model_curve

    check_out_files([] if options.out is None else [options.out], [".png"], options.model)
    points = model_curve(options.model)
    if options.out is not None:
        draw_curve(points, options.out)
    for line in curve_lines(points):
        say(line)
    if options.out is not None:
        say(f"the picture is {options.out}")
    if not has_trained_rules(options.model):
        warn("the curve is that of the rules as trained; other rules are in the model now")


def run_learn(options: argparse.Namespace) -> None:
    """Learn a rule list by itself, and measure it on other patients."""
    from ensemble_deid.training.rule_learning import learn_rule_list
    from ensemble_deid.training.rules import curve_lines

    start = options.start
    patterns = start if Path(start).suffix == ".toml" else "none"
    settings = {"regex.patterns": patterns, "tbed.initial": "none" if start == "none" else "regex"}
    for key in settings:
        if any(given.partition("=")[0].strip() == key for given in options.overrides):
            raise ConfigError(f"--set {key}: --start says what the rules start from")
    config = load_config(
        options.config,
        overrides=[
            *(FOR_PEOPLE if options.for_people else ()),
            *options.overrides,
            *(f"{key}={json.dumps(value)}" for key, value in settings.items()),
        ],
        submodels=["tbed"],
        seed=options.seed,
    )
    place = None if start == "none" else model_of(start) or Path(start)
    refuse_output_files([options.out], options.corpus, options.dev, options.config, place)
    corpus, dev = (read_gold(name, model=model_of(start)).documents for name in (options.corpus, options.dev))
    system = None if start == "none" or patterns == start else _other_system(start)
    learned = learn_rule_list(
        corpus, dev, config=config, start=system, notify=warn, allow_overlap=options.allow_overlap
    )
    learned.rules.save(options.out)
    for line in curve_lines(learned.curve):
        say(line)
    figures = f"strict F1 {percent(learned.strict.f1, sign='')}, token recall {percent(learned.tokens.recall, sign='')}"
    say(f"{counted(len(learned.rules), 'rule')}: {figures} on dev; see {options.out}")


def _other_system(start: str) -> "OtherSystem":
    """Return the model or the file of spans from which rules start."""
    from ensemble_deid.deidentify.deidentifier import Deidentifier
    from ensemble_deid.deidentify.recognizers import Recognizer, recognised
    from ensemble_deid.training.rule_learning import OtherSystem

    model = model_of(start)
    if model is not None:
        return OtherSystem(Path(start).name, Deidentifier.load(model).predict)
    if Path(start).suffix != ".jsonl":
        raise ConfigError(f"--start: expected none, patterns (.toml), spans (.jsonl) or a model, not {start!r}")
    recognizer = Recognizer.from_file(start)

    def annotate(documents: Sequence[Document]) -> list[Document]:
        found = [recognised(document.with_spans(()), (recognizer,)) for document in documents]
        for note in found:
            if isinstance(note, DeidError):
                raise note
        return [note for note in found if isinstance(note, Document)]

    return OtherSystem(recognizer.name, annotate)


def run_review(options: argparse.Namespace) -> None:
    """Open a page for approving, rejecting and editing a model's rules; it contains PHI."""
    from ensemble_deid.training.rule_review import review_rules

    documents = None if options.corpus is None else read_gold(options.corpus).documents
    if options.out is None:
        _serve_rules(options, documents)
        return
    refuse_output_files([options.out], options.model, options.corpus)
    write_text_atomically(options.out, review_rules(options.model, documents))
    say(f"the page is {options.out}; it contains PHI: keep it where the notes are kept")


def _serve_rules(options: argparse.Namespace, documents: Sequence[Document] | None) -> None:
    with needs_extra("service", "the page"):
        from ensemble_deid.service.review.rules import RuleDesk, make_rules_app
        from ensemble_deid.service.server import serve
        from ensemble_deid.service.settings import ServiceSettings, tokens_from_environment
    tokens = tokens_from_environment()
    settings = ServiceSettings(model=options.model, port=options.port, tokens=tokens, time_limit=600.0)
    desk = RuleDesk(options.model, documents)
    shown = counted(len(desk.cards()["cards"]), "rule")
    serve(
        settings,
        started=lambda address: say(f"{shown} at {address}; stop with Ctrl-C"),
        create=lambda s: make_rules_app(desk, s),
    )


def run_approve(options: argparse.Namespace) -> None:
    """Record approvals of a model's rules."""
    from ensemble_deid.training.rule_approvals import approve_rules

    numbers = None if options.all else _numbers(options.rules)
    # The machine's own day: an approval is given where it is typed.
    day = options.date if options.date is not None else date.today().isoformat()
    approvals = approve_rules(options.model, by=options.by, on=day, rules=numbers, reject=options.reject)
    say(f"{options.model} has approvals of {approvals.summary()}")


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise ConfigError(f"--rule: expected rule numbers such as 3,5, not {text!r}")
    return [int(part) for part in parts]


def run_replace(options: argparse.Namespace) -> None:
    """Replace a model's rule list, and record it."""
    from ensemble_deid.taggers.tbed.rulelist import RuleList
    from ensemble_deid.training.rule_replacement import keep_approved_rules, replace_rules

    if options.approved_only:
        in_force = keep_approved_rules(options.model, remark=options.remark)
        say(f"{options.model} now has the approved rules alone, {in_force}; the change is on record")
        return
    rules = RuleList.load(options.file)
    kept, new = replace_rules(options.model, rules, name=str(options.file), remark=options.remark)
    say(f"{options.model} now has {counted(kept + new, 'rule')}: {kept} as learned, {new} new; the change is on record")


def run_restore(options: argparse.Namespace) -> None:
    """Undo the last `replace`: bring back the rule list before it."""
    from ensemble_deid.training.rule_replacement import restore_rules

    change, n_rules = restore_rules(options.model, remark=options.remark)
    rules = counted(n_rules, "rule")
    say(f"{options.model} has the {rules} again that it had before change {change}; this change is on record")
