"""The committed rule list is the one that `rules learn` learns from the demo corpus, byte for byte."""

import pytest

from ensemble_deid.config import Config
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.resources import rules_directory
from ensemble_deid.taggers.tbed.rulelist import RuleList
from ensemble_deid.training.rule_learning import learn_rule_list


@pytest.mark.long
def test_the_demo_corpus_teaches_the_committed_rules() -> None:
    path = rules_directory() / "learned" / "demo.rules"
    train, dev = (read_corpus(name).documents for name in ("demo:train", "demo:dev"))
    learned = learn_rule_list(train, dev, config=Config(), notify=lambda sentence: None)
    # After a change of notes, features, templates or limits: ensemble-deid rules learn demo:train --dev demo:dev
    # --start rules/patterns/en-i2b2.toml --out rules/learned/demo.rules.
    assert learned.rules.text() == path.read_bytes().decode()
    assert RuleList.load(path).text() == learned.rules.text()
