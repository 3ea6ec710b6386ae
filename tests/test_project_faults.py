"""Projects where something goes wrong: notes withheld, runs broken off, patients forgotten, options changed."""

import csv
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_keys import KEY, made_key
from marked_notes import marked_note
from project_notes import model_of, write_notes

from ensemble_deid import Columns, RunSummary, SiteLists, deidentify_files, deidentify_table, verify_run
from ensemble_deid.cli.main import main
from ensemble_deid.corpora.input_options import InputOptions
from ensemble_deid.deidentify.project import night as nights_of
from ensemble_deid.deidentify.project.memory import WaitingRows, possible_repeats
from ensemble_deid.deidentify.project.night import (
    BROKEN_OFF,
    CORRECTED,
    OTHER_SETTINGS,
    READY,
    WITHHELD,
    Night,
    Project,
)
from ensemble_deid.deidentify.project.store import HELD, RELEASE, KeptNote, Store
from ensemble_deid.deidentify.repeats import Known
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document

ALONE = Columns(id="id", patient="patient_id", keep=("id", "patient_id"))
NAMES = marked_note("<PATIENT|Rose Okafor> called.", id="a", patient="M1")
REPEATS = marked_note("Rose Okafor slept.", id="b", patient="M1")
OTHER = marked_note("Seen: <PATIENT|Bob Stone>.", id="c", patient="M2")


class Site:
    """A project and its model; `gate` withholds the notes of these ids, as the gate does (never with accept_unfit)."""

    def __init__(self, folder: Path, *notes: Document) -> None:
        self.folder, self.model = folder, model_of(notes)
        self.store = Store.create(folder / "project", KEY)

    def night(self, name: str, notes: Sequence[Document], **choices: Any) -> RunSummary:
        source = write_notes(self.folder / f"{name}-in.jsonl", notes)
        return self.run(source, f"{name}.jsonl", columns=ALONE, **choices)

    def run(self, source: Path, name: str, **choices: Any) -> RunSummary:
        within = Project(store=self.reopened(), **choices.pop("project", {}))
        given = {"key": KEY, "style": "surrogate", "accept_unfit": True, "within": within, **choices}
        call = deidentify_files if source.is_dir() else deidentify_table
        return call(source, self.folder / name, self.model, **given)

    def table(self, name: str, rows: Sequence[str], columns: Columns, **choices: Any) -> list[dict[str, str]]:
        source = self.folder / f"{name}-in.csv"
        source.write_text("\n".join(rows), encoding="utf-8")
        self.run(source, f"{name}.csv", columns=columns, **choices)
        return list(csv.DictReader((self.folder / f"{name}.csv").read_text("utf-8").splitlines()))

    def text(self, name: str, id: str) -> str:
        lines = map(json.loads, (self.folder / f"{name}.jsonl").read_text("utf-8").splitlines())
        return next(line["text"] for line in lines if line["id"] == id)

    def reopened(self) -> Store:
        return Store(self.folder / "project", KEY)

    def due(self) -> dict[str, str]:
        return {row.memory["id"]: row.due for row in self.reopened().rows() if row.due}

    def changes(self) -> list[tuple[Any, ...]]:
        found = [(change.facts, change.facts["new"] is None) for change in self.reopened().changes()]
        return [(facts["note"], facts["why"], withheld) for facts, withheld in found]


def withholding(site: Site, monkeypatch: pytest.MonkeyPatch, *texts: str) -> None:
    """Let the model fail on notes that hold one of these texts after it has found their spans."""
    from ensemble_deid.deidentify.one_pass import NotePass

    finish = NotePass.finish

    def failing(self: NotePass, note: Any, taken: frozenset[str] = frozenset()) -> Any:
        result = finish(self, note, taken)
        if isinstance(note, Document) and any(text in note.text for text in texts):
            return replace(result, text=None, spans=(), replaced=(), error=f"{note.id}: held back")
        return result

    monkeypatch.setattr(NotePass, "finish", failing)


@pytest.mark.parametrize("together", [True, False])
def test_a_withheld_note_teaches_and_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: bool) -> None:
    site = Site(tmp_path, NAMES, REPEATS)
    with monkeypatch.context() as patch:
        withholding(site, patch, "called")
        if together:
            site.night("1", [NAMES, REPEATS])
            assert "Okafor" not in site.text("1", "b")
        else:
            assert len(site.night("1", [NAMES]).withheld) == 1
        assert site.due() == {"a": WITHHELD}
        site.night("2", [REPEATS], project={"again": True})
        assert "Okafor" not in site.text("2", "b")
        assert site.due() == {"a": WITHHELD}
    # As soon as it can be handed out, it is.
    assert site.night("3", [NAMES, REPEATS]).written == 1
    assert site.due() == {}


