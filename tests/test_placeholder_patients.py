"""A patient called `NULL` is nobody: every reader takes each such note for the only one of its patient."""

import csv
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_keys import KEY

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.corpora.records import Record
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.manifest import verify_run
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.integrations.arrow_stream import deidentified_batches
from ensemble_deid.integrations.series import deidentify_series
from ensemble_deid.note.document import Document, known_patient

TEXTS = ["Patient: Anna Bell\nDate: 01/10/2019", "Anna Bell called. Date: 01/10/2019", "Date: 01/11/2019"]
PLACEHOLDERS = [
    "NULL", "null", "(null)", "N/A", "#N/A", "n.a.", "NA", "<NA>", "none", "None", "nan", "NaN", "NaT", "", "  ",
    "UNKNOWN", "Unknown ", "not available", "-", "--", "?", ".", "0", "000", "0.0", "-1", "\\N", "Patient/unknown",
    "no MRN", "desconocido",
]  # fmt: skip


@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_a_placeholder_is_nobody(name: str) -> None:
    assert known_patient(name) is None
    note = Document("1", "x", patient_id=name)
    assert (note.patient_id, note.group, note.patient) == (None, "1", "1")
    record = Record("r", "x", patient=name)
    assert (record.patient, record.placeholder, record.document().patient_id) == (None, name, None)


@pytest.mark.parametrize("name", ["1", "M300", "10", "NA-12", "Nan Bell", "unknown-7", "-10", "0x1", "Patient/7", "x"])
def test_an_id_is_somebody(name: str) -> None:
    assert known_patient(name) == name == Document("1", "x", patient_id=name).patient_id


def test_integers_can_be_placeholders() -> None:
    assert Record("r", "x", patient=0).placeholder == 0
    assert Record("r", "x", patient=7).patient == 7
    assert Record("r", "x").placeholder is None


Table = Callable[[Path, str], None]


def to_csv(path: Path, patient: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("mrn", "text"), *((patient, text) for text in TEXTS)])


def to_jsonl(path: Path, patient: str) -> None:
    lines = [json.dumps({"id": str(k), "mrn": patient, "text": text}) for k, text in enumerate(TEXTS)]
    path.write_text("\n".join(lines), encoding="utf-8")


def to_parquet(path: Path, patient: str) -> None:
    pq.write_table(pa.table({"mrn": [patient] * len(TEXTS), "text": TEXTS}), path)


def texts_of(path: Path) -> tuple[list[str], list[str]]:
    """Return the texts and the patients of a table."""
    if path.suffix == ".parquet":
        rows = pq.read_table(path).to_pylist()
    elif path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    else:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    return [row["text"] for row in rows], [row["mrn"] for row in rows]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)


def surrogates_alone(model: Path) -> list[str]:
    """Return what becomes of each text as a note of a patient of its own."""
    deid = Deidentifier.load(model)
    return [deid.deidentify(text, style="surrogate", key=KEY).text for text in TEXTS]


@pytest.mark.parametrize(("suffix", "write"), [(".csv", to_csv), (".jsonl", to_jsonl), (".parquet", to_parquet)])
def test_notes_of_nobody_in_a_table_are_single_ones_and_counted(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str, write: Table
) -> None:
    made = {}
    for patient in ("NULL", "M300"):
        source, out = tmp_path / f"{patient}{suffix}", tmp_path / f"clean-{patient}{suffix}"
        write(source, patient)
        columns = ["--patient-column", "mrn", *(["--id-column", "id"] if suffix == ".jsonl" else [])]
        arguments = ["deidentify", str(tiny_model), str(source), "--out", str(out), "--style", "surrogate", "--quiet"]
        assert main([*arguments, *columns]) == 0
        made[patient] = texts_of(out)
        said = capsys.readouterr().err
        assert ("3 notes have a placeholder such as NULL for a patient" in said) == (patient == "NULL")
    nobody, somebody = made["NULL"], made["M300"]
    assert nobody[1] == ["NULL"] * 3
    assert len(set(somebody[1])) == 1
    assert somebody[1][0] != "M300"
    dates = [text.rpartition(" ")[2] for text in nobody[0]]
    assert dates[0] != dates[1]
    assert somebody[0][0].rpartition(" ")[2] == somebody[0][1].rpartition(" ")[2]
    counts = verify_run(tmp_path / f"clean-NULL{suffix}.run").counts
    assert counts["notes have a placeholder such as NULL for a patient, and were treated one by one"] == 3


def test_notes_of_nobody_in_a_database_are_single_ones(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(tmp_path / "n.db")) as base, base:
        base.execute("CREATE TABLE notes (n INTEGER, mrn INTEGER, text TEXT)")
        base.executemany("INSERT INTO notes VALUES (?, ?, ?)", zip((1, 2, 3), (0, 0, 7), TEXTS, strict=True))
    arguments = ["deidentify", str(tiny_model), f"sqlite:///{tmp_path / 'n.db'}", "--table-out", "clean", "--quiet"]
    arguments += [
        "--query",
        "SELECT n, mrn, text FROM notes ORDER BY n",
        "--patient-column",
        "mrn",
        "--text-column",
        "text",
    ]
    assert main([*arguments, "--keep-columns", "n", "--style", "surrogate", "--out", str(tmp_path / "run")]) == 0
    assert "2 notes have a placeholder" in capsys.readouterr().err
    with closing(sqlite3.connect(tmp_path / "n.db")) as base:
        rows = base.execute("SELECT mrn, text FROM clean ORDER BY n").fetchall()
    assert [mrn for mrn, _ in rows[:2]] == [0, 0]
    assert rows[2][0] not in (0, 7)
    assert rows[0][1].rpartition(" ")[2] != rows[1][1].rpartition(" ")[2]


def test_a_stream_says_of_each_row_that_it_is_of_nobody(tiny_model: Path) -> None:
    rows = pa.table({"mrn": ["N/A", "N/A", "M1"], "text": TEXTS})
    columns, options = Columns("text", patient="mrn"), RunOptions(replacer=Replacer.from_options("surrogate", key=KEY))
    made = pa.Table.from_batches(
        list(deidentified_batches(iter(rows.to_batches()), Deidentifier.load(tiny_model), columns, options))
    ).to_pylist()
    remark = "the patient is a placeholder such as NULL"
    assert [row["problem"] for row in made] == [remark, remark, None]
    assert [row["mrn"] for row in made[:2]] == ["N/A", "N/A"]
    assert [row["text"] for row in made[:2]] == surrogates_alone(tiny_model)[:2]


def test_python_and_corpora_know_nobody_either(tiny_model: Path, tmp_path: Path) -> None:
    alone = surrogates_alone(tiny_model)
    deid = Deidentifier.load(tiny_model)
    replacer = Replacer.from_options("surrogate", key=KEY, labels=deid.labels)
    series = deidentify_series(pd.Series(TEXTS), deid, replacer=replacer, patients=["NULL", "nan", 0])
    assert list(series) == alone
    piped = deid.pipe(TEXTS, style="surrogate", key=KEY, patients=["UNKNOWN"] * 3)
    assert [result.text for result in piped] == alone
    lines = [json.dumps({"id": str(k), "text": text, "patient_id": "N/A"}) for k, text in enumerate(TEXTS)]
    (tmp_path / "notes.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert [note.group for note in read_corpus(tmp_path / "notes.jsonl", gold=False)] == ["0", "1", "2"]
