"""The sites of the demo corpus: sheets, splits, and what the data card promises of them."""

import re
from collections import Counter
from itertools import combinations

from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.resources import data_directory
from tools.note_sources import note_files, read_note_sources

DEMO = data_directory() / "demo"
DIVIDED = "E20"


def test_every_note_passes_the_checks_and_is_of_a_listed_site() -> None:
    sources = read_note_sources(note_files([DEMO / "src"]))
    assert not sources.problems
    listed = set(re.findall(r"^\| (E\d\d) \|", (DEMO / "sites" / "existing.md").read_text(encoding="utf-8"), re.M))
    sheets = {path.stem for path in (DEMO / "sites").glob("[RS]*.md")}
    assert {note.site for note in sources.notes} == listed | sheets
    notes = {site: 12 if site.startswith("S") else 11 for site in sheets} | {"R73": 120}
    assert Counter(note.site for note in sources.notes if note.site in sheets) == notes


def test_no_site_is_in_two_splits_but_the_one_that_is_divided() -> None:
    sites = {split: {note.site for note in read_corpus(f"demo:{split}")} for split in ("train", "dev", "test", "site")}
    for a, b in combinations(sites, 2):
        assert sites[a] & sites[b] <= {DIVIDED}
    assert len(sites["dev"]) >= 8
    assert len([site for site in sites["test"] if str(site).startswith("S")]) >= 12


def test_new_notes_are_as_dense_with_phi_as_the_card_says() -> None:
    notes = [note for note in read_corpus("demo") if str(note.site).startswith("S")]
    density = [100 * len(note.spans) / len(note.text.split()) for note in notes]
    assert 0.05 < sum(value == 0 for value in density) / len(density) < 0.2
    assert sum(value <= 3 for value in density) / len(density) > 0.4
