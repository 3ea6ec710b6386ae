"""Rule lists as text: read aloud, any token survives, mistakes are reported with their place."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.errors import RuleError
from ensemble_deid.taggers.tbed import Condition, Rule, RuleList, Window
from ensemble_deid.taggers.tbed.rule_text import parse_rule, write_rule

HEADER = {"corpus": "demo", "templates": "default", "initial tagger": "regex"}
TOP = """ensemble-deid rule list, version 1
corpus: "demo"
templates: "default"
initial tagger: "regex"
"""

tokens = st.text(st.characters(), max_size=6)
windows = st.builds(
    lambda column, ends: Window(column, min(ends), max(ends)),
    st.sampled_from(["word", "tag", "short_shape", "is", "año", "x.y-z"]),
    st.tuples(st.integers(-4, 4), st.integers(-4, 4)),
)
rules = st.builds(
    Rule,
    tokens.map(lambda tag: f"a{tag}"),
    tokens.map(lambda tag: f"b{tag}"),
    st.lists(st.builds(Condition, windows, tokens), min_size=1, max_size=4).map(tuple),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
)


def test_a_rule_reads_as_a_sentence():
    conditions = (
        Condition(Window("lower", -1, -1), "dr"),
        Condition(Window("shape", 0, 0), "Xxxx"),
        Condition(Window("tag", 2, 2), "O"),
        Condition(Window("word", -3, -1), "on"),
        Condition(Window("word", -1, 0), "of"),
    )
    assert write_rule(Rule("O", "B-DOCTOR", conditions, 120, 3)) == (
        'change O to B-DOCTOR if the lower 1 before is "dr" and the shape is "Xxxx" and the tag 2 after is "O"'
        ' and any word from 3 before to 1 before is "on" and any word from 1 before to here is "of"'
        " (fixed 120, broken 3)"
    )


@settings(max_examples=120)
@given(st.lists(rules, max_size=5), st.dictionaries(st.sampled_from(["seed", "learned on"]), tokens))
def test_any_list_comes_back_and_its_text_byte_for_byte(some, more):
    rule_list = RuleList(tuple(some), HEADER | more)
    text = rule_list.text()
    data = text.encode("utf-8")
    assert len(text.split("\n")) == 1 + len(rule_list.header) + 1 + len(some) + 1
    assert RuleList.parse(data.decode("utf-8")) == rule_list
    assert RuleList.parse(text).text().encode("utf-8") == data


def test_characters_that_cannot_be_seen_are_written_out():
    value = 'a"\\\n\t\r\u00a0\u200f\u2028\ud83d\ude00 = é'
    line = write_rule(Rule("O", "B", (Condition(Window("word", 0, 0), value),)))
    assert r'"a\"\\\u{a}\u{9}\u{d}\u{a0}\u{200f}\u{2028}\u{d83d}\u{de00} = é"' in line
    assert parse_rule(line).conditions[0].value == value


def test_files_and_remarks_survive(tmp_path):
    path = tmp_path / "list.rules"
    text = (
        TOP + "\n# Approved by the privacy office.\n"
        'change O to B if the word is "Ada" (fixed 2, broken 0)\n\n# The next one is too broad?\n'
        'change B to O if any word from 1 after to 2 after is "Lab" (fixed 3, broken 1)\n# end\n'
    )
    path.write_bytes(text.encode())
    loaded = RuleList.load(path)
    assert len(loaded) == 2
    assert [rule.score for rule in loaded] == [2, 2]
    loaded.save(path)
    assert path.read_bytes() == text.encode()
    assert loaded.with_rules(loaded.rules[:1]).text() == TOP + "\n" + text.split("\n")[6] + "\n"


def test_a_hand_made_rule_may_leave_out_its_counts_and_be_spaced_freely():
    rule = parse_rule('  change "O"  to B if the word   is "x"and the tag 1 before is "O" ')
    assert write_rule(rule) == 'change O to B if the word is "x" and the tag 1 before is "O" (fixed 0, broken 0)'


@pytest.mark.parametrize(
    ("line", "column", "expected"),
    [
        ('chance O to B if the word is "x"', 1, "'change'"),
        ('change O B if the word is "x"', 10, "'to'"),
        ("change O to B", 14, "'if'"),
        ("change O to ! if", 13, "a tag"),
        ('change O to B if word is "x"', 18, "'the' or 'any'"),
        ('change O to B if the word 5 before is "x"', 27, "a distance from 1 to 4"),
        ('change O to B if the word 1 below is "x"', 29, "'before' or 'after'"),
        ('change O to B if any word from 1 after to here is "x"', 18, "a window that ends after it begins"),
        ("change O to B if the word is x", 30, "a value in double quotes"),
        ('change O to B if the word is "x', 32, "the closing quote"),
        (r'change O to B if the word is "\n"', 31, "the closing quote"),
        (r'change O to B if the word is "\u{110000}"', 31, "a character number"),
        ('change O to B if the word is "x" or', 34, "the end of the line"),
        ('change O to B if the word is "x" (fixed many', 41, "a number"),
        (f'change O to B if the word is "x" (fixed {"9" * 5000}', 59, "','"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_column(tmp_path, line, column, expected):
    path = tmp_path / "list.rules"
    path.write_text(f"{TOP}\n{line}\n", encoding="utf-8")
    with pytest.raises(RuleError) as caught:
        RuleList.load(path)
    assert str(caught.value).startswith(f"{path}:6:{column}: expected {expected}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rules:1:1: expected 'ensemble-deid rule list, version 1'"),
        (f"ensemble-deid rule list, version {'9' * 5000}\n", "rules:1:1: expected 'ensemble-deid rule list"),
        ("ensemble-deid rule list, version 2\n", "rules:1:34: this program reads version 1"),
        ('ensemble-deid rule list, version 1\ncorpus: "x"\n', "does not say 'templates'"),
        (TOP + 'corpus: "again"\n', "rules:5:1: the header says 'corpus' twice"),
        (TOP.replace('"demo"', "demo"), "rules:2:9: expected a value in double quotes"),
        (TOP + 'change O to O if the word is "x"\n', "rules:5:1: a rule must change the tag"),
    ],
)
def test_mistakes_in_the_frame_are_told(text, message):
    with pytest.raises(RuleError, match=message.replace("(", r"\(")):
        RuleList.parse(text)


def test_errors_and_reprs_quote_no_text_of_notes(tmp_path):
    rule = Rule("O", "B", (Condition(Window("word", 0, 0), "Ada Lovelace"),))
    assert "Lovelace" not in repr(rule)
    assert "Lovelace" not in repr(RuleList((rule,), HEADER, {0: ("# Ada Lovelace",)}))
    with pytest.raises(RuleError) as caught:
        parse_rule('change O to B if the word is "Ada Lovelace" Lovelace')
    assert "Lovelace" not in str(caught.value)


def test_files_that_cannot_be_read_are_rule_errors(tmp_path):
    with pytest.raises(RuleError, match="no such file"):
        RuleList.load(tmp_path / "none.rules")
    path = tmp_path / "latin.rules"
    path.write_bytes(b"ensemble-deid rule list, version 1\n\xff")
    with pytest.raises(RuleError, match="byte 35 is not UTF-8"):
        RuleList.load(path)


def test_a_header_must_say_where_the_rules_come_from():
    with pytest.raises(RuleError, match="must say 'templates'"):
        RuleList((), {"corpus": "demo", "initial tagger": "regex"})
    with pytest.raises(RuleError, match="words of small letters"):
        RuleList((), HEADER | {"Approved By": "x"})


def test_a_condition_reaches_four_tokens_at_most():
    assert Condition(Window("word", -4, 4), "x").window.offsets == range(-4, 5)
    for first, last in ((-5, 0), (1, 5)):
        with pytest.raises(RuleError, match="reaches beyond offsets -4 to 4"):
            Condition(Window("word", first, last), "x")
