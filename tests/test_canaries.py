"""Canaries: a plain model memorises names that one patient's notes have, a shareable one cannot."""

import math
from collections import defaultdict
from statistics import mean

import pytest
import tiny_shareable

from ensemble_deid.errors import CorpusError
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.note.document import Document
from research import canaries
from research.canaries import Exposure, exposures, invent_names, plant

NAMES = invent_names(70, seed=3)
PLANTED, OTHERS = NAMES[:6], NAMES[6:]


def test_invented_names_are_all_different_and_of_one_form() -> None:
    assert len(set(NAMES)) == 70
    assert {tuple(map(len, name.split())) for name in NAMES} == {(6, 7)}
    assert all(name.istitle() for name in NAMES)
    assert invent_names(70, seed=3) == NAMES != invent_names(70, seed=4)


def test_names_are_planted_in_one_patients_notes() -> None:
    before = tiny_shareable.notes()
    after = plant(before, PLANTED, patient="500", label="PATIENT", times=1)
    changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    ((old, new),) = changed
    assert new.patient == "500"
    assert new.text.startswith(old.text)
    assert new.spans[: len(old.spans)] == old.spans
    assert [new.text[s.start : s.end] for s in new.spans[len(old.spans) :]] == list(PLANTED)
    with pytest.raises(CorpusError, match="no note of a patient '9'"):
        plant(before, PLANTED, patient="9", label="PATIENT")


def test_exposure_is_in_bits() -> None:
    assert Exposure(1, 64).bits == 6
    assert Exposure(64, 64).bits == 0
    assert Exposure(33, 65).bits == pytest.approx(math.log2(65 / 33))


@pytest.fixture(scope="module")
def ensembles(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Ensemble]:
    """A plain and a shareable ensemble of notes with the planted names."""
    notes = plant(tiny_shareable.notes(), PLANTED, patient="500", label="PATIENT", times=2)
    folder = tmp_path_factory.mktemp("settings")
    return {
        shareable: tiny_shareable.trained(folder, shareable=shareable, documents=notes).ensemble
        for shareable in (False, True)
    }


def bits(ensemble: Ensemble) -> dict[str, list[float]]:
    found = exposures(ensemble, PLANTED, OTHERS, label="PATIENT")
    return {system: [exposure.bits for exposure in of_names] for system, of_names in found.items()}


def test_a_plain_model_memorises_the_names(ensembles: dict[bool, Ensemble]) -> None:
    found = bits(ensembles[False])
    most = math.log2(len(OTHERS) + 1)
    assert set(found) == {"ensemble", "crf", "neural"}
    assert min(found["crf"]) > most - 3
    assert max(found["crf"]) == most


def test_a_shareable_model_does_not(ensembles: dict[bool, Ensemble]) -> None:
    # 1.44 on average without any memory; each of the six has a deviation of about as much.
    assert mean(bits(ensembles[True])["crf"]) < 2.5


def test_names_that_look_alike_to_a_shareable_model_score_alike_planted_or_not(ensembles: dict[bool, Ensemble]) -> None:
    """Affixes that several patients have, and public lists, tell names apart; that a patient had the name does not."""

    def scores_by_look(ensemble: Ensemble) -> dict[object, dict[str, set[float]]]:
        groups: dict[object, dict[str, set[float]]] = defaultdict(lambda: {"planted": set(), "other": set()})
        of_names = canaries._scores(ensemble, NAMES, "PATIENT")["crf"]
        for name, score in zip(NAMES, of_names, strict=True):
            table = ensemble.feature_extractor.extract([Document("n", name)]).table
            look = tuple(tuple(table[column].strings()) for column in table.names)
            groups[look]["planted" if name in PLANTED else "other"].add(score)
        return groups

    both = [group for group in scores_by_look(ensembles[True]).values() if group["planted"] and group["other"]]
    assert both
    assert all(len(group["planted"] | group["other"]) == 1 for group in both)
    # To a plain model no two names look alike.
    assert not [group for group in scores_by_look(ensembles[False]).values() if group["planted"] and group["other"]]
