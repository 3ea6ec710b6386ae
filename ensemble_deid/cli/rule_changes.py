"""`rules review`, `approve`, `replace` and `restore`: a reviewed rule list on its way into a model."""

import argparse
from datetime import date
from pathlib import Path
from typing import Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.sources import read_gold
from ensemble_deid.cli.terminal import counted, say
from ensemble_deid.corpora.outputs import refuse_output_files
from ensemble_deid.errors import ConfigError


def add_actions(actions: Any) -> None:
    """Add these actions to the parser of `rules`."""
    review = actions.add_parser("review", help="one HTML page to review a model's rules on; it contains PHI")
    review.add_argument("model", metavar="MODEL", type=Path)
    review.add_argument("--corpus", metavar="CORPUS", help="annotated notes: what each rule fixes and breaks there")
    review.add_argument("--out", metavar="FILE.html", type=Path, required=True)
    review.set_defaults(run=run_review)

    approve = actions.add_parser("approve", help="store in a model who approves which of its rules")
    approve.add_argument("model", metavar="MODEL", type=Path)
    which = approve.add_mutually_exclusive_group(required=True)
    which.add_argument("--rule", metavar="N[,N...]", dest="rules", help="the numbers of the rules, as `show` counts")
    which.add_argument("--all", action="store_true", help="all rules of the list")
    approve.add_argument("--by", metavar="NAME", required=True, help="who approves them")
    approve.add_argument("--date", metavar="YYYY-MM-DD", help="the day of the approval; today where it is left out")
    approve.set_defaults(run=run_approve)

    put = actions.add_parser("replace", help="put a reviewed rule list into a model, which records it")
    put.add_argument("model", metavar="MODEL", type=Path)
    put.add_argument("file", metavar="FILE", type=Path)
    put.add_argument("--remark", default="", help="what was changed, and why")
    put.set_defaults(run=run_replace)

    restore = actions.add_parser("restore", help="undo the last `replace`: bring back the rule list before it")
    restore.add_argument("model", metavar="MODEL", type=Path)
    restore.add_argument("--remark", default="", help="who wanted it, and why")
    restore.set_defaults(run=run_restore)


def run_review(options: argparse.Namespace) -> int:
    """Write the page."""
    from ensemble_deid.training.rule_review import review_rules

    refuse_output_files([options.out], options.model, options.corpus)
    documents = None if options.corpus is None else read_gold(options.corpus).documents
    write_text_atomically(options.out, review_rules(options.model, documents))
    say(f"the page is {options.out}; it contains PHI: keep it where the notes are kept")
    return 0


def run_approve(options: argparse.Namespace) -> int:
    """Store an approval."""
    from ensemble_deid.training.rule_approvals import approve_rules

    numbers = None if options.all else _numbers(options.rules)
    # The machine's own day: an approval is given where it is typed.
    day = options.date if options.date is not None else date.today().isoformat()
    approvals = approve_rules(options.model, by=options.by, on=day, rules=numbers)
    say(f"{options.model} has approvals of {approvals.summary()}")
    return 0


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise ConfigError(f"--rule: expected numbers of rules with commas between them, such as 3,5, not {text!r}")
    return [int(part) for part in parts]


def run_replace(options: argparse.Namespace) -> int:
    """Put a rule list into a model."""
    from ensemble_deid.taggers.tbed.rulelist import RuleList
    from ensemble_deid.training.rule_replacement import replace_rules

    rules = RuleList.load(options.file)
    kept, new = replace_rules(options.model, rules, name=str(options.file), remark=options.remark)
    say(f"{options.model} now has {counted(kept + new, 'rule')}: {kept} as learned, {new} new; the change is on record")
    return 0


def run_restore(options: argparse.Namespace) -> int:
    """Bring back the rule list before the last replacement."""
    from ensemble_deid.training.rule_replacement import restore_rules

    change, n_rules = restore_rules(options.model, remark=options.remark)
    rules = counted(n_rules, "rule")
    say(f"{options.model} has the {rules} again that it had before change {change}; this change is on record")
    return 0