def test_an_output_that_was_taken_away_is_not_believed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, folder = Site(tmp_path, NAMES), tmp_path / "in"
    folder.mkdir()
    note, out = folder / "1.txt", tmp_path / "out" / "1.txt"

    def night(number: int, text: bytes) -> RunSummary:
        note.write_bytes(text)
        return site.run(folder, "out", run=tmp_path / f"{number}.run")

    night(1, b"First version.")
    with monkeypatch.context() as patch:
        withholding(site, patch, "Second")
        assert night(2, b"Second version.").counts[nights_of.TAKEN_BACK] == 1
    assert not out.exists()
    assert site.due() == {"1": WITHHELD}
    assert site.changes() == [("1", CORRECTED, True)]
    night(3, b"First version.")
    assert out.read_bytes() == b"First version."
    # One that cannot be read is withheld, too, and is still its patient's.
    night(4, b"\xff\xfe broken \x00")
    assert (out.exists(), site.due()) == (False, {"1": WITHHELD})
    night(5, b"First version.")
    assert (out.exists(), site.due()) == (True, {})


def test_every_place_of_a_patient_is_listed_when_it_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)
    corrected, moved = replace(OTHER, text="Seen twice.", spans=()), replace(NAMES, patient_id="M3")
    site = Site(Path(), NAMES, OTHER)
    site.night("1", [NAMES, OTHER])
    site.night("2", [corrected, moved])

    def forgotten(patient: str) -> str:
        capsys.readouterr()
        assert main(["project", "forget", "project", patient]) == 0
        return capsys.readouterr().out

    new = made_key("new")
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    Path("copy").mkdir()
    Path("copy/project.db").write_bytes(Path("project/project.db").read_bytes())
    said = forgotten("M2")
    assert f"delete: c ({first})\ndelete: c ({second})\n" in said
    # The note was another patient's when it was handed out first.
    assert f"delete: a ({first})\n" in forgotten("M1")
    assert f"delete: a ({second})\n" in forgotten("M3")
    Store("copy", KEY).rotate(new)
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", new.text)
    Path("project/project.db").write_bytes(Path("copy/project.db").read_bytes())
    assert f"delete: c ({first})\ndelete: c ({second})\n" in forgotten("M2")
    assert f"delete: a ({first})\n" in forgotten("M1")


def lists_of(**files: Path) -> SiteLists:
    return SiteLists.read(labels=["PATIENT", "HOSPITAL"], **files)


def test_notes_that_other_lists_or_settings_made_are_due(tmp_path: Path) -> None:
    site, note = Site(tmp_path, OTHER), replace(NAMES, text="At Zanzibor.", spans=())
    site.night("1", [note, OTHER])
    deny = tmp_path / "deny.csv"
    deny.write_text("label,value\nHOSPITAL,Zanzibor\n", encoding="utf-8")
    site.night("2", [OTHER], lists=lists_of(deny=deny))
    assert site.due() == {"a": OTHER_SETTINGS}
    assert site.night("3", [note, OTHER], lists=lists_of(deny=deny)).written == 1
    assert "Zanzibor" not in site.text("3", "a")
    assert (site.due(), site.changes()) == ({}, [("a", OTHER_SETTINGS, False)])
    lists = lists_of(deny=deny)
    site.night("4", [], lists=lists, threshold=0.1)
    assert site.due() == {"a": OTHER_SETTINGS, "c": OTHER_SETTINGS}
    site.night("5", [], lists=lists)
    assert site.due() == {}
    site.night("6", [], lists=lists, accept_unfit=False)
    assert site.due() == {"a": OTHER_SETTINGS, "c": OTHER_SETTINGS}
    # Notes can be handed out again without any reason.
    assert site.night("7", [note, OTHER], lists=lists, project={"again": True}).written == 2


def test_of_the_known_identifiers_a_patients_own_count(tmp_path: Path) -> None:
    site, known = Site(tmp_path, NAMES, OTHER), tmp_path / "known.csv"

    def night(name: str, *rows: str) -> dict[str, str]:
        known.write_text("\n".join(["patient_id,kind,value", "M1,name,Rose Okafor", *rows]), encoding="utf-8")
        site.night(name, [NAMES] if name == "1" else [], lists=lists_of(known=known))
        return site.due()

    site.night("0", [OTHER], lists=lists_of())
    assert night("1") == {}
    assert night("2", "M9,name,Hoa Nguyen") == {}
    assert night("3", "M2,name,Bo Green") == {"c": OTHER_SETTINGS}
    assert night("4", ",staff,Adaeze Okonkwo") == {"a": OTHER_SETTINGS, "c": OTHER_SETTINGS}


