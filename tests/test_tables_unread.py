"""What nobody reads in a table does not come out: metadata, bytes under nulls, unused entries; one cell ends no run."""

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.records import NewRecord
from ensemble_deid.corpora.tables.arrow import ArrowTable, ArrowWriter, output_schema, records_of
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.corpora.tables.sql import SqlQuery
from ensemble_deid.errors import CorpusError

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra tables)")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (extra tables)")

SECRET = "Quillfeather"
HIDDEN = pa.py_buffer(bytes([0b110]))
"""Says that the first of three values is missing."""


def rewritten(source: Any, out: Path) -> None:
    with source.writer(out, lambda path, digest: None) as writer:
        for record in source.records():
            missing = record.error is not None
            writer.write(record, NewRecord(None if missing else (), record.id, record.patient, record.dates))


def under_a_null(array: Any) -> Any:
    """Return the array with its first value missing, and its bytes in place."""
    children = [array.field(k) for k in range(array.type.num_fields)] if pa.types.is_struct(array.type) else []
    if pa.types.is_list(array.type) or pa.types.is_fixed_size_list(array.type):
        children = [array.values]
    if pa.types.is_map(array.type):
        children = [
            pa.StructArray.from_arrays([array.keys, array.items], fields=[array.type.key_field, array.type.item_field])
        ]
    own = 1 if pa.types.is_struct(array.type) or pa.types.is_fixed_size_list(array.type) else len(array.buffers())
    own = 2 if pa.types.is_list(array.type) or pa.types.is_map(array.type) else own
    return pa.Array.from_buffers(array.type, len(array), [HIDDEN, *array.buffers()[1:own]], children=children)


def nested(secret: str) -> Iterator[tuple[str, Any]]:
    words = pa.array([secret, "b", "c"])
    inside = pa.StructArray.from_arrays([words], fields=[pa.field("x", pa.string(), metadata={"m": SECRET})])
    yield "string", under_a_null(words)
    yield "binary", under_a_null(words.cast(pa.binary()))
    yield "fixed", under_a_null(pa.array([secret[:8].encode(), b"b" * 8, b"c" * 8], pa.binary(8)))
    yield "struct", under_a_null(inside)
    yield "deep", under_a_null(pa.StructArray.from_arrays([under_a_null(inside)], ["y"]))
    yield "list", under_a_null(pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), inside))
    yield "pair", under_a_null(pa.FixedSizeListArray.from_arrays(words, 1))
    yield "map", under_a_null(pa.array([[("k", secret)], [("a", "b")], []], pa.map_(pa.string(), pa.string())))
    yield "view", pa.array([f"{secret} and more than that", "b", "c"], pa.string_view()).slice(1)
    yield "sliced", pa.array([secret, "a", "b", "c"]).slice(1)
    yield "dictionary", pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["a", "b", secret]))
    yield (
        "extension",
        pa.ExtensionArray.from_storage(pa.json_(), under_a_null(words)) if hasattr(pa, "json_") else words,
    )


@pytest.mark.parametrize("format", ["parquet", "file", "stream"])
@pytest.mark.parametrize("name", [name for name, _ in nested(SECRET)])
def test_bytes_that_are_no_value_do_not_come_out(tmp_path: Path, format: str, name: str) -> None:
    array = dict(nested(SECRET))[name]
    text = pa.array(["A note.", None, "Another."][: len(array)])
    metadata = {"about": SECRET}
    schema = pa.schema([pa.field("text", text.type, metadata=metadata), pa.field("other", array.type)], metadata)
    path, out = tmp_path / "in", tmp_path / "out"
    batch = pa.RecordBatch.from_arrays([text, array], schema=schema)
    if format == "parquet":
        pq.write_table(pa.table(batch), path)
    else:
        with (pa.ipc.new_file if format == "file" else pa.ipc.new_stream)(path, schema) as writer:
            writer.write_batch(batch)
    assert SECRET[:8].encode() in path.read_bytes()
    rewritten(ArrowTable(path, "parquet" if format == "parquet" else "arrow", Columns(keep=("other",))), out)
    made = out.read_bytes()
    assert SECRET[:8].encode() not in made
    read = (
        pq.read_table(out)
        if format == "parquet"
        else (pa.ipc.open_file if format == "file" else pa.ipc.open_stream)(made).read_all()
    )
    assert read.column("text").to_pylist() == text.to_pylist()
    assert [str(v) for v in read.column("other").to_pylist()] == [str(v) for v in array.to_pylist()]


def test_a_type_that_cannot_be_cleaned_is_refused(tmp_path: Path) -> None:
    kinds = [pa.dense_union([pa.field("a", pa.string())]), pa.run_end_encoded(pa.int32(), pa.string())]
    for kind in (*kinds, pa.timestamp("us", SECRET)):
        schema = pa.schema([("text", pa.string()), ("other", kind)])
        with pytest.raises(CorpusError, match="the column other is of a type") as raised:
            output_schema(schema, Columns(keep=("other",)))
        assert SECRET not in str(raised.value)


