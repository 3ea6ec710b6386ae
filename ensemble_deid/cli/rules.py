"""`rules`: read, check, compare, explain, apply and replace learned rule lists."""

import argparse
from pathlib import Path
from typing import Any

from ensemble_deid.cli.output import refuse_output, refuse_output_files
from ensemble_deid.cli.sources import read_gold
from ensemble_deid.cli.status import DIFFERENCES
from ensemble_deid.cli.terminal import counted, percent, say
from ensemble_deid.config import Config, load_config
from ensemble_deid.corpora.locate import locate_corpus
from ensemble_deid.errors import CorpusError


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    rules = commands.add_parser("rules", help="read, check, compare, explain, apply and replace rule lists")
    actions = rules.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="print a model's rule list, in the order it was learned and is applied")
    show.add_argument("model", metavar="MODEL", type=Path)
    show.add_argument("--label", metavar="LABEL", help="only rules that give or take this label")
    show.add_argument(
        "--template", metavar="TEMPLATE", help="only rules of this template, such as 'lower[-1] & tag[1]'"
    )
    show.add_argument("--top", metavar="N", type=int, help="only the first N of these")
    show.set_defaults(run=run_show)

    check = actions.add_parser("check", help="what each rule fixes and breaks on a corpus")
    check.add_argument("file", metavar="FILE", type=Path)
    check.add_argument("corpus", metavar="CORPUS")
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

    apply = actions.add_parser("apply", help="write what patterns and rules find on a corpus")
    apply.add_argument("file", metavar="FILE", type=Path)
    apply.add_argument("corpus", metavar="CORPUS")
    apply.add_argument("--out", metavar="DIR", type=Path, required=True)
    apply.add_argument("--format", choices=("i2b2", "meddocan", "brat", "jsonl"), default="jsonl")
    apply.set_defaults(run=run_apply)
    for parser in (check, apply):
        parser.add_argument("--config", metavar="FILE.toml", type=Path)
        parser.add_argument("--set", metavar="section.key=value", action="append", default=[], dest="overrides")

    put = actions.add_parser("replace", help="put a reviewed rule list into a model, which records it")
    put.add_argument("model", metavar="MODEL", type=Path)
    put.add_argument("file", metavar="FILE", type=Path)
    put.add_argument("--remark", default="", help="who approved it, and when")
    put.set_defaults(run=run_replace)

    curve = actions.add_parser("curve", help="a picture of F1 on train and dev against the number of rules")
    curve.add_argument("model", metavar="MODEL", type=Path)
    curve.add_argument("--out", metavar="FILE.png", type=Path, required=True)
    curve.set_defaults(run=run_curve)


def _config(options: argparse.Namespace) -> Config:
    return load_config(options.config, overrides=options.overrides)


def run_show(options: argparse.Namespace) -> int:
    """Print the rule list as text; whole, it is the file byte for byte."""
    from ensemble_deid.experiments.rules import labels_of, model_rules
    from ensemble_deid.taggers.tbed.templates import parse_template

    rules = model_rules(options.model)
    if options.label is None and options.template is None and options.top is None:
        say(rules.text())
        return 0
    chosen = list(rules.rules)
    if options.label is not None:
        chosen = [rule for rule in chosen if options.label in labels_of([rule])]
    if options.template is not None:
        wanted = parse_template(options.template, place="--template")
        chosen = [rule for rule in chosen if rule.template == wanted]
    say(rules.with_rules(chosen[: options.top]).text())
    return 0


def run_check(options: argparse.Namespace) -> int:
    """Print fixed, broken and score of every rule, then those that never fire and those that hurt."""
    from ensemble_deid.experiments.rules import RuleCorpus, check_rules
    from ensemble_deid.taggers.tbed.rule_text import write_rule
    from ensemble_deid.taggers.tbed.rulelist import RuleList

    rules = RuleList.load(options.file)
    corpus = RuleCorpus.of(read_gold(options.corpus).documents, rules, config=_config(options))
    checked = check_rules(rules.rules, corpus)
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
    from ensemble_deid.experiments.rules import diff_rules
    from ensemble_deid.taggers.tbed.rulelist import RuleList

    lines = diff_rules(RuleList.load(options.a), RuleList.load(options.b))
    for line in lines:
        say(line)
    say("the lists apply the same rules in the same order" if not lines else f"{counted(len(lines), 'difference')}")
    return DIFFERENCES if lines else 0


def run_explain(options: argparse.Namespace) -> int:
    """Print, for every span, the pattern that started it and the rules that changed a tag of it."""
    from ensemble_deid.experiments.rules import explain_note
    from ensemble_deid.taggers.tbed.rule_text import write_rule

    documents = read_gold(options.note).documents
    if len(documents) != 1:
        raise CorpusError(f"{options.note}: expected one note, not {len(documents)}")
    rules, traced = explain_note(options.model, documents[0])
    for found in traced:
        span = found.span
        text = f" {documents[0].text[span.start : span.end]!r}" if options.text else ""
        say(f"{span.start}-{span.end} {span.label}{text}")
        say(f"    started by {'the pattern ' + found.pattern if found.pattern else 'no pattern'}")
        for number in found.rules:
            say(f"    rule {number}: {write_rule(rules.rules[number - 1])}")
    say(counted(len(traced), "span"))
    return 0


def run_apply(options: argparse.Namespace) -> int:
    """Write the notes with what patterns and rules find."""
    from ensemble_deid.corpora.write import write_corpus
    from ensemble_deid.experiments.rules import RuleCorpus, apply_rules_to
    from ensemble_deid.taggers.tbed.rulelist import RuleList

    inputs = (locate_corpus(options.corpus), options.file, options.config)
    refuse_output(options.out, *inputs, format=options.format)
    rules = RuleList.load(options.file)
    corpus = RuleCorpus.of(read_gold(options.corpus).documents, rules, config=_config(options))
    documents = apply_rules_to(rules.rules, corpus)
    write_corpus(documents, options.out, options.format)
    say(f"{counted(len(documents), 'note')} written to {options.out}")
    return 0


def run_replace(options: argparse.Namespace) -> int:
    """Put a rule list into a model."""
    from ensemble_deid.experiments.rules import replace_rules
    from ensemble_deid.taggers.tbed.rulelist import RuleList

    kept, new = replace_rules(options.model, RuleList.load(options.file), remark=options.remark)
    say(f"{options.model} now has {counted(kept + new, 'rule')}: {kept} as learned, {new} new; the change is on record")
    return 0


def run_curve(options: argparse.Namespace) -> int:
    """Draw the curve that training measured."""
    from ensemble_deid.experiments.rule_curve_picture import draw_curve
    from ensemble_deid.experiments.rules import model_curve

    refuse_output_files([options.out], options.model)
    points = model_curve(options.model)
    draw_curve(points, options.out)
    last = points[-1]
    figures = f"F1 {percent(last.train_f1)} on train, {percent(last.dev_f1)} on dev"
    say(f"{counted(last.rules, 'rule')}: {figures}; see {options.out}")
    return 0
