"""Rules in words: every column, every value that its column has, and docs/rules.md's table of them."""

import re
from pathlib import Path

import pytest
from tiny_notes import PATTERNS, tiny_batch, tiny_notes

from ensemble_deid.features.batch import plain_batch, with_lexicon
from ensemble_deid.features.knowledge import PREFIX, read_knowledge
from ensemble_deid.features.lexicon import learn_lexicon
from ensemble_deid.features.stanza_tags import COLUMNS as STANZA_COLUMNS
from ensemble_deid.features.windows import Window
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.resources import rules_directory
from ensemble_deid.taggers.tbed.rule_text import parse_rule
from ensemble_deid.taggers.tbed.rule_words import _CLAUSES, rule_in_words
from ensemble_deid.taggers.tbed.templates import TAG_COLUMN, Condition, Rule

PAGE = Path(__file__).parents[1] / "docs" / "rules.md"
KNOWLEDGE = read_knowledge(rules_directory() / "knowledge" / "en")
KNOWLEDGE_COLUMNS = {PREFIX + name for name in (*KNOWLEDGE.words, *KNOWLEDGE.phrases)}
ALL_COLUMNS = {*tiny_batch(tiny_notes(2)).table.names, *KNOWLEDGE_COLUMNS, *STANZA_COLUMNS, TAG_COLUMN}


def words(line: str) -> str:
    return rule_in_words(parse_rule(line))


def clause(column: str, value: str, first: int = 0, last: int | None = None) -> str:
    rule = Rule("O", "B-X", (Condition(Window(column, first, first if last is None else last), value),))
    said, action = rule_in_words(rule).rsplit(": ", 1)
    assert action == "tag the untagged word as the beginning of a X"
    return said.removeprefix("where ")


