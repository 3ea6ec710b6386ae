"""Drawing the notes of some sites."""

import pytest

from ensemble_deid.errors import ConfigError
from ensemble_deid.note.document import Document
from ensemble_deid.training.training_notes import sample_sites

NOTES = [Document(f"{k:02}", "well", site=f"S{k % 7:02}") for k in range(20)]


def test_larger_samples_include_smaller_ones() -> None:
    before: set[str] = set()
    for n_sites in range(1, 8):
        chosen = sample_sites(NOTES, n_sites, seed=3)
        assert len({note.site for note in chosen}) == n_sites
        assert [note.id for note in chosen] == sorted(note.id for note in chosen)
        assert before <= {note.id for note in chosen}
        before = {note.id for note in chosen}
    assert before == {note.id for note in NOTES}


def test_the_seed_draws() -> None:
    drawn = {tuple(note.id for note in sample_sites(NOTES, 2, seed=seed)) for seed in range(10)}
    assert len(drawn) > 3
    assert sample_sites(NOTES, 2, seed=1) == sample_sites(list(NOTES), 2, seed=1)


@pytest.mark.parametrize("n_sites", [0, 8])
def test_more_sites_than_there_are(n_sites: int) -> None:
    with pytest.raises(ConfigError, match=f"{n_sites} sites cannot be drawn: the notes are of 7"):
        sample_sites(NOTES, n_sites, seed=1)


def test_notes_without_a_site() -> None:
    with pytest.raises(ConfigError, match="name their site"):
        sample_sites([*NOTES, Document("x", "well")], 1, seed=1)
