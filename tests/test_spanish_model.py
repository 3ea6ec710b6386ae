"""The Spanish model that is shipped: whole, shareable, with its attribution, and as useful as its card says."""

import json
from pathlib import Path

import pytest

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import CorpusError
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.model.package import export_model

ROOT = Path(__file__).parents[1]
PROJECT = ROOT / "models" / "ensemble_deid_es"
MODEL = PROJECT / "ensemble_deid_es" / "model"
NOTE = (ROOT / "data" / "spanish" / "nota.txt").read_text(encoding="utf-8")
LARGEST = 20_000_000
PHI = (
    *("Rosalía", "Quintero", "Beltrán", "4471903", "28 40175536 61", "Olmos Altos", "Villafría", "Burgos", "09400"),
    *("19/06/1951", "04/11/2018", "9/11/2018", "2 de noviembre", "Julián", "Abascal", "Prieto", "09 09 31277"),
    *("jabascal@example.es", "947 000 013", "Molino Viejo"),
)
MEDICINE = ("disnea", "furosemida i.v.", "enalapril 10 mg", "TA 152/88, FC 96 lpm", "NT-proBNP 2.340 pg/ml")


@pytest.fixture(scope="module")
def model() -> Deidentifier:
    return Deidentifier.load(MODEL)


def test_it_is_whole_shareable_and_attributed(tmp_path: Path) -> None:
    manifest = read_manifest(MODEL)
    assert manifest.training["notes"] == 750
    assert manifest.config["shareable"] is True
    # MEDDOCAN is public; of its patients there is nothing.
    assert (len(manifest.seen_notes["notes"].split()), manifest.seen_notes["patients"]) == (750, "")
    export_model(MODEL, tmp_path / "released", shareable=True)
    assert sum(path.stat().st_size for path in PROJECT.rglob("*") if path.is_file()) < LARGEST
    for name in ("LICENSE", "NOTICE"):
        assert (PROJECT / name).read_text(encoding="utf-8") == (ROOT / "data" / "spanish" / name).read_text(
            encoding="utf-8"
        )
    card = (PROJECT / "README.md").read_text(encoding="utf-8")
    before, attacks = card.split((ROOT / "data" / "spanish" / "card.md").read_text(encoding="utf-8"))
    assert "# Model card" in before
    assert "| all |" in attacks
    assert "(c) 2019 Secretaría de Estado" in card


@pytest.mark.parametrize("style", ["tag", "surrogate"])
def test_phi_goes_and_medicine_stays(model: Deidentifier, style: str) -> None:
    clean = model.deidentify(NOTE, style=style).text
    assert clean is not None
    assert [string for string in PHI if string in clean] == []
    assert [string for string in MEDICINE if string not in clean] == []


def test_surrogates_are_spanish(model: Deidentifier) -> None:
    clean = model.deidentify(NOTE, style="surrogate").text or ""
    fields = dict(line.split(": ", 1) for line in clean.splitlines() if line.count(": ") == 1)
    assert len(fields["Apellidos"].split()) == 2
    assert 1 <= int(fields["CP"][:2]) <= 52
    assert "Edad: 67 años" in clean


def test_notes_in_other_languages_are_withheld(model: Deidentifier) -> None:
    with pytest.raises(CorpusError, match="English"):
        model.deidentify("The patient was seen by Dr. Strong for chest pain and was then sent home by her. " * 4)


def test_its_threshold_was_chosen_out_of_fold() -> None:
    choices = json.dumps(read_manifest(MODEL).choices)
    assert "out of fold" in choices
