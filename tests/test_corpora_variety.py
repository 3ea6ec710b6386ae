"""The figures of the data card, counted by hand, and the card itself."""

import re
from pathlib import Path

import pytest

from ensemble_deid.corpora.read import DEMO_SPLITS
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.resources import data_directory
from tools.data_card import read_kinds, render_data_card, write_data_card
from tools.variety import (
    Density,
    KindVariety,
    Overlap,
    kind_variety,
    new_name_share,
    ngram_overlap,
    phi_density,
)


def note(name: str, text: str, *names: str, kind: str = "letter") -> Document:
    spans = tuple(Span(text.index(one), text.index(one) + len(one), "PATIENT") for one in names)
    return Document(name, text, spans, patient_id=name.split("-")[0], metadata={"kind": kind})


def test_words_are_counted_by_family() -> None:
    notes = [note("1-01", "Pain, pain 3/10."), note("1-02", "ok", kind="fax"), note("2-01", "Pain OK")]
    found = kind_variety(notes, {"letter": "letters", "fax": "letters"})
    assert found == {"letters": KindVariety(notes=3, tokens=7, types=4)}
    # A kind that no family lists is counted all the same.
    assert kind_variety(notes, {"letter": "letters"})["other"] == KindVariety(notes=1, tokens=1, types=1)


def test_new_names_are_counted_by_word_and_by_string() -> None:
    train = [note("1-01", "Ada Strong", "Ada Strong")]
    test = [note("2-01", "ADA Lindqvist and STRONG, J", "ADA Lindqvist", "STRONG, J"), note("2-02", "Bo", "Bo")]
    words, strings = new_name_share(train, test)
    assert words == pytest.approx(2 / 4)
    assert strings == 1.0
    assert new_name_share(train, [note("3-01", "nobody")]) == (None, None)


def test_density_is_of_notes_that_are_long_enough() -> None:
    long = note("1-01", "Ada Strong " + "word " * 98 + "Bo " * 100, "Ada", "Strong")
    longer = note("1-02", "word " * 400 + "Ada", "Ada")
    found = phi_density([long, longer, note("1-03", "Ada", "Ada")])
    assert found == Density(2, 100 / 401, (1 + 100 / 401) / 2, 1.0)
    assert phi_density([note("1-03", "Ada", "Ada")]) is None


def test_overlap_counts_other_patients_only() -> None:
    notes = [
        note("1-01", "a b c d e"),
        note("1-02", "a b c d e"),
        note("2-01", "x B, c. D y"),
        note("3-01", "x y"),
    ]
    found = ngram_overlap(notes, length=3)
    # b-c-d stands in 1-01, 1-02 and 2-01: one of three n-grams of each; 3-01 is too short to have any.
    assert found == Overlap(share=3 / 9, highest=1 / 3, highest_note="2-01", notes_without=1)
    assert ngram_overlap([], length=3) == Overlap(0.0, 0.0, "", 0)


def test_a_kind_is_in_one_family(tmp_path: Path) -> None:
    path = tmp_path / "kinds.toml"
    path.write_text('a = ["x", "y"]\nb = ["y"]\n')
    with pytest.raises(CorpusError, match="the kind 'y' is in 'a' and in 'b'"):
        read_kinds(path)
    path.write_text("a = 1\n")
    with pytest.raises(CorpusError, match="'a' must be a list of strings"):
        read_kinds(path)


def test_the_card_is_written_from_the_corpus(tmp_path: Path) -> None:
    for number, split in enumerate(DEMO_SPLITS):
        write_corpus([note(f"{number}-01", "Dear Ada | Bo", "Ada")], tmp_path / split, "i2b2")
    (tmp_path / "kinds.toml").write_text('letters = ["letter"]\n')
    with pytest.raises(CorpusError, match=r"card_introduction\.md: cannot be read"):
        write_data_card(tmp_path)
    (tmp_path / "card_introduction.md").write_text("# Card\n")
    card = write_data_card(tmp_path).read_text()
    assert card.startswith("# Card\n\n## Composition\n")
    assert "| train | 0 | 1 | 1 | 4 | 1 | 25.0 | 4 / 4 / 4 |" in card
    assert "| PATIENT | 1 | 1 | 1 | 1 | 1 | 5 |" in card


def test_the_card_of_the_demo_corpus_is_up_to_date() -> None:
    demo = data_directory() / "demo"
    card = (demo / "CARD.md").read_text(encoding="utf-8")
    assert card == render_data_card(demo)
    version = re.search(r"^version: (\S+)$", (demo / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    assert version is not None
    assert card.splitlines()[0].endswith(f", version {version[1]}")
