"""Changes of a model's rule list that people make: approving rules, putting a reviewed list in, taking it out again.

A model keeps approvals in a file of its own, which the manifest hashes like any other: for the SHA-256 of a rule list,
who approved which of its rules, and when. A list that is changed in any way has another hash, and so no approvals; one
that comes back (`rules restore`) has its own again.

The model keeps every list that it had. The manifest's `rules_replaced` has one record a change, in order: the SHA-256
of the list before and after, the number of rules, a remark, with `approved_only` which rules of the list before were
kept as approved, and in `kept` the file of the list before (`tbed.1.rules` for the first change) among the private
files. A record with `restored` is a change back, and says the number of the change that it undid.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any

from ensemble_deid.errors import ModelError, RuleError
from ensemble_deid.model.directory import update_model
from ensemble_deid.model.manifest import Manifest, file_hashes, read_manifest
from ensemble_deid.model.private import FOLDER as PRIVATE
from ensemble_deid.model.private import has_private_file, private_files
from ensemble_deid.parsing import strict_json
from ensemble_deid.taggers.tbed.rulelist import RuleList
from ensemble_deid.taggers.tbed.tagger import CONFIDENCE, RULES
from ensemble_deid.training.rules import RuleModel

FILE = "rule_approvals.json"
# The line of a list's header that `rules show` adds for a list with approvals.
APPROVED_KEY = "approved"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Approval:
    """One person's approval of the rule of a number (from 1); `date` is ISO, such as 2026-03-02."""

    rule: int
    by: str
    date: str


@dataclass(frozen=True, slots=True)
class RuleApprovals:
    """The approvals of one rule list, by rule, then by name; `sha256` is that of the list's text."""

    sha256: str
    n_rules: int
    approvals: tuple[Approval, ...]

    @property
    def approved(self) -> frozenset[int]:
        """The numbers of the rules that somebody approved."""
        return frozenset(approval.rule for approval in self.approvals)

    def of_rule(self, number: int) -> tuple[Approval, ...]:
        """Return the approvals of one rule."""
        return tuple(approval for approval in self.approvals if approval.rule == number)

    def summary(self) -> str:
        """Return one line: how many rules are approved, and which of them by whom, on which day."""
        ordered = sorted(self.approvals, key=lambda approval: (approval.date, approval.by, approval.rule))
        parts = [
            f"{number_ranges([approval.rule for approval in group])} by {by} on {day}"
            for (day, by), group in groupby(ordered, key=lambda approval: (approval.date, approval.by))
        ]
        return f"{len(self.approved)} of {self.n_rules} rules" + (f": {'; '.join(parts)}" if parts else "")


def rule_approvals(model: Path) -> RuleApprovals:
    """Return the approvals of the rule list that a model has now.

    Raises ModelError for a damaged model, and for one without a rule list.
    """
    manifest = read_manifest(model)
    return _current(model, manifest, _read(model, manifest))


def approve_rules(model: Path, *, by: str, on: str, rules: list[int] | None = None) -> RuleApprovals:
    """Store one person's approval of some rules (None: all) of a model's list; return all approvals of the list.

    `on` is the day, as YYYY-MM-DD. Who approves a rule again has the later call's day. Raises RuleError for a number
    that is no rule of the list, a name that is empty or cannot be printed, or a day that is none; else as
    `rule_approvals`.
    """
    name = by.strip()
    if not name or not name.isprintable():
        raise RuleError("an approval needs the name of who gives it")
    _check_day(on)
    now = rule_approvals(model)
    numbers = range(1, now.n_rules + 1) if rules is None else rules
    for number in numbers:
        if not 1 <= number <= now.n_rules:
            raise RuleError(f"there is no rule {number}: the list has {now.n_rules}")
    kept = [approval for approval in now.approvals if approval.by != name or approval.rule not in set(numbers)]
    approvals = sorted({*kept, *(Approval(number, name, on) for number in numbers)})

    def edit(directory: Path, manifest: Manifest) -> Manifest:
        stored = {**_read(directory, manifest), now.sha256: approvals}
        content = {sha256: [asdict(approval) for approval in stored[sha256]] for sha256 in sorted(stored)}
        (directory / FILE).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return manifest

    update_model(model, edit)
    return rule_approvals(model)


def _current(model: Path, manifest: Manifest, stored: dict[str, list[Approval]]) -> RuleApprovals:
    sha256 = manifest.files.get(RULES)
    if sha256 is None:
        raise ModelError(f"{model}: the model has no rule list: it was trained without tbed")
    n_rules = len(RuleList.load(model / RULES))
    approvals = stored.get(sha256, [])
    if any(not 1 <= approval.rule <= n_rules for approval in approvals):
        raise ModelError(f"{model / FILE}: damaged: it approves a rule that the list does not have")
    return RuleApprovals(sha256, n_rules, tuple(approvals))


def _read(directory: Path, manifest: Manifest) -> dict[str, list[Approval]]:
    """Return the approvals of every list that the model had, by the list's hash."""
    if FILE not in manifest.files:
        return {}
    try:
        content: dict[str, Any] = strict_json((directory / FILE).read_text(encoding="utf-8"))
        stored = {
            sha256: sorted(Approval(int(one["rule"]), str(one["by"]), str(one["date"])) for one in approvals)
            for sha256, approvals in content.items()
        }
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelError(f"{directory / FILE}: damaged ({type(error).__name__})") from None
    return stored


def _check_day(day: str) -> None:
    try:
        if _DATE.fullmatch(day) is None:
            raise ValueError(day)
        date.fromisoformat(day)
    except ValueError:
        raise RuleError(f"{day!r}: expected a date as YYYY-MM-DD") from None