DATED = Columns(id="id", patient="mrn", dates=("seen",), keep=("ward",))


def test_a_column_of_dates_has_one_order_in_all_nights(tmp_path: Path) -> None:
    site = Site(tmp_path)
    head = "id,mrn,seen,ward,text"
    first = site.table("1", [head, "1,M1,28/09/2019,A,One", "2,M1,10/09/2019,A,Two"], DATED)
    (again,) = site.table("2", [head, "3,M1,10/09/2019,A,Three"], DATED)
    assert again["seen"] == first[1]["seen"]
    for row, columns in (("4,M1,09/28/2019,A,Four", DATED), ("4,M1,1/2/2019,A,Four", replace(DATED, date_order="mdy"))):
        with pytest.raises(CorpusError, match="the column seen are not in the order dmy"):
            site.table("3", [head, row], columns)
    assert site.due() == {"4": BROKEN_OFF}


def test_a_date_beside_the_text_is_due_when_it_comes_to_show_a_great_age(tmp_path: Path) -> None:
    site, head = Site(tmp_path), "id,mrn,seen,ward,text"
    (born,) = site.table("1", [head, "1,M1,1940-03-04,A,Born."], DATED)
    assert born["seen"]
    site.table("2", [head, "2,M1,2032-03-04,A,Seen."], DATED)
    assert site.due() == {"1": "later notes change a replacement"}
    (born,) = site.table("3", [head, "1,M1,1940-03-04,A,Born."], DATED)
    assert (born["seen"], site.due()) == ("", {})


@pytest.mark.parametrize("row", ["1,M1,2019-03-05,A,One", "1,M1,2019-03-04,B,One", "1,M2,2019-03-04,A,One"])
def test_any_cell_can_be_corrected(tmp_path: Path, row: str) -> None:
    site, head, old = Site(tmp_path), "id,mrn,seen,ward,text", "1,M1,2019-03-04,A,One"
    site.table("1", [head, old], DATED)
    assert site.table("2", [head, old], DATED) == []
    assert len(site.table("3", [head, row], DATED)) == 1
    assert site.changes() == [("1", CORRECTED, False)]


def test_every_form_of_table_tells_its_cells(tmp_path: Path) -> None:
    sqlalchemy, pyarrow = pytest.importorskip("sqlalchemy"), pytest.importorskip("pyarrow")
    from ensemble_deid.deidentify.sources import note_source

    columns = Columns(id="id", keep=("ward",))
    rows = [{"id": "1", "ward": ward, "text": "One"} for ward in "AAB"]
    parquet, lines, base = tmp_path / "n.parquet", tmp_path / "n.jsonl", tmp_path / "n.db"
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), parquet)
    lines.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    with sqlalchemy.create_engine(f"sqlite:///{base}").begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE n (k INTEGER, id TEXT, ward TEXT, text TEXT)"))
        for number, row in enumerate(rows):
            insert = sqlalchemy.text("INSERT INTO n VALUES (:k, :id, :ward, :text)")
            connection.execute(insert, {"k": number, **row})
    query = InputOptions(columns=columns, query="SELECT id, ward, text FROM n ORDER BY k", table_out="o")
    for place, options in ((parquet, None), (lines, None), (f"sqlite:///{base}", query)):
        source = note_source(place, options or InputOptions(columns=columns), leave_out=[])
        first, second, third = (repr(record.cells()) for record in source.records())
        assert first == second != third


