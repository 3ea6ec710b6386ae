"""The sites of the demo corpus: sheets, splits, and what the data card promises of them."""

import re
from collections import Counter
from itertools import combinations

import pytest

from ensemble_deid.corpora.read import DEMO_SPLITS, Corpus, read_corpus
from ensemble_deid.resources import data_directory

DEMO = data_directory() / "demo"
DIVIDED = "E20"


@pytest.fixture(scope="module")
def splits() -> dict[str, Corpus]:
    return {split: read_corpus(f"demo:{split}") for split in DEMO_SPLITS}


def test_every_note_is_of_a_listed_site(splits: dict[str, Corpus]) -> None:
    sites = [note.site for split in splits.values() for note in split]
    listed = set(re.findall(r"^\| (E\d\d) \|", (DEMO / "sites" / "existing.md").read_text(encoding="utf-8"), re.M))
    sheets = {path.stem for path in (DEMO / "sites").glob("[RS]*.md")}
    assert set(sites) == listed | sheets
    of_eight = {site: 8 for site in sheets if site.startswith("R") and int(site[1:]) > 73}
    notes = {site: 12 if site.startswith("S") else 11 for site in sheets} | of_eight | {"R73": 120}
    assert Counter(site for site in sites if site in sheets) == notes


def test_no_site_is_in_two_splits_but_the_one_that_is_divided(splits: dict[str, Corpus]) -> None:
    sites = {split: {note.site for note in notes} for split, notes in splits.items()}
    for a, b in combinations(sites, 2):
        assert sites[a] & sites[b] <= {DIVIDED}
    assert len(sites["dev"]) >= 8
    assert len([site for site in sites["test"] if str(site).startswith("S")]) >= 12


def test_new_notes_are_as_dense_with_phi_as_the_card_says(splits: dict[str, Corpus]) -> None:
    notes = [note for note in splits["train"] if str(note.site).startswith("S")]
    density = [100 * len(note.spans) / len(note.text.split()) for note in notes]
    assert 0.05 < sum(value == 0 for value in density) / len(density) < 0.2
    assert sum(value <= 3 for value in density) / len(density) > 0.4
