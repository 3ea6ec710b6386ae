"""What `deidentify` must not destroy, hand out beside its output, or take for done."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_keys import KEY

from ensemble_deid import CorpusError, WithheldNote, deidentify_series
from ensemble_deid.cli.main import main
from ensemble_deid.corpora.messages.content import EncodedText
from ensemble_deid.corpora.messages.fhir import read_fhir
from ensemble_deid.corpora.xml_parser import read_tree
from ensemble_deid.deidentify.manifest import verify_run

NOTE = "Seen on 03/04/2019."
CLEAN = "Seen on [DATE]."


def write(path: Path, text: str = NOTE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def deidentify(model: Path, *arguments: str | Path) -> int:
    return main(["deidentify", str(model), *map(str, arguments), "--quiet"])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(("suffix", "text"), [(".txt", NOTE), (".csv", f"text\n{NOTE}\n")])
def test_nested_notes_are_not_written_over_by_those_of_another_folder(
    tiny_model: Path, tmp_path: Path, suffix: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("data/in/x", "data/in/in/x"):
        write(tmp_path / f"{name}{suffix}", text)
    before = contents(tmp_path)
    assert deidentify(tiny_model, tmp_path / "data" / "in", "--recursive", "--out", tmp_path / "data") == 2
    assert contents(tmp_path) == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "in").symlink_to(tmp_path / "data" / "in" / "in")
    assert deidentify(tiny_model, tmp_path / "data" / "in", "--recursive", "--out", tmp_path / "other") == 2
    assert {name: data for name, data in contents(tmp_path).items() if "other" not in name} == before
    assert capsys.readouterr().err.count("nothing is written over what is read") == 2
    assert deidentify(tiny_model, tmp_path / "data" / "in", "--recursive", "--out", tmp_path / "new") == 0
    assert (tmp_path / "new" / "in" / f"x{suffix}").read_text(encoding="utf-8") == text.replace(NOTE, CLEAN)


def test_the_runs_own_files_are_no_input(tiny_model: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "run" / "spans.jsonl", json.dumps({"id": "a", "text": NOTE}) + "\n")
    before = contents(tmp_path)
    assert deidentify(tiny_model, source, "--run", tmp_path / "run", "--out", tmp_path / "out.jsonl") == 2
    assert contents(tmp_path) == before


@pytest.mark.parametrize("spans", ["out.jsonl", "out.jsonl.run/spans.jsonl"])
def test_a_copy_of_the_spans_does_not_replace_the_output(tiny_model: Path, tmp_path: Path, spans: str) -> None:
    source = write(tmp_path / "in.jsonl", json.dumps({"id": "a", "text": NOTE}) + "\n")
    assert deidentify(tiny_model, source, "--out", tmp_path / "out.jsonl", "--spans", tmp_path / spans) == 2
    assert sorted(contents(tmp_path)) == ["in.jsonl"]


@pytest.mark.parametrize(("suffix", "text"), [(".txt", NOTE), (".csv", f"text\n{NOTE}\n")])
@pytest.mark.parametrize(
    "named",
    [
        ("--spans", "in/sub/b{}"),
        ("--spans", "out/a{}"),
        ("--spans", "out/sub/b{}"),
        ("--spans", "out/new.jsonl"),
        ("--run", "out/sub"),
        ("--run", "out"),
        ("--spans", "policy.toml"),
    ],
)
def test_neither_the_spans_nor_the_run_go_among_the_notes(
    tiny_model: Path, tmp_path: Path, suffix: str, text: str, named: tuple[str, str]
) -> None:
    for name in ("a", "sub/b"):
        write(tmp_path / "in" / f"{name}{suffix}", text)
    policy = write(tmp_path / "policy.toml", 'style = "tag"\n')
    before = contents(tmp_path)
    option, place = named[0], tmp_path / named[1].format(suffix)
    arguments = [tmp_path / "in", "--recursive", "--policy", policy, "--out", tmp_path / "out", option, place]
    assert deidentify(tiny_model, *arguments) == 2
    assert contents(tmp_path) == before


def test_a_file_is_not_written_into_the_runs_folder(tiny_model: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", json.dumps({"id": "a", "text": NOTE}) + "\n")
    assert deidentify(tiny_model, source, "--out", tmp_path / "r" / "out.jsonl", "--run", tmp_path / "r") == 2
    assert sorted(contents(tmp_path)) == ["in.jsonl"]
    assert main(["predict", str(tiny_model), str(source), *(f"--{o}={tmp_path / 'p'}" for o in ("out", "html"))]) == 2


def test_a_database_is_not_replaced_by_a_copy_of_the_spans(tiny_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed (extra sql)")
    with closing(sqlite3.connect(tmp_path / "n.db")) as base, base:
        base.execute("CREATE TABLE notes (n INTEGER, body TEXT)")
    before = contents(tmp_path)
    query = ("--query", "SELECT n, body FROM notes ORDER BY n", "--text-column", "body", "--id-column", "n")
    arguments = (f"sqlite:///{tmp_path / 'n.db'}", *query, "--table-out", "clean", "--out", tmp_path / "sql")
    assert deidentify(tiny_model, *arguments, "--spans", tmp_path / "n.db") == 2
    assert contents(tmp_path) == before


def test_a_finished_run_is_not_done_for_other_notes_or_another_policy(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)
    write(tmp_path / "in" / "a.txt")
    policy = write(tmp_path / "policy.toml", 'style = "tag"\n')
    arguments = [tmp_path / "in", "--out", tmp_path / "out", "--policy", policy]
    assert deidentify(tiny_model, *arguments) == 0
    assert deidentify(tiny_model, *arguments, "--resume") == 0
    write(policy, 'style = "mask"\n')
    assert deidentify(tiny_model, *arguments, "--resume") == 2
    write(policy, 'style = "tag"\n')
    write(tmp_path / "in" / "b.txt")
    assert deidentify(tiny_model, *arguments, "--resume") == 2


def test_a_folder_of_tables_says_what_it_does_not_read(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "in" / "a.csv", f"text\n{NOTE}\n")
    write(tmp_path / "in" / "letter.docx")
    assert deidentify(tiny_model, tmp_path / "in", "--out", tmp_path / "out") == 0
    assert "letter.docx: not a csv file: skipped" in capsys.readouterr().err
    write(tmp_path / "in" / "deeper" / "b.csv", f"text\n{NOTE}\n")
    assert deidentify(tiny_model, tmp_path / "in", "--out", tmp_path / "new") == 2
    assert "--recursive reads these, too" in capsys.readouterr().err
    assert deidentify(tiny_model, tmp_path / "in", "--recursive", "--out", tmp_path / "new") == 0
    assert (tmp_path / "new" / "deeper" / "b.csv").is_file()


def test_a_dictionary_has_no_text_of_other_rows(tiny_model: Path, tmp_path: Path) -> None:
    # Rows are written in batches of 1000; the second has nothing to replace, and the dictionary of both.
    texts = [f"Seen on 03/04/2019, {number}." for number in range(1000)] + ["Well."] * 1000
    pq.write_table(pa.table({"text": pa.array(texts).dictionary_encode()}), tmp_path / "in.parquet")
    arguments = [tmp_path / "in.parquet", "--out", tmp_path / "out.parquet", "--text-column", "text"]
    assert deidentify(tiny_model, *arguments) == 0
    with pq.ParquetFile(tmp_path / "out.parquet", read_dictionary=["text"]) as file:
        for group in range(file.num_row_groups):
            for chunk in file.read_row_group(group).column("text").chunks:
                assert not any("03/04/2019" in value for value in chunk.dictionary.to_pylist())


def test_categories_of_a_series_are_no_texts_as_they_were(tiny_model: Path) -> None:
    withheld: list[WithheldNote] = []
    made = deidentify_series(pd.Series([NOTE, None, "Well."], dtype="category"), tiny_model, withheld=withheld)
    assert made.tolist()[0::2] == [CLEAN, "Well."]
    assert made.dtype.name != "category"
    for kind in (pl.Categorical, pl.Enum([NOTE, "Well."])):
        assert deidentify_series(pl.Series([NOTE, "Well."], dtype=kind), tiny_model).to_list() == [CLEAN, "Well."]
    assert withheld == []


@pytest.mark.parametrize("place", ["<a>Garc&iacute;a</a>", '<a b="Garc&iacute;a"/>'])
def test_an_entity_of_a_document_type_that_is_not_read_is_refused(tmp_path: Path, place: str) -> None:
    head = '<?xml version="1.0"?>\n<!DOCTYPE a SYSTEM "a.dtd">\n'
    path = write(tmp_path / "a.xml", head + place)
    with pytest.raises(CorpusError, match=r"a\.xml:3: an entity that the file does not define"):
        read_tree(path, external_dtd=True)
    write(path, head + "<a>A &amp; B&#233;<![CDATA[&x;]]></a>")
    assert read_tree(path, external_dtd=True).text == "A & Bé&x;"


def resource(kind: str, **members: object) -> dict[str, object]:
    return {"resourceType": kind, "text": {"status": "generated", "div": "<div>Ada</div>"}, **members}


def test_a_bundle_of_two_patients_is_refused() -> None:
    def bundle(*resources: dict[str, object]) -> bytes:
        return json.dumps({"resourceType": "Bundle", "entry": [{"resource": one} for one in resources]}).encode()

    two = bundle(resource("Patient", id="7"), resource("Patient", id="8"))
    unnamed = bundle(resource("Patient"), resource("Patient"))
    contained = {"contained": [{"resourceType": "Patient", "id": "p"}], "subject": {"reference": "#p"}}
    other = bundle(resource("Composition", **contained), resource("Composition", **contained))
    for data in (two, unnamed, other):
        with pytest.raises(CorpusError, match="is about 2 patients"):
            read_fhir(data, "notes")
    assert read_fhir(bundle(resource("Composition", **contained)), "notes").patient is None
    urn = {"subject": {"reference": "urn:uuid:7"}}
    assert (
        read_fhir(bundle(resource("Patient", id="7"), resource("Composition", **urn)), "notes").patient == "Patient/7"
    )


def test_a_malformed_chain_is_told(tmp_path: Path) -> None:
    write(tmp_path / "manifest.jsonl", json.dumps({"entry": "run", "previous": "0" * 64}) + "\n")
    with pytest.raises(CorpusError, match=r"manifest\.jsonl:1: "):
        verify_run(tmp_path)


def test_edits_of_a_long_message_are_made_in_one_reading() -> None:
    encoded = EncodedText()
    for _ in range(20_000):
        encoded.add("a", "&a;")
    reads = []

    class Counted(EncodedText):
        @property
        def text(self) -> str:
            reads.append(1)
            return super().text

    counted = Counted(encoded.characters, encoded.pieces)
    counted.joined = {k: (k, k + 2) for k in range(0, 20_000, 2)}
    counted.edited([(k, k + 1, "b") for k in range(0, 20_000, 2)], str)
    assert len(reads) == 1
