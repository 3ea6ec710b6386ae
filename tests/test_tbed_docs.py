"""What docs/rules.md shows is so."""

import re
import tomllib
from pathlib import Path

from ensemble_deid.features.pattern_text import failed_examples
from ensemble_deid.features.patterns import parse_patterns
from ensemble_deid.features.shared_words import inline_word_lists
from ensemble_deid.taggers.tbed import RuleList, parse_templates
from ensemble_deid.taggers.tbed.rule_text import parse_rule, write_rule

ROOT = Path(__file__).parents[1]
RULES = ROOT / "rules"
PAGE = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_rule_list_is_one():
    (text,) = blocks("text")
    assert RuleList.parse(text).text() == text


def test_the_rule_read_aloud_is_one():
    (line,) = re.findall(r"^    (change .*)$", PAGE, re.MULTILINE)
    assert write_rule(parse_rule(line)) == line


def test_the_templates_are_read():
    text, *_ = blocks("toml")
    assert len(parse_templates(tomllib.loads(text)["templates"])) == 4


def test_the_pattern_file_is_read_and_keeps_its_examples():
    _, text, _ = blocks("toml")
    patterns = parse_patterns(inline_word_lists(text, RULES / "patterns" / "shown.toml"))
    assert [failed_examples(pattern) for pattern in patterns.patterns] == [[]]
