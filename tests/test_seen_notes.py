"""Nothing is chosen on the notes that a model was trained on, and nothing measured on them, without a word."""

import json
import shutil
from pathlib import Path

import pytest
import tiny_stack
from hypothesis import given
from hypothesis import strategies as st

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import CorpusError, ModelError
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.model.seen_notes import Overlap, SeenNotes
from ensemble_deid.note.document import Document

DOCUMENTS = [Document("a", "Seen on 3 May.\n", (), "1"), Document("b", "No change.", (), "2"), Document("c", "")]
SEEN = SeenNotes.of(DOCUMENTS, seed=3)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (Document("z", "Seen on 3 May.\n", (), "9"), Overlap(1, 1, 0, 1)),
        (Document("z", " Seen\r\non 3 May."), Overlap(1, 1, 0, 0)),
        (Document("a", "Other words.", (), "1"), Overlap(0, 1, 1, 1)),
        (Document("a", "Seen on 4 May.\n", (), "a"), Overlap(0, 1, 0, 1)),
        # A blank note is no note that anything was learned from.
        (Document("z", " "), Overlap(0, 1, 0, 0)),
    ],
)
def test_a_note_is_known_by_its_words_and_a_patient_by_the_id(document: Document, expected: Overlap) -> None:
    overlap = SEEN.overlap([document])
    assert overlap == expected
    assert bool(overlap) == bool(expected.notes or expected.patients)


@given(st.lists(st.sampled_from(["x one", "x two", "three", " ", "x  two"]), max_size=6), st.sets(st.text(max_size=3)))
def test_the_count_is_that_of_a_comparison_word_by_word(texts: list[str], known: set[str]) -> None:
    seen = SeenNotes.of([Document(str(k), text) for k, text in enumerate(["x two", "three", *known])], seed=0)
    words = [text.split() for text in ("x two", "three", *known)]
    expected = sum(bool(text.split()) and text.split() in words for text in texts)
    assert seen.overlap([Document(str(k), text) for k, text in enumerate(texts)]).notes == expected


def test_the_record_quotes_nothing_and_comes_back() -> None:
    record = SEEN.to_record()
    assert SeenNotes.from_record(json.loads(json.dumps(record))) == SEEN
    # Exported and shareable models have no record, and know no note.
    assert not SeenNotes.from_record({}).overlap(DOCUMENTS)
    assert "May" not in json.dumps(record)
    assert SeenNotes.of(DOCUMENTS[::-1], seed=3) == SEEN
    # Another training salts anew, so that two models cannot be compared patient by patient.
    assert not SeenNotes.of(DOCUMENTS, seed=4).patients & SEEN.patients
    for damaged in ({"salt": "1"}, {**record, "notes": 3}, {**record, "more": ""}):
        with pytest.raises(ModelError, match="damaged"):
            SeenNotes.from_record(damaged)


def test_training_refuses_dev_notes_of_its_own_patients(
    tmp_path: Path, tiny_train: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same_patient = tmp_path / "dev.jsonl"
    write_corpus([tiny_stack.note("new", "Seen ", ("3/3/2020", "DATE"), patient="300")], same_patient, "jsonl")
    model = tmp_path / "model"
    arguments = ["train", str(tiny_train), "--out", str(model), *tiny_stack.settings(tmp_path), "--submodels=regex"]
    for dev, said in (
        (tiny_train, "8 of 8 notes and 4 of 4 patients for dev"),
        (same_patient, "0 of 1 notes and 1 of 1"),
    ):
        assert main([*arguments, "--dev", str(dev)]) == 2
        assert said in capsys.readouterr().err
        assert not model.exists()
    assert main([*arguments, "--dev", str(tiny_train), "--allow-overlap"]) == 0
    assert read_manifest(model).choices["overlap_of_dev"] == "8 of 8 notes and 4 of 4 patients"


def test_a_threshold_is_not_chosen_on_training_notes(
    tmp_path: Path, tiny_model: Path, tiny_train: Path, tiny_dev: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    before = (model / "manifest.json").read_bytes()
    arguments = ["model", "threshold", str(model), str(tiny_train), "--few", "--sensitivity", "0.5"]
    assert main(arguments) == 2
    assert "8 of 8 notes and 4 of 4 patients to choose the threshold on" in capsys.readouterr().err
    assert (model / "manifest.json").read_bytes() == before
    assert main([*arguments, "--allow-overlap"]) == 0
    assert read_manifest(model).choices["overlap_of_threshold"] == "8 of 8 notes and 4 of 4 patients"
    # One chosen on other notes afterwards leaves no such mark.
    assert main(["model", "threshold", str(model), str(tiny_dev), "--few", "--sensitivity", "0.5"]) == 0
    assert "overlap_of_threshold" not in read_manifest(model).choices


def test_figures_on_training_notes_say_so_wherever_they_stand(
    tmp_path: Path, tiny_model: Path, tiny_train: Path, tiny_dev: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures, page = tmp_path / "figures.json", tmp_path / "report.html"
    scored = [str(tiny_train), str(tiny_model)]
    warning = "8 of 8 notes and 4 of 4 patients scored here are among the model's training notes"
    none = ["--resamples", "0"]
    for more in ([], ["--full"], ["--scheme", "i2b2"]):
        assert main(["evaluate", *scored, *none, "--out", str(figures), *more]) == 0
        assert capsys.readouterr().out.startswith(f"WARNING: {warning}")
        assert json.loads(figures.read_text(encoding="utf-8"))["warnings"][0].startswith(warning)
    assert main(["research", "compare", scored[0], scored[0], scored[1], *none, "--out", str(figures)]) == 0
    assert f"WARNING: B: {warning}" in capsys.readouterr().out
    assert main(["model", "report", *scored, *none, "--out", str(page)]) == 0
    assert warning in page.read_text(encoding="utf-8")
    capsys.readouterr()
    assert (
        main(["research", "ablate", str(tiny_model), str(tiny_train), "--jobs=1", "--out", str(tmp_path / "table.md")])
        == 0
    )
    assert warning in capsys.readouterr().err
    assert main(["evaluate", str(tiny_dev), str(tiny_model), *none, "--out", str(figures)]) == 0
    assert "WARNING" not in capsys.readouterr().out
    assert json.loads(figures.read_text(encoding="utf-8"))["warnings"] == []


def test_operating_points_are_not_chosen_on_training_notes(
    tiny_model: Path, tiny_train: Path, tiny_dev: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["evaluate", str(tiny_dev), str(tiny_model), "--resamples", "0"]
    assert main([*arguments, "--dev", str(tiny_train), str(tiny_model)]) == 2
    assert "8 of 8 notes and 4 of 4 patients of the dev notes are among" in capsys.readouterr().err


def test_the_refusal_quotes_no_note() -> None:
    with pytest.raises(CorpusError) as refused:
        SEEN.refuse(DOCUMENTS, used_for="for dev")
    assert "May" not in str(refused.value)
