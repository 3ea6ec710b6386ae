"""Line labels and sections, and that odd lines do not take for ever."""

import pytest
from bounded_work import no_hang

from ensemble_deid.features.columns import line_labels
from ensemble_deid.note.document import Document
from ensemble_deid.note.tokens import tokenize


def read(text: str) -> list[tuple[str, str, str, str]]:
    documents = [Document("a", text)]
    tokens = tokenize(documents)
    return list(zip(tokens.words(documents), *line_labels(documents, tokens), strict=True))


def test_labels_of_a_line() -> None:
    assert read("Name: Ann Date of birth: 5") == [
        ("Name", "-", "-", "-"),
        (":", "-", "-", "-"),
        ("Ann", "name", "name", "-"),
        ("Date", "name", "name", "-"),
        ("of", "name", "name", "-"),
        ("birth", "name", "name", "-"),
        (":", "name", "name", "-"),
        ("5", "name", "ann date of birth", "-"),
    ]


def test_a_section_lasts_to_the_next_heading_and_ends_with_the_note() -> None:
    text = "before\nHistory:\nseen\nPLAN & GOALS\nrest"
    assert [row[3] for row in read(text)] == ["-", "history", "history", "history", *["plan & goals"] * 4]
    documents = [Document("a", "PLAN\nrest"), Document("b", "other")]
    tokens = tokenize(documents)
    assert line_labels(documents, tokens)[2] == ["plan", "plan", "-"]


@pytest.mark.parametrize("line", ["one two three four five six seven:", "Name:", "a.b: c"])
def test_labels_are_one_to_four_words(line: str) -> None:
    labels = {row[2] for row in read(f"{line} x")} - {"-"}
    assert all(1 <= len(label.replace(".", " ").split()) <= 4 for label in labels)
    assert labels


@pytest.mark.parametrize("line", ["a" * 200_000, "word" + " " * 200_000 + "5", "a " * 100_000, "a." * 100_000])
def test_long_lines_do_not_hang(line: str) -> None:
    documents = [Document("a", line)]
    tokens = tokenize(documents)
    with no_hang():
        line_labels(documents, tokens)
