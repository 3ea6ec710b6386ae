"""`rules`: read, check, compare, explain and apply learned rule lists; `rule_changes.py` has what changes a model."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.cli import rule_changes
from ensemble_deid.cli.sources import read_gold
from ensemble_deid.cli.status import DIFFERENCES
from ensemble_deid.cli.terminal import counted, percent, say, warn
from ensemble_deid.corpora.formats import ANNOTATED
from ensemble_deid.corpora.locate import locate_corpus
from ensemble_deid.corpora.outputs import refuse_output, refuse_output_files
from ensemble_deid.errors import CorpusError, RuleError
from ensemble_deid.note.digits import rounded

if TYPE_CHECKING:
    from ensemble_deid.training.rules import RuleModel


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    rules = commands.add_parser("rules", help="read, check, review, approve and replace learned rules")
    actions = rules.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="print a model's rule list, in the order it was learned and is applied")
    show.add_argument("model", metavar="MODEL", type=Path)
    show.add_argument("--label", metavar="LABEL", help="only rules that give or take this label")
    show.add_argument(
        "--template", metavar="TEMPLATE", help="only rules of this template, such as 'lower[-1] & tag[1]'"
    )
    show.add_argument("--top", metavar="N", type=int, help="only the first N of these")
    show.add_argument("--words", action="store_true", help="each rule as a sentence, after its number in the list")
    show.set_defaults(run=run_show)

    check = actions.add_parser("check", help="what each rule of a model fixes and breaks on annotated notes")
    check.set_defaults(run=run_check)

    diff = actions.add_parser("diff", help="which rules two lists do not share")
    diff.add_argument("a", metavar="A", type=Path)
    diff.add_argument("b", metavar="B", type=Path)
    diff.set_defaults(run=run_diff)

    explain = actions.add_parser("explain", help="how each span of a note came about")
    explain.add_argument("model", metavar="MODEL", type=Path)
    explain.add_argument("note", metavar="NOTE", help="a file with one note")
    explain.add_argument("--text", action="store_true", help="print the spans' text, which is PHI")
    explain.set_defaults(run=run_explain)

    apply = actions.add_parser("apply", help="write what a model's patterns and rules find on notes")
    apply.add_argument("--out", metavar="DIR", type=Path, required=True)
    apply.add_argument("--format", choices=ANNOTATED, default="jsonl")
    apply.set_defaults(run=run_apply)
    for parser in (check, apply):
        parser.add_argument("model", metavar="MODEL", type=Path)
        parser.add_argument("corpus", metavar="CORPUS")
        parser.add_argument("--rules", metavar="FILE", type=Path, help="a rule list in the place of the model's own")

    curve = actions.add_parser("curve", help="a picture of F1 on train and dev against the number of rules")
    curve.add_argument("model", metavar="MODEL", type=Path)
    curve.add_argument("--out", metavar="FILE.png", type=Path, required=True)
    curve.set_defaults(run=run_curve)
    rule_changes.add_actions(actions)


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


def run_show(options: argparse.Namespace) -> int:
    """Print the rule list as text; whole, it is the file byte for byte, with a line for its approvals if it has any."""
    from ensemble_deid.taggers.tbed.rule_words import rule_in_words
    from ensemble_deid.taggers.tbed.templates import parse_template
    from ensemble_deid.training.rule_approvals import APPROVED_KEY, rule_approvals
    from ensemble_deid.training.rules import RuleModel

    rules = RuleModel.load(options.model).rules
    wanted = None if options.template is None else parse_template(options.template, place="--template")
    chosen = [
        (number, rule)
        for number, rule in enumerate(rules, 1)
        if options.label in (None, *rule.labels) and wanted in (None, rule.template)
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
    return 0


def run_check(options: argparse.Namespace) -> int:
    """Print fixed, broken and score of every rule, then those that never fire and those that hurt."""
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
    return 0


def run_diff(options: argparse.Namespace) -> int:
    """Print rules of A only with `-`, of B only with `+`; exit 1 when the lists differ."""
    from ensemble_deid.taggers.tbed.rulelist import RuleList
    from ensemble_deid.training.rules import diff_rules

    lines = diff_rules(RuleList.load(options.a), RuleList.load(options.b))
    for line in lines:
        say(line)
    say("the lists apply the same rules in the same order" if not lines else f"{counted(len(lines), 'difference')}")
    return DIFFERENCES if lines else 0


def run_explain(options: argparse.Namespace) -> int:
    """Print, for every span, the pattern that started it and the rules that changed a tag of it."""
    from ensemble_deid.taggers.tbed.rule_text import write_rule
    from ensemble_deid.training.rules import RuleModel, explain_note

    documents = read_gold(options.note).documents
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
    return 0


def run_apply(options: argparse.Namespace) -> int:
    """Write the notes with what patterns and rules find."""
    from ensemble_deid.corpora.write import write_corpus
    from ensemble_deid.training.rules import apply_rules_to

    refuse_output(options.out, locate_corpus(options.corpus), options.model, options.rules, format=options.format)
    model = _rule_model(options)
    found = apply_rules_to(model, read_gold(options.corpus).documents)
    # Four significant digits of the scores, as `predict` writes them.
    documents = [d.with_spans(replace(span, score=rounded(span.score)) for span in d.spans) for d in found]
    write_corpus(documents, options.out, options.format)
    say(f"{counted(len(documents), 'note')} written to {options.out}")
    return 0


def run_curve(options: argparse.Namespace) -> int:
    """Draw the curve that training measured."""
    from ensemble_deid.training.rule_curve import draw_curve, model_curve
    from ensemble_deid.training.rule_replacement import has_trained_rules

    refuse_output_files([options.out], options.model)
    points = model_curve(options.model)
    draw_curve(points, options.out)
    if not has_trained_rules(options.model):
        warn("the curve is that of the rules as trained; other rules are in the model now")
    last = points[-1]
    figures = f"F1 {percent(last.train_f1)} on train, {percent(last.dev_f1)} on dev"
    say(f"{counted(last.rules, 'rule')}: {figures}; see {options.out}")
    return 0