def test_a_rule_is_one_sentence() -> None:
    assert words('change O to B-DOCTOR if the lower 1 before is "dr" and the short_shape is "Xx"') == (
        "where the word before is 'dr' and the word has the shape Xx (capitals, then small letters): "
        "tag the untagged word as the beginning of a DOCTOR"
    )
    line = 'change B-AGE to O if the word is "y" and the tag 1 after is "O" and the digits 2 before is "day"'
    assert words(line) == (
        "where the word is exactly 'y', the word after has no tag and the second word before is a number of one or "
        "two digits, at most 31: take the tag away from the word, which is tagged as the beginning of an AGE"
    )
    assert words('change I-IDNUM to I-USERNAME if the tag 1 before is "B-IDNUM"') == (
        "where the word before is tagged as the beginning of an IDNUM: "
        "tag the word as the continuation of a USERNAME, no longer as the continuation of an IDNUM"
    )


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0, 0, "the word"),
        (-4, -4, "the fourth word before"),
        (3, 3, "the third word after"),
        (-3, -1, "at least one of the three words before"),
        (1, 2, "at least one of the two words after"),
        (-1, 0, "at least one word from the word before to the word itself"),
        (-2, 1, "at least one word from the second word before to the word after"),
        (2, 4, "at least one word from the second word after to the fourth word after"),
    ],
)
def test_it_says_which_word_is_looked_at(first: int, last: int, expected: str) -> None:
    assert clause("lower", "dr", first, last) == f"{expected} is 'dr'"
    assert clause("pattern", "date", first, last) == f"the first pattern that matches {expected} is 'date'"


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("word", "O'Hara", 'the word is exactly "O\'Hara"'),
        ("word", '"\u00a0', "the word is exactly '\"\\u{a0}'"),
        (
            "shape",
            "Xxxxd-",
            "the word has the shape 'Xxxxd-' (1 capital, then 3 small letters, then 1 digit, then '-')",
        ),
        ("shape", "....", "the word has the shape '....' (4 times '.')"),
        ("short_shape", "X", "the word has the shape X (capitals)"),
        ("length", "1", "the word has 1 character"),
        ("length", "10+", "the word has 10 or more characters"),
        ("digits", "digits5", "the word is a number of 5 digits"),
        ("digits", "year", "the word is a year from 1900 to 2199"),
        ("case", "title", "the word is a capital followed by small letters"),
        ("prefix3", "han", "the word begins with 'han'"),
        ("prefix3", "ha", "the word is 'ha'"),
        ("suffix2", "on", "the word ends with 'on'"),
        ("position_in_line", "0", "the word is the first of its line"),
        ("position_in_line", "4-5", "the word has 4 to 5 words before it in its line"),
        ("sentence_length", "40+", "the word is in a sentence of 40 or more words"),
        ("spaced", "glued", "the word follows the word before it without white space"),
        ("line_prefix", "name", "the word comes after the label 'name', the first of its line"),
        ("field", "pt", "the nearest label before the word in its line, or its heading in a table, is 'pt'"),
        (
            "field",
            "-",
            "no label such as 'Name:' comes before the word in its line, and it is under no heading of a table",
        ),
        ("section", "plan", "the word is in the section 'plan'"),
        ("initial", "B-DATE", "the patterns tag the word as the beginning of a DATE"),
        ("initial", "O", "the patterns do not tag the word"),
        ("pattern", "-", "no pattern matches the word"),
        ("in_note", "CITY", "the patterns tag the word as CITY more often in this note than as anything else"),
        ("lexicon", "I-DOCTOR", "the word continues a phrase that the training notes annotate as DOCTOR"),
        ("known_word", "DATE:4", "the training notes annotate the word as DATE every time"),
        ("known_word", "DATE:0", "the training notes annotate the word as DATE less than every fourth time"),
        ("known_word", "-", "the training notes never annotate the word"),
        ("pos", "PROPN", "the part of speech of the word is 'PROPN'"),
        ("ner", "-", "stanza gives the word no entity tag"),
        ("tag", "NN", "the word is tagged as 'NN'"),
        # What is not foreseen is named as it is.
        ("colour", "red", "the column colour of the word is 'red'"),
        ("case", "odd", "the column case of the word is 'odd'"),
        ("known_word", "odd", "the column known_word of the word is 'odd'"),
        ("lexicon", "odd", "the column lexicon of the word is 'odd'"),
        ("length", "many", "the column length of the word is 'many'"),
        ("digits", "many", "the column digits of the word is 'many'"),
    ],
)
def test_each_column_has_its_words(column: str, value: str, expected: str) -> None:
    assert clause(column, value) == expected


def test_no_column_of_the_table_is_without_words() -> None:
    assert set(_CLAUSES) == ALL_COLUMNS


def test_every_value_that_notes_have_is_foreseen() -> None:
    """Values of real columns; those of stanza need its models."""
    text = "NAME: Ann O'Neil-Lee, a 4 / 31 / 2019 12345678901 Dr. X smith iPad q.d. ½ \u00e9\u4e2d aa bb cc dd\n" * 3
    notes = [
        *tiny_notes(12),
        Document("x", text, (Span(6, 9, "NAME"),)),
        Document("y", "ann and Ann\n\nPLAN\n" + "a " * 60),
    ]
    batch = plain_batch(notes, patterns=PATTERNS, split_lines=True, knowledge=KNOWLEDGE)
    lexicon = learn_lexicon(batch.documents, batch.tokens, batch.table["lower"].strings())
    table = with_lexicon(batch, lexicon, leave_own_patient_out=False).table
    for name in table.names:
        values = set(table[name].strings())
        assert values
        for value in values:
            assert "column" not in clause(name, value), (name, value)


def test_the_page_has_a_row_for_every_column_and_no_other() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## The columns")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*`) \| [^|]+ \|$", table, re.MULTILINE)
    named = [name for names in rows for name in re.findall(r"`([a-z_0-9]+)`", names)]
    assert set(named) == ALL_COLUMNS, f"no row, or no column, for {sorted(ALL_COLUMNS ^ set(named))}"
