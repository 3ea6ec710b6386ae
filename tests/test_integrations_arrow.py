"""Streams of record batches, and DuckDB's function: the same values as the command line writes."""

import datetime as dt
from pathlib import Path

import pytest
import tiny_stack
from made_keys import KEY

from ensemble_deid import Deidentifier
from ensemble_deid.cli.main import main
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.integrations.arrow_stream import FOUND, deidentified_batches, read_batches

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra tables)")
import pyarrow.parquet as pq  # noqa: E402

NOTES = tiny_stack.notes(700)
COLUMNS = Columns("text", "n", "mrn", ("seen",), ("ward",))


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Deidentifier:
    return Deidentifier.load(tiny_model)


def table() -> "pa.Table":
    texts = [note.text for note in NOTES]
    texts[3] = "Anna\0Bell"
    columns = {
        "n": pa.array(range(len(texts)), pa.int64()),
        "text": [*texts[:6], None, texts[7]],
        "mrn": [note.patient_id for note in NOTES],
        "seen": [dt.date(2019, 1, k + 1) for k in range(len(texts))],
        "ward": pa.array([None if k % 2 else k for k in range(len(texts))], pa.int32()),
    }
    return pa.table(columns)


def test_a_stream_has_the_values_of_the_command_line(tiny_model: Path, model: Deidentifier, tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "in.parquet")
    (tmp_path / "key").write_text(KEY.text, encoding="ascii")
    arguments = ["deidentify", str(tiny_model), str(tmp_path / "in.parquet"), "--out", str(tmp_path / "out.parquet")]
    arguments += ["--id-column=n", "--patient-column=mrn", "--date-columns=seen", "--keep-columns=ward", "--quiet"]
    assert main([*arguments, "--style=surrogate", f"--key-file={tmp_path / 'key'}"]) == 3
    expected = pq.read_table(tmp_path / "out.parquet")
    options = RunOptions(replacer=Replacer.from_options("surrogate", key=KEY))
    for size in (1, 3, 100):
        batches = table().to_batches(max_chunksize=size)
        made = pa.Table.from_batches(list(deidentified_batches(iter(batches), model, COLUMNS, options)))
        assert made.drop_columns(["problem"]).equals(expected)
        problems = made["problem"].to_pylist()
        assert problems.pop(3) == "character 4 of the text is NUL, which no note may hold"
        assert problems == [None] * 7
        # What the model read elsewhere, row by row, comes to the same where the rows of a patient meet.
        read = list(read_batches(iter(table().to_batches(max_chunksize=size)), model, COLUMNS, options))
        assert all(NOTES[0].text[9:18] not in found for batch in read for found in batch.column(FOUND).to_pylist())
        assert pa.Table.from_batches(list(deidentified_batches(read, model, COLUMNS, options))).equals(made)
    assert list(deidentified_batches(iter([]), model, COLUMNS, options)) == []


def test_notes_without_a_patient_do_not_depend_on_their_place(model: Deidentifier) -> None:
    rows = table().select(["text"])
    options = RunOptions(replacer=Replacer.from_options("surrogate", key=KEY))

    def texts(part: "pa.Table") -> list[str | None]:
        made = deidentified_batches(iter(part.to_batches()), model, Columns("text"), options)
        return [text for batch in made for text in batch.column("text").to_pylist()]

    whole = texts(rows)
    assert texts(rows.slice(4)) == whole[4:]
    assert NOTES[0].text[9:18] not in (whole[0] or "")


def test_a_date_that_cannot_be_read_is_missing_and_said(model: Deidentifier) -> None:
    rows = pa.table({"text": ["Date: 03/04/2019"], "seen": ["last spring"], "mrn": ["7"]})
    columns = Columns("text", None, "mrn", ("seen",))
    (batch,) = deidentified_batches(
        iter(rows.to_batches()), model, columns, RunOptions(replacer=Replacer.from_options("tag", key=KEY))
    )
    (row,) = batch.to_pylist()
    assert (row["text"], row["seen"]) == ("Date: [DATE]", None)
    assert row["problem"] == "1 dates that could not be read, and were emptied"


def test_duckdb(model: Deidentifier, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed (extra duckdb)")
    from ensemble_deid.integrations.duckdb import register

    pq.write_table(table(), tmp_path / "in.parquet")
    with duckdb.connect() as connection:
        register(connection, model, style="surrogate", key=KEY)
        query = (
            "SELECT n, d.text, d.problem FROM (SELECT n, deidentify(text, mrn) AS d FROM read_parquet(?)) ORDER BY n"
        )
        rows = connection.execute(query, [str(tmp_path / "in.parquet")]).fetchall()
        assert [row[0] for row in rows] == list(range(8))
        assert rows[3][1:] == (None, "character 4 of the text is NUL, which no note may hold")
        assert rows[6][1:] == (None, None)
        alone = model.deidentify(NOTES[0].text, style="surrogate", key=KEY, patient=NOTES[0].patient_id)
        assert rows[0][1:] == (alone.text, None)
        register(connection, model, name="tagged")
        ((tagged,),) = connection.execute("SELECT tagged('Date: 03/04/2019', NULL).text").fetchall()
        assert tagged == "Date: [DATE]"
