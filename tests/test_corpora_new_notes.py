"""Notes of new sites that are in no split yet: well formed, of known sites, kept apart."""

import re
import tomllib
from pathlib import Path

from ensemble_deid.corpora.note_sources import note_files, read_note_sources

DEMO = Path(__file__).parents[1] / "data" / "demo"
NEW = DEMO / "new"


def test_every_new_note_passes_the_checks_and_is_of_a_site_with_a_sheet() -> None:
    sources = read_note_sources(note_files([NEW]))
    assert not sources.problems
    assert len(sources.notes) >= 804
    sheets = {path.stem for path in (DEMO / "sites").glob("S*.md")}
    assert {note.site for note in sources.notes} <= sheets


def test_no_new_note_is_in_a_split() -> None:
    splits = tomllib.loads((DEMO / "splits.toml").read_text(encoding="utf-8"))
    chosen = {patient for split in ("train", "dev", "test") for patient in splits[split]}
    assert not chosen & {path.stem.split("-")[0] for path in note_files([NEW])}


def test_the_lots_name_each_site_once() -> None:
    text = (NEW / "README.md").read_text(encoding="utf-8")
    drawn = [site for line in re.findall(r"- (?:test|dev): (.*)", text) for site in line.split()]
    assert len(drawn) == len(set(drawn)) == 24
    assert set(drawn) <= {path.stem for path in (DEMO / "sites").glob("S*.md")}
