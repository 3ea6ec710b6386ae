"""Whatever the form of a table: a record is read as any other program reads it, and every byte outside edits stays."""

import csv
import io
import itertools
import json
import sqlite3
import tempfile
from contextlib import closing
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.corpora.edits import edited
from ensemble_deid.corpora.note_files import NoteFiles
from ensemble_deid.corpora.read import locate_corpus
from ensemble_deid.corpora.records import NewRecord, NoteSource
from ensemble_deid.corpora.tables.arrow import ArrowTable
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.corpora.tables.delimited import DelimitedTable
from ensemble_deid.corpora.tables.json_lines import JsonLines
from ensemble_deid.corpora.tables.sql import SqlQuery
from ensemble_deid.errors import CorpusError

# Characters that some form writes in a way of its own.
CHARACTERS = st.sampled_from('ab1 ,;\t"\\/\n\réß😀\u2028')
TEXTS = st.text(CHARACTERS, max_size=12)
NEW = st.text(CHARACTERS, max_size=4)
COLUMNS = Columns("text", "id", keep=("other",))


@st.composite
def edits(draw: st.DrawFn, text: str) -> tuple[tuple[int, int, str], ...]:
    """Draw replacements of parts of a text, in order."""
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    return tuple((a, b, draw(NEW)) for a, b in list(itertools.pairwise(cuts))[::2])


def rewritten(source: NoteSource, out: Path, changes: list[tuple[tuple[int, int, str], ...]]) -> bytes:
    """Write a source with these edits to its notes; every id becomes p0, p1, ..."""
    ready = iter(enumerate(changes))
    with source.writer(out, lambda path, digest: None) as writer:
        for record in source.records():
            if record.blank:
                writer.write(record, NewRecord(()))
                continue
            number, own = next(ready)
            writer.write(record, NewRecord(own, f"p{number}", None, ()))
    assert next(ready, None) is None
    return out.read_bytes()


def csv_field(value: str, quoted: bool, delimiter: str) -> str:
    quoted = quoted or any(c in value for c in f'{delimiter}"\r\n')
    return '"' + value.replace('"', '""') + '"' if quoted else value


@settings(max_examples=150)
@given(data=st.data(), format=st.sampled_from(["csv", "tsv"]), bom=st.booleans(), end=st.sampled_from(["\n", "\r\n"]))
def test_delimited(data: st.DataObject, format: str, bom: bool, end: str) -> None:
    delimiter = {"csv": ",", "tsv": "\t"}[format]
    rows = data.draw(st.lists(st.tuples(TEXTS, TEXTS, TEXTS, st.booleans()), max_size=4))
    header = delimiter.join(["other", "text", "id"]) + end
    before, after, changes = header, header, []
    for number, (other, text, identity, quoted) in enumerate(rows):
        own = data.draw(edits(text)) if text else ()
        changes.append(own)
        kept, name = csv_field(other, quoted, delimiter), csv_field(identity, quoted, delimiter)
        before += delimiter.join([kept, csv_field(text, quoted, delimiter), name]) + end
        new = csv_field(edited(text, own), quoted or csv_field(text, False, delimiter)[:1] == '"', delimiter)
        name = csv_field(f"p{number}", name[:1] == '"', delimiter)
        after += delimiter.join([kept, new, name]) + end
    mark = b"\xef\xbb\xbf" if bom else b""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        path.write_bytes(mark + before.encode())
        source = DelimitedTable(path, format, COLUMNS)
        read = list(csv.reader(io.StringIO(before, newline=""), delimiter=delimiter))[1:]
        assert [(record.text or "", record.id or "") for record in source.records()] == [(r[1], r[2]) for r in read]
        assert rewritten(source, Path(folder) / "out", changes) == mark + after.encode()