def number_ranges(numbers: list[int]) -> str:
    """Return rising numbers with runs shortened: 1-3, 5."""
    parts = []
    for _, run in groupby(enumerate(numbers), key=lambda item: item[1] - item[0]):
        members = [number for _, number in run]
        parts.append(str(members[0]) if len(members) == 1 else f"{members[0]}-{members[-1]}")
    return ", ".join(parts)


APPROVED_ONLY = "approved_only"
# The list itself, and the confidence of its rules.
_FILES = (RULES, CONFIDENCE)


def replace_rules(model: Path, rules: RuleList, *, name: str = "rules", remark: str = "") -> tuple[int, int]:
    """Put a reviewed rule list into a model, which keeps the old one; return how many rules were kept and are new.

    What its header says of approvals is left out: a model keeps those itself, for each list (`approve_rules`).
    Raises ModelError for the model, and RuleError for rules that do not fit it (see `RuleModel.with_rules`).
    """
    return _put(model, rules, remark, {}, name=name)


def _put(
    model: Path, rules: RuleList, remark: str, record: Mapping[str, str], *, name: str = "rules"
) -> tuple[int, int]:
    before = RuleModel.load(model)
    rules = replace(rules, header={key: value for key, value in rules.header.items() if key != APPROVED_KEY})
    tagger = before.with_rules(rules, name=name).tagger
    # A list may say a rule twice: as counters, each copy is kept once.
    kept = (Counter(rule.identity for rule in before.rules) & Counter(rule.identity for rule in rules)).total()
    contents = (rules.text(), tagger.confidence.to_json())
    _change(model, [text.encode() for text in contents], {"rules": str(len(rules)), "remark": remark, **record})
    return kept, len(rules) - kept


def keep_approved_rules(model: Path, *, remark: str = "") -> str:
    """Leave only the rules in a model whose approval is on file, with their approvals; return which they were.

    The record of the change has their numbers in the list before, too. Raises RuleError where none is approved.
    """
    before, rules = rule_approvals(model), RuleModel.load(model).rules
    kept = sorted(before.approved)
    if not kept:
        raise RuleError(f"{model}: no rule is approved: rules approve MODEL --rule N --by NAME")
    in_force = f"{number_ranges(kept)} of {len(rules)}"
    _put(model, rules.with_rules([rules.rules[number - 1] for number in kept]), remark, {APPROVED_ONLY: in_force})
    number = {old: new for new, old in enumerate(kept, 1)}
    given: dict[tuple[str, str], list[int]] = {}
    for approval in before.approvals:
        given.setdefault((approval.by, approval.date), []).append(number[approval.rule])
    for (by, on), numbers in given.items():
        approve_rules(model, by=by, on=on, rules=numbers)
    return in_force


def rules_in_force(manifest: Manifest) -> str | None:
    """Return which rules of the list before are in force where only approved ones are, else None."""
    last = manifest.rules_replaced[-1] if manifest.rules_replaced else {}
    return last.get(APPROVED_ONLY)


def restore_rules(model: Path, *, remark: str = "") -> tuple[int, int]:
    """Undo the last replacement that is not undone yet; return its number (from 1) and how many rules there are now.

    The list and the confidence of its rules are the same bytes as before that replacement. Raises ModelError where
    there is none, or where the model does not hold the list.
    """
    manifest = read_manifest(model)
    change = _last_replacement(manifest)
    if change is None:
        raise ModelError(f"{model}: the rule list is the one of training: there is nothing to restore")
    names = [_kept_name(change, name) for name in _FILES]
    if not all(has_private_file(model, name) for name in names):
        raise ModelError(f"{model}: the rule list before change {change} was not kept")
    folder = private_files(model, *names, purpose="restoring")
    rules = RuleList.load(folder / names[0])
    contents = [(folder / name).read_bytes() for name in names]
    _change(model, contents, {"rules": str(len(rules)), "remark": remark, "restored": str(change)})
    return change, len(rules)


def has_trained_rules(model: Path) -> bool:
    """Whether a model's rule list is the one that training learned. Raises ModelError for a damaged model."""
    manifest = read_manifest(model)
    return not manifest.rules_replaced or manifest.rules_replaced[0]["before"] == manifest.files.get(RULES)


def _change(model: Path, contents: Sequence[bytes], record: dict[str, str]) -> None:
    """Write a new list with its confidences, keep the old ones beside it, and add the record."""

    def edit(directory: Path, manifest: Manifest) -> Manifest:
        number = len(manifest.rules_replaced) + 1
        before = file_hashes(directory)[RULES]
        (directory / PRIVATE).mkdir(exist_ok=True)
        for name, content in zip(_FILES, contents, strict=True):
            (directory / name).rename(directory / PRIVATE / _kept_name(number, name))
            (directory / name).write_bytes(content)
        hashes = {"before": before, "after": file_hashes(directory)[RULES], "kept": _kept_name(number, RULES)}
        return replace(manifest, rules_replaced=(*manifest.rules_replaced, {**hashes, **record}))

    update_model(model, edit)


def _kept_name(number: int, name: str) -> str:
    """Return where the model keeps a file as it was before change `number`: `tbed.rules` in `tbed.1.rules`."""
    stem, _, suffix = name.partition(".")
    return f"{stem}.{number}.{suffix}"


def _last_replacement(manifest: Manifest) -> int | None:
    """Return the number of the last replacement that no later record undid."""
    undone = {record["restored"] for record in manifest.rules_replaced if "restored" in record}
    standing = [
        number
        for number, record in enumerate(manifest.rules_replaced, 1)
        if "restored" not in record and str(number) not in undone
    ]
    return standing[-1] if standing else None