def test_an_error_names_the_table(tmp_path: Path) -> None:
    """A folder may hold many."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"{SECRET} {n}" for n in range(500)]}), path, use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[100:300] = bytes(value ^ 0x5A for value in content[100:300])
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=r"a\.parquet: cannot be read as a table") as raised:
        list(ArrowTable(path, "parquet", Columns()).records())
    assert SECRET not in str(raised.value)
    pq.write_table(pa.table({"text": ["a"], "k": pa.array([1], pa.timestamp("us", "Custom/Zone"))}), path)
    with pytest.raises(CorpusError, match=r"a\.parquet: the column k is of a type"):
        ArrowTable(path, "parquet", Columns(keep=("all",)))


@pytest.mark.parametrize("format", ["parquet", "file"])
def test_a_cell_that_cannot_be_read_withholds_its_note_alone(tmp_path: Path, format: str) -> None:
    broken = pa.array([b"\xff\xfe" + SECRET.encode(), b"good", b"x"]).cast(pa.binary())
    text = pa.Array.from_buffers(pa.string(), 3, broken.buffers())
    seen = pa.array([0, 0, 2**62], pa.timestamp("s"))
    batch = pa.RecordBatch.from_arrays([text, seen], names=["text", "seen"])
    path, out = tmp_path / "in", tmp_path / "out"
    if format == "parquet":
        pq.write_table(
            pa.table(batch.set_column(1, "seen", seen.cast(pa.int64()).cast(pa.timestamp("ms"), safe=False))), path
        )
    else:
        with pa.ipc.new_file(path, batch.schema) as writer:
            writer.write_batch(batch)
    source = ArrowTable(path, "parquet" if format == "parquet" else "arrow", Columns(dates=("seen",)))
    first, second, third = source.records()
    assert "row 1: the column text has a value that cannot be read" in str(first.error)
    assert second.text == "good"
    assert third.error is None or "the column seen" in str(third.error)
    rewritten(source, out)
    assert SECRET.encode() not in out.read_bytes()


def test_arrays_of_a_stream_are_clean(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_arrays(
        [pa.array(["x", "y", "z"]), dict(nested(SECRET))["struct"]], names=["text", "other"]
    )
    columns = Columns(keep=("other",))

    made: list[Any] = []
    writer = ArrowWriter(made.append, output_schema(rows.schema, columns), columns)
    for record in records_of(rows, columns, first=1):
        writer.write(record, NewRecord(()))
    (batch,) = made
    assert not any(SECRET.encode() in bytes(b) for column in batch.columns for b in column.buffers() if b is not None)


def database(path: Path, texts: list[object], ids: list[object]) -> None:
    with closing(sqlite3.connect(path)) as base:
        base.execute("CREATE TABLE notes (number INTEGER, text, id)")
        rows = [(number, *row) for number, row in enumerate(zip(texts, ids, strict=True))]
        base.executemany("INSERT INTO notes VALUES (?, ?, ?)", rows)
        # Text that is not UTF-8, which SQLite keeps all the same.
        base.execute("UPDATE notes SET text = CAST(text AS TEXT) WHERE id = 'cast'")
        base.commit()


def test_a_blob_withholds_its_note_alone(tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blob = struct.pack(">I", 7) + SECRET.encode()
    path = tmp_path / "notes.db"
    database(path, ["A note.", blob, "Third.", b"\xff" + SECRET.encode(), 7], ["a", "b", blob, "cast", "e"])
    url = f"sqlite:///{path}"
    query = "SELECT number, text, id FROM notes ORDER BY number"
    options = ["--id-column", "id", "--keep-columns", "number", "--out", str(tmp_path / "o"), "--quiet"]
    command = ["deidentify", str(tiny_model), url, "--query", query, "--table-out", "clean", *options]
    assert main(command) == 3
    said = capsys.readouterr()
    assert "1 note written to clean, 4 withheld" in said.out
    assert SECRET not in said.out + said.err
    with closing(sqlite3.connect(path)) as base:
        made = base.execute("SELECT text, id FROM clean ORDER BY number").fetchall()
    assert [text for text, _ in made] == ["A note.", None, None, None, None]
    assert made[2][1] is None
    assert all(isinstance(made[k][1], str) for k in (0, 1, 3, 4))


def test_a_blob_in_a_database_is_one_record_with_an_error(tmp_path: Path) -> None:
    database(tmp_path / "n.db", ["x", b"\x00"], ["a", "b"])
    source = SqlQuery(
        f"sqlite:///{tmp_path / 'n.db'}", "SELECT text, id FROM notes ORDER BY id", "o", Columns("text", "id")
    )
    good, bad = source.records()
    assert (good.text, good.error) == ("x", None)
    assert "row 2: the column text has a value of an unknown type" in str(bad.error)
    assert source.count() == 2