@st.composite
def json_string(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Draw a string as (character, how it is written) pairs."""
    found = []
    for c in draw(TEXTS):
        forms = [json.dumps(c)[1:-1], json.dumps(c, ensure_ascii=False)[1:-1]]
        forms += ["\\/"] if c == "/" else ["\\u" + f"{ord(c):04X}"] if ord(c) < 0x10000 else []
        found.append((c, draw(st.sampled_from(forms))))
    return found


@settings(max_examples=150)
@given(data=st.data(), blank=st.sampled_from(["", " ", "\t "]), end=st.sampled_from(["\n", "\r\n"]))
def test_json_lines(data: st.DataObject, blank: str, end: str) -> None:
    before = after = ""
    changes = []
    for number in range(data.draw(st.integers(0, 3))):
        pairs = data.draw(json_string())
        text = "".join(c for c, _ in pairs)
        own = data.draw(edits(text))
        other = data.draw(st.sampled_from(["1.50e3", '{"text": "no", "x": [1, {}]}', "null", '"\\u00e9\\""', "[ ]"]))
        ascii_only = all(written.isascii() for _, written in pairs)
        new, position = "", 0
        for a, b, value in own:
            new += "".join(w for _, w in pairs[position:a]) + json.dumps(value, ensure_ascii=ascii_only)[1:-1]
            position = b
        new += "".join(w for _, w in pairs[position:])
        if not own:
            new = "".join(w for _, w in pairs)
        line = f'{blank}{{"a"{blank}:{other},{blank}"text":{blank}"%s","id":{blank}%s{blank}}}{end}'
        before += line % ("".join(w for _, w in pairs), '"x"') + ("\n" if number else "")
        after += line % (new, f'"p{number}"') + ("\n" if number else "")
        changes.append(own)
        assert json.loads(line % (new, '"x"'))["text"] == edited(text, own)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.jsonl"
        path.write_bytes(before.encode())
        assert (
            rewritten(JsonLines(path, Columns("text", "id", keep=("a",))), Path(folder) / "o", changes)
            == after.encode()
        )


@settings(max_examples=40)
@given(data=st.data(), format=st.sampled_from(["parquet", "file", "stream"]))
def test_parquet_and_arrow(data: st.DataObject, format: str) -> None:
    rows = data.draw(st.lists(st.tuples(st.none() | TEXTS, st.none() | st.floats(allow_nan=False)), max_size=5))
    schema = pa.schema(
        [("other", pa.float32()), pa.field("text", pa.large_string(), metadata={"k": "v"}), ("id", pa.string())]
    )
    columns = [[other for _, other in rows], [text for text, _ in rows], [f"i{k}" for k in range(len(rows))]]
    table = pa.table([pa.array(c, type=f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    changes = [data.draw(edits(text or "")) for text, _ in rows]
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "t", Path(folder) / "out"
        write_arrow(table, path, format)
        kind = "parquet" if format == "parquet" else "arrow"
        rewritten(ArrowTable(path, kind, COLUMNS), out, changes)
        made = read_arrow(out, format)
    assert made.schema.equals(table.schema)
    assert made.column("other").equals(table.column("other"))
    expected = [None if t is None else edited(t, own) for (t, _), own in zip(rows, changes, strict=True)]
    assert made.column("text").to_pylist() == expected
    assert made.column("id").to_pylist() == [f"p{k}" for k in range(len(rows))]


def write_arrow(table: pa.Table, path: Path, format: str) -> None:
    if format == "parquet":
        pq.write_table(table, path, row_group_size=2)
        return
    with (pa.ipc.new_file if format == "file" else pa.ipc.new_stream)(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def read_arrow(path: Path, format: str) -> pa.Table:
    if format == "parquet":
        return pq.read_table(path)
    return (pa.ipc.open_file if format == "file" else pa.ipc.open_stream)(path.read_bytes()).read_all()


@settings(max_examples=50)
@given(data=st.data())
def test_files(data: st.DataObject) -> None:
    text = data.draw(TEXTS)
    own = data.draw(edits(text))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "n.txt"
        path.write_bytes(text.encode())
        source = NoteFiles([(Path(), locate_corpus(path))])
        assert rewritten(source, Path(folder) / "out.txt", [own]) == edited(text, own).encode()


def test_dates_and_integers_keep_their_types(tmp_path: Path) -> None:
    schema = pa.schema(
        [("text", pa.string()), ("at", pa.timestamp("ns", "UTC")), ("on", pa.date64()), ("n", pa.int32())]
    )
    moment = 1_394_021_106_123_456_789
    table = pa.table([["x", None], [moment, None], [86_400_000, None], [7, None]], schema=schema)
    pq.write_table(table, tmp_path / "t.parquet")
    source = ArrowTable(tmp_path / "t.parquet", "parquet", Columns("text", "n", None, ("at", "on")))
    assert source.bits == (32, 64)
    first, second = source.records()
    assert first.dates == (date(2014, 3, 5), date(1970, 1, 2))
    with source.writer(tmp_path / "o.parquet", lambda path, digest: None) as writer:
        writer.write(first, NewRecord((), 9, None, (date(2014, 3, 6), None)))
        writer.write(second, NewRecord((), None, None, (None, None)))
    made = pq.read_table(tmp_path / "o.parquet")
    assert made.schema.types == pq.read_table(tmp_path / "t.parquet").schema.types
    assert made.column("at").cast(pa.int64()).to_pylist() == [moment + 86_400_000_000_000, None]
    assert made.column("on").to_pylist() == [None, None]
    assert made.column("n").to_pylist() == [9, None]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "is empty"),
        ("note,other\nx,y\n", "no column named text"),
        ("text,text\n", "two columns have the same name"),
        ("text,mrn\nx,y\n", "nothing says what the columns mrn hold"),
        ("text,other\nx\n", "row 1 below the header has 1 fields, not 2"),
        ('text,other\nx,5" tall" man\n', "a quote inside a field"),
        ('text,other\n"x,y\n', "a quote that is opened here is not closed"),
        ('text,other\n"x"y,z\n', "a quote inside a field"),
        ("text,other\nx,\xe9\n", "is not UTF-8"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(CorpusError, match=problem) as error:
        DelimitedTable(path, "csv", Columns(keep=("other",) if "other" in content else ())).count()
    assert "tall" not in str(error.value)


@pytest.mark.parametrize(
    "line", ['{"text": "a", "text": "b"}', "{", "[]", '{"text": 1}', '{"text": "x", "id": {}}', "{}"]
)
def test_a_bad_line_has_its_error(tmp_path: Path, line: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f'{line}\n{{"text": "good"}}\n', encoding="utf-8")
    first, second = JsonLines(path, Columns("text", "id")).records()
    assert str(first.error).startswith(f"{path}:1: ")
    assert second.text == "good"


def test_a_line_with_a_field_that_nobody_names_is_withheld(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "x", "patient": "7B", "spans": [{"start": 0}]}\n', encoding="utf-8")
    (record,) = JsonLines(path, Columns("text", "id", "patient_id")).records()
    assert f"{path}:1: unknown key 'patient'; did you mean 'patient_id'?" in str(record.error)
    kept = JsonLines(path, Columns("text", "id", keep=("patient",)))
    assert b'"patient": "7B", "spans": []' in rewritten(kept, tmp_path / "o", [()])
    path.write_text('{"text": "x", "Quillfeather": null}\n', encoding="utf-8")
    (record,) = JsonLines(path, Columns("text", "id")).records()
    assert "unknown key; known are text, id, spans" in str(record.error)
    assert "Quill" not in str(record.error)


@settings(max_examples=40)
@given(data=st.data())
def test_databases(data: st.DataObject) -> None:
    numbers = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXTS
    rows = data.draw(st.lists(st.tuples(st.none() | TEXTS, numbers), max_size=5))
    changes = [data.draw(edits(text or "")) for text, _ in rows]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "notes.db"
        with closing(sqlite3.connect(path)) as base:
            # A column without a type keeps what it is given.
            base.execute("CREATE TABLE notes (number INTEGER, other, text TEXT, id TEXT)")
            base.executemany(
                "INSERT INTO notes VALUES (?, ?, ?, ?)",
                [(k, other, text, f"i{k}") for k, (text, other) in enumerate(rows)],
            )
            base.commit()
        query = "SELECT number, other, text, id FROM notes ORDER BY number"
        source = SqlQuery(f"sqlite:///{path}", query, "clean", Columns("text", "id", keep=("number", "other")))
        ready = iter(enumerate(changes))
        with source.writer(Path(folder), lambda place, digest: None) as writer:
            for record in source.records():
                number, own = next(ready)
                writer.write(record, NewRecord(own, f"p{number}", None, ()))
        with closing(sqlite3.connect(path)) as base:
            made = base.execute("SELECT number, other, text, id FROM clean ORDER BY number").fetchall()
    assert made == [
        (k, other, None if text is None else edited(text, changes[k]), f"p{k}") for k, (text, other) in enumerate(rows)
    ]
