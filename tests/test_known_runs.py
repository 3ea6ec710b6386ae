"""Known identifiers, allow and deny lists in runs of a model: what they did is counted, and none of it is shown."""

import json
from pathlib import Path

import pytest
from made_keys import KEY

from ensemble_deid import CorpusError, Deidentifier, SiteLists, WithheldNote, deidentify_series
from ensemble_deid.cli.main import main
from ensemble_deid.deidentify.known import site_lists
from ensemble_deid.deidentify.manifest import verify_run

TEXT = "Seen on 03/04/2019, Okonkow. Foo 12-34 567. Qxv here."


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table of two notes and the lists of a site; runs have a key."""
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)
    (tmp_path / "notes.csv").write_text(f'n,mrn,text\n1,M7,"{TEXT}"\n2,M8,"{TEXT}"\n', encoding="utf-8")
    rows = ["patient_id,kind,value", "M7,name,Adaeze Okonkwo", "M7,mrn,1234567"]
    (tmp_path / "known.csv").write_text("\n".join(rows), encoding="utf-8")
    (tmp_path / "deny.csv").write_text("label,value\nCITY,Qxv\n", encoding="utf-8")
    (tmp_path / "allow.txt").write_text("\n03.04.2019\n", encoding="utf-8")
    return tmp_path


def run(model: Path, place: Path, *more: object) -> int:
    columns = ("--id-column", "n", "--patient-column", "mrn", "--quiet")
    lists = ("--known", place / "known.csv", "--deny", place / "deny.csv", "--allow", place / "allow.txt")
    command = ("deidentify", model, place / "notes.csv", "--out", place / "clean.csv", *columns, *lists, *more)
    return main([str(argument) for argument in command])


def test_a_run_uses_and_records_the_lists(tiny_model: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tiny_model, place, "--threshold", 0.999) == 0
    said = capsys.readouterr()
    first, second = (place / "clean.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert "Okonkow" not in first
    assert "567" not in first
    assert "Okonkow. Foo 12-34 567. [CITY] here" in second
    for row, number, patient in ((first, "1", "M7"), (second, "2", "M8")):
        new_number, new_patient, _ = row.split(",", 2)
        assert new_number != number
        assert new_patient != patient
    record = verify_run(place / "clean.csv.run")
    assert record.counts[site_lists.MATCHED] == 2
    # At this threshold the model finds neither; that the patient's strings are searched, too, is no find of the model.
    assert record.counts[site_lists.MISSED] == 2
    assert record.counts[site_lists.UNKNOWN] == 1
    assert record.counts["deny list: line 2 removed"] == 2
    assert set(record.settings["lists"]) == {"known", "allow", "deny", "strict"}
    assert "1 note of patients without known identifiers" in said.err
    written = "".join(path.read_text(encoding="utf-8") for path in (place / "clean.csv.run").iterdir())
    assert not any(value in written + said.out + said.err for value in ("Okonk", "1234567", "Qxv", "2019", "M7"))
    assert run(tiny_model, place, "--threshold", 0.999, "--strict", "--resume") == 2
    assert "with other settings: lists" in capsys.readouterr().err


def test_an_allowed_string_stays(tiny_model: Path, place: Path) -> None:
    assert run(tiny_model, place, "--threshold", 0) == 0
    record = verify_run(place / "clean.csv.run")
    allowed = record.counts.get("allow list: line 2 kept", 0)
    assert allowed == (place / "clean.csv").read_text(encoding="utf-8").count("03/04/2019")
    assert allowed


@pytest.mark.parametrize("strict", [False, True])
def test_what_is_left_is_counted_and_withheld_if_wished(
    tiny_model: Path, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, strict: bool
) -> None:
    monkeypatch.setattr(SiteLists, "apply", lambda _, document, counts=None, **__: document.with_spans(()))
    assert run(tiny_model, place, *(["--strict"] if strict else [])) == (3 if strict else 0)
    said = capsys.readouterr().err
    assert f"2 known identifiers found in the output, and {'withheld' if strict else 'written'}" in said
    rows = (place / "clean.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert [TEXT in row for row in rows] == [not strict, True]
    failed = (place / "clean.csv.run" / "failed.jsonl").read_text(encoding="utf-8")
    assert ("known identifiers are left in the output: 2" in failed) == strict
    assert "Okonk" not in said + failed


def test_strict_needs_known_identifiers(tiny_model: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["deidentify", str(tiny_model), str(place / "notes.csv"), "--out", str(place / "o.csv"), "--strict"]
    assert main([*command, "--id-column", "n", "--patient-column", "mrn"]) == 2
    assert "needs known identifiers" in capsys.readouterr().err


def test_predict_has_the_lists(tiny_model: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = {"id": "a", "patient_id": "M7", "text": TEXT}
    (place / "notes.jsonl").write_text(json.dumps(note) + "\n", encoding="utf-8")
    command = ["predict", str(tiny_model), str(place / "notes.jsonl"), "--out", str(place / "out")]
    assert main([*command, "--known", str(place / "known.csv")]) == 0
    (path,) = (place / "out").iterdir()
    (found,) = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    surfaces = [TEXT[span["start"] : span["end"]] for span in found["spans"]]
    assert any("Okonkow" in surface for surface in surfaces)
    assert any("12-34 567" in surface for surface in surfaces)
    assert f"{site_lists.MATCHED}: 2" in capsys.readouterr().out


def test_the_library_has_the_lists(tiny_model: Path, place: Path) -> None:
    pandas = pytest.importorskip("pandas")
    model = Deidentifier.load(tiny_model)
    lists = SiteLists.read(known=place / "known.csv", labels=model.labels)
    (result,) = model.pipe([TEXT], patients=["M7"], lists=lists)
    assert result.text is not None
    assert "Okonkow" not in result.text
    assert result.known_left == 0
    (new,) = deidentify_series(pandas.Series([TEXT]), model, patients=pandas.Series(["M7"]), lists=lists)
    assert "Okonkow" not in new


def test_strict_lists_withhold_in_python_too(tiny_model: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    model = Deidentifier.load(tiny_model)
    lists = SiteLists.read(known=place / "known.csv", strict=True, labels=model.labels)
    monkeypatch.setattr(SiteLists, "apply", lambda _, document, counts=None, **__: document.with_spans(()))
    problem = "known identifiers are left in the output: 2"
    withheld, kept = model.pipe([TEXT, TEXT], patients=["M7", "M8"], lists=lists)
    assert withheld.text is None
    assert problem in str(withheld.error)
    assert kept.text == TEXT
    with pytest.raises(CorpusError, match=problem):
        model.deidentify(TEXT, patient="M7", lists=lists)
    said: list[WithheldNote] = []
    notes, patients = pandas.Series([TEXT, TEXT]), pandas.Series(["M7", "M8"])
    new = deidentify_series(notes, model, patients=patients, lists=lists, withheld=said)
    assert (new.isna().to_list(), new[1]) == ([True, False], TEXT)
    assert [(note.position, note.reason) for note in said] == [(0, problem)]
