"""Who approved or rejected which rules of a model's list, and when.

A model keeps approvals in a file of its own, which the manifest hashes like any other: for the SHA-256 of a rule list,
the approvals of its rules. A list that is changed in any way has another hash, and so no approvals; one that comes back
(`rules restore`) has its own again.
"""

import json
import re
from dataclasses import asdict, dataclass
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any

from ensemble_deid.errors import ModelError, RuleError
from ensemble_deid.model.directory import update_model
from ensemble_deid.model.manifest import Manifest, read_manifest
from ensemble_deid.parsing import strict_json
from ensemble_deid.taggers.tbed.rulelist import RuleList
from ensemble_deid.taggers.tbed.tagger import RULES

FILE = "rule_approvals.json"
# The line of a list's header that `rules show` adds for a list with approvals.
APPROVED_KEY = "approved"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Approval:
    """One person's approval, or rejection, of the rule of a number (from 1); `date` is ISO, such as 2026-03-02."""

    rule: int
    by: str
    date: str
    rejected: bool = False


@dataclass(frozen=True, slots=True)
class RuleApprovals:
    """The approvals of one rule list, by rule, then by name; `sha256` is that of the list's text."""

    sha256: str
    n_rules: int
    approvals: tuple[Approval, ...]

    @property
    def approved(self) -> frozenset[int]:
        """The numbers of the rules that someone approved and no one rejected."""
        return frozenset(approval.rule for approval in self.approvals) - self.rejected

    @property
    def rejected(self) -> frozenset[int]:
        return frozenset(approval.rule for approval in self.approvals if approval.rejected)

    def of_rule(self, number: int) -> tuple[Approval, ...]:
        return tuple(approval for approval in self.approvals if approval.rule == number)

    def summary(self) -> str:
        """Return one line: how many rules are approved, and which are approved or rejected by whom, on which day."""
        parts = [
            f"{'rejected ' * rejected}{number_ranges(numbers)} by {by} on {day}"
            for (rejected, day, by), numbers in self.by_person().items()
        ]
        return f"{len(self.approved)} of {self.n_rules} rules" + (f": {'; '.join(parts)}" if parts else "")

    def by_person(self) -> dict[tuple[bool, str, str], list[int]]:
        """Return the numbers of the rules by rejection, day and person: approvals first, in order of the days."""

        def key(one: Approval) -> tuple[bool, str, str]:
            return one.rejected, one.date, one.by

        ordered = sorted(self.approvals, key=lambda one: (key(one), one.rule))
        return {person: [one.rule for one in group] for person, group in groupby(ordered, key=key)}


def rule_approvals(model: Path) -> RuleApprovals:
    """Return the approvals of the list that a model has now. Raises ModelError for a damaged model, or none."""
    manifest = read_manifest(model)
    sha256 = manifest.files.get(RULES)
    if sha256 is None:
        raise ModelError(f"{model}: the model has no rule list: it was trained without tbed")
    approvals = _read(model, manifest).get(sha256, [])
    n_rules = len(RuleList.load(model / RULES))
    if any(not 1 <= approval.rule <= n_rules for approval in approvals):
        raise ModelError(f"{model / FILE}: damaged: it approves a rule that the list does not have")
    return RuleApprovals(sha256, n_rules, tuple(approvals))


def approve_rules(
    model: Path, *, by: str, on: str, rules: list[int] | None = None, reject: bool = False
) -> RuleApprovals:
    """Store one person's approval, or rejection, of some rules (None: all); return all decisions on the list.

    `on` is the day, as YYYY-MM-DD. A person's later decision replaces the earlier one. Raises RuleError for a number
    that is not a rule, an empty or unprintable name, or an invalid day; else as `rule_approvals`.
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
    approvals = sorted({*kept, *(Approval(number, name, on, reject) for number in numbers)})

    def edit(directory: Path, manifest: Manifest) -> Manifest:
        stored = {**_read(directory, manifest), now.sha256: approvals}
        content = {sha256: [asdict(approval) for approval in stored[sha256]] for sha256 in sorted(stored)}
        (directory / FILE).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return manifest

    update_model(model, edit)
    return rule_approvals(model)


def _read(directory: Path, manifest: Manifest) -> dict[str, list[Approval]]:
    """Return the approvals of every list that the model had, by the list's hash."""
    if FILE not in manifest.files:
        return {}
    try:
        content: dict[str, Any] = strict_json((directory / FILE).read_text(encoding="utf-8"))
        stored = {
            sha256: sorted(
                Approval(int(one["rule"]), str(one["by"]), str(one["date"]), one.get("rejected", False) is not False)
                for one in approvals
            )
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
