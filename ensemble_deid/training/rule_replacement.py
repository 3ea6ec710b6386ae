"""Putting a reviewed rule list into a model, and taking it out again; the model keeps every list that it had.

The manifest's `rules_replaced` has one record a change, in order: the SHA-256 of the list before and after, the number
of rules, a remark, with `approved_only` which rules of the list before were kept as approved, and in `kept` the file of
the list before (`tbed.1.rules` for the first change) among the private files. A record with `restored` is a change
back, and says the number of the change that it undid.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ensemble_deid.errors import ModelError, RuleError
from ensemble_deid.model.directory import update_model
from ensemble_deid.model.manifest import PRIVATE, Manifest, file_hashes, has_private_file, private_files, read_manifest
from ensemble_deid.taggers.tbed.rule_text import parse_rule
from ensemble_deid.taggers.tbed.rulelist import RuleList
from ensemble_deid.taggers.tbed.tagger import CONFIDENCE, RULES, TbedTagger
from ensemble_deid.training.rule_approvals import (
    APPROVED_KEY,
    RuleApprovals,
    approve_rules,
    number_ranges,
    rule_approvals,
)
from ensemble_deid.training.rules import RuleModel

APPROVED_ONLY = "approved_only"
# The list itself, and the confidence of its rules.
_FILES = (RULES, CONFIDENCE)


def replace_rules(
    model: Path, rules: RuleList, *, name: str = "rules", remark: str = "", **record: str
) -> tuple[int, int]:
    """Put a reviewed rule list into a model, which keeps the old one; return how many rules were kept and are new.

    The record of the change has the remark and the keywords of `record`. Raises ModelError for the model, and RuleError
    for rules that do not fit it (see `RuleModel.with_rules`).
    """
    before = RuleModel.load(model)
    rules = replace(rules, header={key: value for key, value in rules.header.items() if key != APPROVED_KEY})
    tagger = before.with_rules(rules, name=name).tagger
    # A list may say a rule twice: as counters, each copy is kept once.
    kept = (Counter(rule.identity for rule in before.rules) & Counter(rule.identity for rule in rules)).total()
    update_model(model, new_rules_of(tagger, remark=remark, **record))
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
    approved = rules.with_rules([rules.rules[number - 1] for number in kept])
    replace_rules(model, approved, remark=remark, **{APPROVED_ONLY: in_force})
    _carry_over(model, before, {old: new for new, old in enumerate(kept, 1)})
    return in_force


def edit_rule(model: Path, number: int, text: str, *, by: str) -> None:
    """Replace one rule; decisions about all others stay, and the new one has none.

    Raises RuleError for a text that is not a rule or does not fit the model, and for the number of no rule.
    """
    before, rules = rule_approvals(model), RuleModel.load(model).rules
    if not 1 <= number <= len(rules):
        raise RuleError(f"there is no rule {number}: the list has {len(rules)}")
    changed = list(rules)
    changed[number - 1] = parse_rule(text.strip())
    edited, remark = replace(rules, rules=tuple(changed)), f"rule {number} edited by {by}"
    replace_rules(model, edited, name="the edited list", remark=remark)
    _carry_over(model, before, {k: k for k in range(1, len(rules) + 1) if k != number})


def _carry_over(model: Path, before: RuleApprovals, number: Mapping[int, int]) -> None:
    """Copy the decisions of an old list to the new one; `number` has the new numbers of its rules."""
    for (rejected, on, by), old in before.by_person().items():
        if new := [number[rule] for rule in old if rule in number]:
            approve_rules(model, by=by, on=on, rules=new, reject=rejected)


def rules_in_force(manifest: Manifest) -> str | None:
    """Return which rules of the list before are in force where only approved ones are, else None."""
    last = manifest.rules_replaced[-1] if manifest.rules_replaced else {}
    return last.get(APPROVED_ONLY)


def restore_rules(model: Path, *, remark: str = "") -> tuple[int, int]:
    """Undo the last replacement that is not undone yet; return its number (from 1) and how many rules there are now.

    The files are the same bytes as before. Raises ModelError where there is none, or the list was not kept.
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
    record = {"rules": str(len(rules)), "remark": remark, "restored": str(change)}
    update_model(model, _changed(contents, record))
    return change, len(rules)


def has_trained_rules(model: Path) -> bool:
    """Whether a model's rule list is the one that training learned. Raises ModelError for a damaged model."""
    manifest = read_manifest(model)
    return not manifest.rules_replaced or manifest.rules_replaced[0]["before"] == manifest.files.get(RULES)


def new_rules_of(tagger: TbedTagger, *, remark: str, **record: str) -> Callable[[Path, Manifest], Manifest]:
    """Return what puts a tagger's rules into a model's folder, as `replace_rules` does, and records that."""
    contents = [text.encode() for text in (tagger.rules.text(), tagger.confidence.to_json())]
    return _changed(contents, {"rules": str(len(tagger.rules)), "remark": remark, **record})


def _changed(contents: Sequence[bytes], record: Mapping[str, str]) -> Callable[[Path, Manifest], Manifest]:
    """Return what writes a new list with its confidences, keeps the old ones beside it, and adds the record."""

    def edit(directory: Path, manifest: Manifest) -> Manifest:
        number = len(manifest.rules_replaced) + 1
        before = file_hashes(directory)[RULES]
        (directory / PRIVATE).mkdir(exist_ok=True)
        for name, content in zip(_FILES, contents, strict=True):
            (directory / name).rename(directory / PRIVATE / _kept_name(number, name))
            (directory / name).write_bytes(content)
        hashes = {"before": before, "after": file_hashes(directory)[RULES], "kept": _kept_name(number, RULES)}
        return replace(manifest, rules_replaced=(*manifest.rules_replaced, {**hashes, **record}))

    return edit


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
