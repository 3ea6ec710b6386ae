"""Putting a reviewed rule list into a model, which keeps a record of it."""

import hashlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

from ensemble_deid.experiments.rules import RuleModel
from ensemble_deid.pipeline.directory import update_model
from ensemble_deid.pipeline.manifest import Manifest
from ensemble_deid.taggers.tbed.rulelist import RuleList
from ensemble_deid.taggers.tbed.tagger import CONFIDENCE, RULES


def replace_rules(model: Path, rules: RuleList, *, name: str = "rules", remark: str = "") -> tuple[int, int]:
    """Put a reviewed rule list into a model, which records it; return how many rules were kept and how many are new.

    Raises ModelError for the model, and RuleError for rules that do not fit it (see `RuleModel.with_rules`).
    """
    before = RuleModel.load(model)
    tagger = before.with_rules(rules, name=name).tagger
    # A list may say a rule twice: as counters, each copy is kept once.
    kept = (Counter(rule.identity for rule in before.rules) & Counter(rule.identity for rule in rules)).total()
    text = rules.text()

    def edit(directory: Path, manifest: Manifest) -> Manifest:
        record = {
            "before": hashlib.sha256((directory / RULES).read_bytes()).hexdigest(),
            "after": hashlib.sha256(text.encode()).hexdigest(),
            "rules": str(len(rules)),
            "remark": remark,
        }
        (directory / RULES).write_bytes(text.encode())
        (directory / CONFIDENCE).write_text(tagger.confidence.to_json(), encoding="utf-8")
        return replace(manifest, rules_replaced=(*manifest.rules_replaced, record))

    update_model(model, edit)
    return kept, len(rules) - kept