def test_a_stream_is_no_place_for_outputs(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    site, source = Site(tmp_path, OTHER), write_notes(tmp_path / "n.jsonl", [OTHER])
    import io

    with pytest.raises(ConfigError, match="name --out"):
        deidentify_table(source, io.BytesIO(), site.model, columns=ALONE, within=Project(store=site.store), key=KEY)
    assert site.due() == {}


def test_a_run_that_was_broken_off_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)
    site = Site(Path(), OTHER)
    with monkeypatch.context() as patch:
        patch.setattr(Night, "commit", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            site.night("1", [OTHER])
    verify_run("1.jsonl.run")
    assert main(["project", "status", "project"]) == 1
    assert f"again: c: {BROKEN_OFF} ({tmp_path / '1.jsonl'})" in capsys.readouterr().out
    # The same night under another name: the output of the first is not lost.
    site.night("2", [OTHER])
    assert site.due() == {}
    assert main(["project", "forget", "project", "M2"]) == 0
    assert "(" + str(tmp_path / "1.jsonl") + ")" in capsys.readouterr().out
    Path("2.jsonl.run/manifest.jsonl").unlink()
    with pytest.raises(ConfigError, match="this very run was broken off: --resume"):
        site.night("2", [OTHER])


def test_a_finished_night_is_told_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of both kinds of withheld notes: one that the project knows, and one that cannot be read."""
    site, summary = Site(tmp_path, NAMES, OTHER), tmp_path / "summary.json"
    withholding(site, monkeypatch, "Bob")
    source = write_notes(tmp_path / "1-in.jsonl", [NAMES, OTHER])
    with source.open("a", encoding="utf-8") as stream:
        stream.write("{broken\n")

    def night(**choices: Any) -> RunSummary:
        return site.run(source, "1.jsonl", columns=ALONE, summary=summary, **choices)

    first = night()
    told = json.loads(summary.read_text("utf-8"))
    assert (told["written"], told["withheld"]) == (1, 2)
    output = (tmp_path / "1.jsonl").read_bytes()
    again = night(resume=True)
    assert (again.finished_before, again.written, len(again.withheld)) == (True, 1, 2)
    assert (again.labels, again.words, again.head) == (first.labels, first.words, first.head)
    assert {**json.loads(summary.read_text("utf-8")), "counts": {}} == {**told, "counts": {}}
    with pytest.raises(ConfigError, match="compares nothing again: run without --resume"):
        night(resume=True, compare=tmp_path / "page.html")
    assert (tmp_path / "1.jsonl").read_bytes() == output
    # Another input is another night.
    write_notes(source, [NAMES, OTHER, REPEATS])
    with pytest.raises(ConfigError, match="holds the output of another run"):
        night(resume=True)


def test_a_table_in_a_database_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, base = Site(tmp_path), tmp_path / "n.db"
    with sqlite3.connect(base) as connection:
        connection.execute("CREATE TABLE n (id TEXT, mrn TEXT, text TEXT)")
        connection.execute("INSERT INTO n VALUES ('1', 'M1', 'One.')")
    connection.close()
    options = InputOptions(
        query="SELECT * FROM n ORDER BY id", table_out="clean", columns=Columns(id="id", patient="mrn")
    )
    within = Project(store=site.store)
    deidentify_table(
        f"sqlite:///{base}",
        None,
        site.model,
        input=options,
        run=tmp_path / "r",
        within=within,
        key=KEY,
        accept_unfit=True,
    )
    with site.reopened().changing() as commit:
        ((_, place),) = commit.forget("M1")
    assert place == "table clean"


def test_a_patient_forgotten_during_a_night_stays_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, OTHER)
    commit = Night.commit

    def forgetting(night: Night) -> None:
        with site.reopened().changing() as other:
            assert other.forget("M2") == [("c", str(tmp_path / "1.jsonl"))]
        commit(night)

    monkeypatch.setattr(Night, "commit", forgetting)
    with pytest.raises(ConfigError, match=r"was forgotten meanwhile; delete .*1\.jsonl, and the run's folder"):
        site.night("1", [OTHER])
    assert list(site.reopened().rows()) == []


def test_a_forgotten_patient_leaves_no_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)
    many = [replace(OTHER, id=f"n{number}") for number in range(40)]
    site, file = Site(tmp_path, NAMES, *many), tmp_path / "project" / "project.db"
    site.night("1", [NAMES, *many])
    site.night("2", [replace(NAMES, text="Rose Okafor slept."), *many], threshold=0.1)

    def kept() -> list[str | bytes]:
        with sqlite3.connect(file) as connection:
            tables = ("notes", "changes")
            cells = [
                cell for name in tables for row in connection.execute(f"SELECT * FROM deid_{name}") for cell in row
            ]
        connection.close()
        return [cell for cell in cells if isinstance(cell, str | bytes) and len(cell) > 20]

    before = kept()
    assert main(["project", "forget", str(file.parent), "M2"]) == 0
    gone, data = set(before) - set(kept()), file.read_bytes()
    assert len(gone) > 100
    assert [cell for cell in gone if (cell.encode() if isinstance(cell, str) else cell) in data] == []
    assert {path.name for path in file.parent.iterdir()} == {"project.db"}
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    connection.close()


def test_nothing_is_forgotten_where_the_list_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)
    site = Site(tmp_path, OTHER)
    site.night("1", [OTHER])

    def closed(text: str) -> None:
        raise CorpusError("nobody reads this")

    monkeypatch.setattr("ensemble_deid.cli.project.say", closed)
    assert main(["project", "forget", str(tmp_path / "project"), "M2"]) == 2
    assert [row.memory["id"] for row in site.reopened().rows()] == ["c"]


def test_the_order_of_rows_joins_no_releases(tmp_path: Path) -> None:
    notes = [marked_note("Text.", id=f"n{number}", patient="M1") for number in range(20)]
    site = Site(tmp_path, *notes)
    site.night("1", notes)
    output = next(site.store.rows()).output
    assert output is not None
    assert len({row.output for row in site.reopened().rows()}) == 20
    site.reopened().rotate(made_key("new"))
    with sqlite3.connect(tmp_path / "project" / "project.db") as connection:
        tags = [tag for (tag,) in connection.execute("SELECT tag FROM deid_notes ORDER BY rowid")]
    connection.close()
    assert tags == sorted(tags)


def test_a_held_note_is_due_when_enough_have_come(tmp_path: Path) -> None:
    site, second = Site(tmp_path, NAMES, REPEATS), REPEATS
    site.night("1", [NAMES], project={"hold": 2})
    assert site.due() == {"a": HELD}
    assert site.night("2", [second], project={"hold": 2}).written == 1
    assert site.due() == {"a": READY}
    site.night("3", [NAMES], project={"hold": 2})
    assert site.due().get("a") is None


def test_a_project_that_was_half_made_is_made(tmp_path: Path) -> None:
    Store.create(tmp_path / "project", KEY)
    with sqlite3.connect(tmp_path / "project" / "project.db") as connection:
        connection.execute("DELETE FROM deid_project")
    connection.close()
    with pytest.raises(ConfigError, match="is not a project"):
        Store(tmp_path / "project", KEY)
    assert Store.create(tmp_path / "project", KEY).release == 1


@pytest.mark.parametrize("change", ["due = NULL", "output = 'x'", "patient = 'x'", "made = 'x'"])
def test_no_column_can_be_changed(tmp_path: Path, change: str) -> None:
    site = Site(tmp_path, NAMES, REPEATS)
    site.night("1", [NAMES], project={"hold": 2})
    with sqlite3.connect(tmp_path / "project" / "project.db") as connection:
        connection.execute(f"UPDATE deid_notes SET {change}")
    connection.close()
    with pytest.raises(ConfigError, match="was changed"):
        list(site.reopened().rows())


def test_the_error_after_a_rotation_says_what_to_delete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, commit = Site(tmp_path, OTHER), Night.commit

    def rotating(night: Night) -> None:
        site.reopened().rotate(made_key("new"))
        commit(night)

    monkeypatch.setattr(Night, "commit", rotating)
    with pytest.raises(ConfigError, match=r"another release was begun meanwhile; delete .*1\.jsonl"):
        site.night("1", [OTHER])
    assert {row.due for row in Store(tmp_path / "project", made_key("new")).rows()} == {RELEASE}


def test_what_waits_for_the_end_of_a_night_is_sealed(tmp_path: Path) -> None:
    waiting = WaitingRows(Store.create(tmp_path / "project", KEY))
    row = KeptNote("t", "p", "i", {"found": [["Rose Okafor"]]})
    for due in ("first", "last"):
        waiting.add(replace(row, due=due))
    assert (list(waiting.tags), waiting.row("t")) == (["t"], replace(row, due="last"))
    waiting._file.seek(0)
    assert b"Rose" not in waiting._file.read()


def test_a_string_inside_other_words_is_not_joined() -> None:
    known = Known(frozenset(), {"Ann Lee": ("PATIENT", 1.0)}, lambda label: True)
    spans = [["Ann", "PATIENT", "", "", False], ["Lee", "PATIENT", "", "", False]]
    inside = [*spans, ["MaryAnn Leeson", "PATIENT", "", "", False]]
    assert possible_repeats(spans, "", known, KEY) == possible_repeats(inside, "", known, KEY) != []
    assert possible_repeats([*spans, ["Ann Lee", "PATIENT", "", "", False]], "", known, KEY) == []


def test_no_error_shows_a_url(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)
    url = f"sqlite:///{tmp_path / 'hidden.db'}"
    Store.create(url, KEY)
    assert main(["project", "forget", url, "M1"]) == 2
    assert "hidden" not in capsys.readouterr().err
