"""What a run of `deidentify` promises over its two passes: what one note tells counts for all of the patient's notes,
and an input that is another one in the second pass is never written.
"""

import csv
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from made_keys import KEY

from ensemble_deid import Columns, ConfigError, deidentify_files, deidentify_table
from ensemble_deid.cli.main import main
from ensemble_deid.corpora.records import Record
from ensemble_deid.corpora.tables.delimited import DelimitedTable
from ensemble_deid.deidentify.manifest import FAILED, MANIFEST, SPANS, is_run, verify_run
from ensemble_deid.deidentify.run import Run
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

COLUMNS = ("--id-column", "id", "--patient-column", "mrn", "--quiet")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the model find what stands after `Patient: ` or `Doctor: `, and nothing else."""
    headings = re.compile(r"(?<=Patient: )(?P<PATIENT>[\w. ]*\w)|(?<=Doctor: )(?P<DOCTOR>\w+)")

    def predict(_: Ensemble, documents: Sequence[Document], *__: Any) -> list[tuple[Span, ...]]:
        return [
            tuple(Span(m.start(), m.end(), m.lastgroup or "", 0.9) for m in headings.finditer(document.text))
            for document in documents
        ]

    monkeypatch.setattr(Ensemble, "predict", predict)


def write_csv(path: Path, *texts: str) -> Path:
    rows = [("id", "mrn", "text"), *((str(k), "M7", text) for k, text in enumerate(texts, 1))]
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return path


def run(model: Path, source: Path, out: Path, *more: str) -> int:
    return main(["deidentify", str(model), str(source), "--out", str(out), *COLUMNS, *more])


def texts(path: Path) -> list[str]:
    with path.open(encoding="utf-8", newline="") as stream:
        return [row["text"] for row in csv.DictReader(stream)]


def surrogates(model: Path, folder: Path, *notes: str) -> list[str]:
    source, out = write_csv(folder / "notes.csv", *notes), folder / "surrogates.csv"
    # Surrogates everywhere: the small model is not sure of much.
    assert run(model, source, out, "--style", "surrogate", "--set", "surrogates.min_score=0") == 0
    return texts(out)


def test_a_name_found_in_a_later_note_is_gone_from_an_earlier_one(tiny_model: Path, tmp_path: Path) -> None:
    source = write_csv(tmp_path / "notes.csv", "Adaeze Okonkwo was seen.", "Patient: Adaeze Okonkwo.")
    assert run(tiny_model, source, tmp_path / "out.csv") == 0
    assert texts(tmp_path / "out.csv") == ["[PATIENT] was seen.", "Patient: [PATIENT]."]
    assert verify_run(tmp_path / "out.csv.run").counts["repeats of strings found elsewhere"] == 1


def test_a_surname_has_one_surrogate_in_all_notes_of_a_patient(tiny_model: Path, tmp_path: Path) -> None:
    first, second = surrogates(tiny_model, tmp_path, "Patient: John Smith, seen.", "Patient: Mr. Smith, seen.")
    assert "Smith" not in first + second
    surname = first.removeprefix("Patient: ").removesuffix(", seen.").split()[-1]
    assert second == f"Patient: Mr. {surname}, seen."


def test_no_surrogate_is_a_name_in_another_note_of_the_patient(tiny_model: Path, tmp_path: Path) -> None:
    """The very surrogate that the name would get is the name of a doctor in the patient's next note."""
    (alone,) = surrogates(tiny_model, tmp_path, "Patient: John Smith, seen.")
    surname = alone.removesuffix(", seen.").split()[-1]
    first, second = surrogates(tiny_model, tmp_path, "Patient: John Smith, seen.", f"Doctor: {surname}, seen.")
    assert surname not in first
    assert surname not in second
    assert "Smith" not in first


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda whole: whole[:-1], "the input has changed while it was read: notes are missing"),
        (lambda whole: [*whole, whole[-1]], "row 2: the input has changed while it was read"),
    ],
    ids=["fewer", "more"],
)
def test_another_number_of_notes_in_the_second_pass_is_refused(
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[list[Record]], list[Record]],
    said: str,
) -> None:
    records, write = DelimitedTable.records, Run.write

    def second_pass(batch: Run, *arguments: Any) -> None:
        monkeypatch.setattr(DelimitedTable, "records", lambda table: iter(change(list(records(table)))))
        write(batch, *arguments)

    monkeypatch.setattr(Run, "write", second_pass)
    source, out = (
        write_csv(tmp_path / "notes.csv", "Patient: John Smith.", "Patient: John Smith."),
        tmp_path / "out.csv",
    )
    assert run(tiny_model, source, out) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()
    assert not is_run(tmp_path / "out.csv.run")


def test_a_text_that_changes_between_the_passes_is_refused(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of equal length, so that every offset still lies in it: the name would stay."""
    source = write_csv(tmp_path / "notes.csv", "Patient: John Smith. Seen today.")
    write = Run.write

    def second_pass(batch: Run, *arguments: Any) -> None:
        write_csv(source, "Seen today. Patient: John Smith.")
        write(batch, *arguments)

    monkeypatch.setattr(Run, "write", second_pass)
    assert run(tiny_model, source, tmp_path / "out.csv") == 2
    assert "row 1: the input has changed" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()


def test_a_patient_that_changes_between_the_passes_is_refused(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was found in the notes of one patient would be sought in those of another."""
    source = write_csv(tmp_path / "notes.csv", "Seen today.", "Seen again.")
    write = Run.write

    def second_pass(batch: Run, *arguments: Any) -> None:
        source.write_text(source.read_text(encoding="utf-8").replace("2,M7", "2,M8"), encoding="utf-8")
        write(batch, *arguments)

    monkeypatch.setattr(Run, "write", second_pass)
    assert run(tiny_model, source, tmp_path / "out.csv") == 2
    assert "row 2: the input has changed" in capsys.readouterr().err


def test_only_a_database_has_no_output_of_a_name(tiny_model: Path, tmp_path: Path) -> None:
    source = write_csv(tmp_path / "notes.csv", "Seen today.")
    (tmp_path / "a.txt").write_text("Seen today.", encoding="utf-8")
    with pytest.raises(ConfigError, match="None is for a database"):
        deidentify_table(source, None, tiny_model, columns=Columns(keep=("all",)))
    with pytest.raises(ConfigError, match="None is for a database"):
        deidentify_files(tmp_path / "a.txt", None, tiny_model)  # type: ignore[arg-type]


def test_a_run_that_breaks_off_does_not_pass_for_the_finished_one_before_it(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out, folder = write_csv(tmp_path / "notes.csv", "Patient: John."), tmp_path / "out.csv", tmp_path / "run"
    assert run(tiny_model, source, out, "--run", str(folder)) == 0
    assert is_run(folder)
    monkeypatch.setattr(Run, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert run(tiny_model, source, out, "--run", str(folder)) == 130
    assert not is_run(folder)
    assert not any((folder / name).exists() for name in (MANIFEST, SPANS, FAILED))
