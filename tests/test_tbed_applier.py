"""Rules applied to batches: who fires where, in columns or strings."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from ensemble_deid.errors import RuleError
from ensemble_deid.features.table import Column
from ensemble_deid.taggers.tbed import Condition, Rule, RuleApplier, Window

WORDS = ["Dr", "Ada", "met", "Dr", "Bob", ".", "Dr", ".", "Ada"]
STARTS = [0, 6, 8]
FIRST = Rule("O", "B", (Condition(Window("word", -1, -1), "Dr"),))
SECOND = Rule("B", "O", (Condition(Window("word", 0, 0), "."),))
THIRD = Rule("O", "I", (Condition(Window("tag", -2, 1), "B"), Condition(Window("word", 0, 0), "Dr")))


def tags_after(rules: Sequence[Rule], columns: Mapping[str, Sequence[str]], initial: Sequence[str]) -> list[str]:
    return RuleApplier(rules).apply(columns, initial, STARTS).strings()


def test_the_rules_that_fire_are_told_with_their_tokens():
    firings = RuleApplier([FIRST, SECOND, THIRD]).firings({"word": WORDS}, ["O"] * 9, STARTS)
    assert [(f.rule, f.tokens.tolist()) for f in firings] == [(0, [1, 4, 7]), (1, [7]), (2, [0, 3])]


def test_columns_of_codes_give_a_column():
    column = Column.from_strings(WORDS)
    tags = RuleApplier([FIRST, SECOND]).apply({"word": column}, Column.from_strings(["O"] * 9), np.array(STARTS))
    assert tags.strings() == ["O", "B", "O", "O", "B", "O", "O", "O", "O"]
    assert tags.values == ("O", "B")


def test_values_and_tags_that_are_not_there_do_no_harm():
    strange = Rule("Q", "R", (Condition(Window("word", 0, 0), "never"), Condition(Window("tag", 1, 1), "S")))
    unseen = Rule("O", "R", (Condition(Window("tag", 1, 1), "S"),))
    assert tags_after([strange, unseen], {"word": WORDS}, ["O"] * 9) == ["O"] * 9


def test_more_than_255_tags_fit():
    rules = [
        Rule(f"T{i}", f"T{i + 1}", (Condition(Window("word", 0, 0), "Ada"), Condition(Window("tag", 0, 0), f"T{i}")))
        for i in range(400)
    ]
    tags = tags_after(rules, {"word": WORDS}, ["T0"] * 9)
    assert tags == ["T400" if word == "Ada" else "T0" for word in WORDS]


def test_a_missing_column_is_a_rule_error():
    with pytest.raises(RuleError, match="no feature column 'word'; there are: lower"):
        tags_after([FIRST], {"lower": WORDS}, ["O"] * 9)
