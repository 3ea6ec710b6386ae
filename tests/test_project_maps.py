"""Projects of whole records: what a record says beside its text is the same in all nights."""

import base64
import csv
import json
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from made_keys import KEY, made_key
from marked_notes import marked_note
from project_notes import model_of

from ensemble_deid import Columns, RecordMap, RunSummary, deidentify_table
from ensemble_deid.corpora.input_options import InputOptions
from ensemble_deid.corpora.record_map import FieldRule
from ensemble_deid.deidentify.known.identifiers import Identifier, KnownIdentifiers
from ensemble_deid.deidentify.known.kinds import KINDS
from ensemble_deid.deidentify.project.memory import FOUND_LATER, OTHER_VALUES
from ensemble_deid.deidentify.project.night import BROKEN_OFF, CORRECTED, OTHER_SETTINGS, UNCHANGED, Night, Project
from ensemble_deid.deidentify.project.store import RELEASE, Store
from ensemble_deid.deidentify.project.traces import held_by, traces_of
from ensemble_deid.deidentify.run import Run
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.keys import Key

COLUMNS: dict[str, Any] = {
    "id": {"kind": "pseudonym", "of": "note"},
    "mrn": {"kind": "pseudonym", "of": "patient"},
    "name": "patient",
    "text": "text",
    "visit": {"kind": "pseudonym", "of": "encounter"},
    "author": "staff",
    "seen": "date",
    "phone": "phone",
}
MAP = RecordMap.parse({"columns": COLUMNS}, "all")
MAP_OF_FOUR = RecordMap.parse({"columns": dict(list(COLUMNS.items())[:4])}, "four")
NAMES = ("Anna Bell", "Omar Quist", "Rose Okafor", "Johnny Walters", "Elizabeth Stone", "Hoa Nguyen")


def made_rows(seed: int = 0, number: int = 60) -> list[dict[str, str]]:
    """Return rows of six patients; what some rows say beside the text is in the text of others."""
    rng = random.Random(seed)
    rows = []
    for n in range(number):
        who = n % len(NAMES)
        name, author = NAMES[who], f"{rng.choice(('Peter', 'Carla', 'Shona'))} {rng.choice(('Irons', 'Vale', 'Marsh'))}"
        visits, phones = [f"V{who}{k}00{k}" for k in range(4)], [f"617-555-01{who}{k}" for k in range(3)]
        lines = [
            f"{name.split()[0]} came with pain.",
            f"Ms. {name.split()[1]} slept well.",
            f"Paged Dr. {rng.choice(('Irons', 'Vale', 'Marsh', 'Mrash'))} twice.",
            f"Call {rng.choice(phones)}.",
            f"Visit {rng.choice(visits)} of {rng.randrange(2012, 2020)}.",
            f"Seen by <DOCTOR|{author}>.",
            f"Now {rng.choice('12345')}, then {rng.choice('6789')}.",
        ]
        rows.append(
            {
                "id": f"n{n}",
                "mrn": f"MRN700{who}",
                "visit": rng.choice(visits),
                "name": rng.choice((name, "")),
                "author": rng.choice((author, "")),
                "seen": f"20{rng.randrange(12, 20)}-03-0{rng.randrange(1, 9)}",
                "phone": rng.choice((*phones, "")),
                # A row may have no note.
                "text": "\n".join(rng.sample(lines, 4)) if rng.random() < 0.9 else "",
            }
        )
    return rows


class Site:
    """A project with records; `texts` are the outputs as whoever received them has them now."""

    def __init__(self, folder: Path, marked: Sequence[str], key: Key = KEY) -> None:
        self.folder, self.key = folder, key
        folder.mkdir(exist_ok=True)
        self.notes = {text: marked_note(text, id="x", patient="x") for text in marked}
        self.model = model_of(self.notes.values())
        Store.create(folder / "project", key)
        self.runs, self.outputs = 0, dict[str, Any]()

    def store(self) -> Store:
        return Store(self.folder / "project", self.key)

    def run(self, source: Path, record_map: RecordMap | str, **choices: Any) -> RunSummary:
        self.runs += 1
        self.out = self.folder / f"out{self.runs}{source.suffix}"
        within = Project(store=self.store(), **choices.pop("project", {}))
        given = {"key": self.key, "style": "surrogate", "accept_unfit": True, "within": within, **choices}
        return deidentify_table(source, self.out, self.model, record_map=record_map, **given)

    def night(self, rows: Sequence[dict[str, str]], **choices: Any) -> RunSummary:
        source = self.folder / f"in{self.runs}.csv"
        with source.open("w", newline="") as stream:
            table = csv.DictWriter(stream, list(MAP.columns))
            table.writeheader()
            table.writerows({**row, "text": self.notes[row["text"]].text} for row in rows)
        summary = self.run(source, MAP, **choices)
        self.outputs |= {row["id"]: row for row in csv.DictReader(self.out.read_text().splitlines())}
        return summary

    def due(self) -> dict[str, str]:
        return {row.memory["id"]: row.due for row in self.store().rows() if row.due}


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 12), marks=pytest.mark.long)], ids=["few", "many"])
def test_any_division_into_nights_gives_the_same_records(tmp_path: Path, seeds: range) -> None:
    rows = made_rows()
    by_id, texts = {row["id"]: row for row in rows}, [row["text"] for row in rows]
    whole = Site(tmp_path / "whole", texts)
    whole.night(rows)
    assert whole.due() == {}
    listed = changed = 0
    for seed in seeds:
        rng = random.Random(seed)
        divided = Site(tmp_path / str(seed), texts)
        shuffled = rng.sample(rows, len(rows))
        cut = rng.randrange(10, 50)
        divided.night(shuffled[:cut])
        divided.night(shuffled[cut:])
        due = divided.due()
        new = {row["new_id"]: id for id, row in ((r.memory["id"], r.memory) for r in divided.store().rows())}
        other = {new[id] for id, row in divided.outputs.items() if row != whole.outputs[id]}
        # Nothing differs that `status` does not list.
        assert other <= due.keys()
        listed, changed = listed + len(due), changed + len(other)
        for _ in range(3):
            if divided.due():
                divided.night([by_id[id] for id in sorted(divided.due())])
        assert divided.outputs == whole.outputs
        assert divided.due() == {}
    assert 0 < changed <= listed < len(seeds) * len(rows)


def document(id: str, text: str, **more: object) -> dict[str, object]:
    data = base64.b64encode(text.encode()).decode()
    content = [{"attachment": {"contentType": "text/plain", "data": data}}]
    subject = {"reference": "Patient/p1"}
    return {"resourceType": "DocumentReference", "id": id, "subject": subject, "content": content, **more}


def text_of(line: dict[str, Any]) -> str:
    return base64.b64decode(line["content"][0]["attachment"]["data"]).decode()


def test_resources_that_come_night_by_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path / "site", ["Anna Bell is well. Dr. Irons called."])

    def night(name: str, *resources: dict[str, object], key: Key = KEY, **choices: Any) -> list[dict[str, Any]]:
        source = tmp_path / f"{name}.ndjson"
        source.write_text("".join(json.dumps(resource) + "\n" for resource in resources))
        site.run(source, "fhir-r4", **choices)
        return [json.loads(line) for line in site.out.read_text().splitlines()]

    patient = {"resourceType": "Patient", "id": "p1", "name": [{"family": "Bell", "given": ["Anna"]}]}
    first = document("n1", "Anna Bell is well. Dr. Irons called.")
    (old,) = night("1", first)
    assert text_of(old) == "Anna Bell is well. Dr. Irons called."
    # A resource without a note tells of names in the note of an earlier night.
    made, new = night("2", patient, document("n2", "Well.", author=[{"display": "Dr. Peter Irons"}]))
    assert site.due() == {"DocumentReference/n1": FOUND_LATER}
    (again,) = night("3", first)
    name, author = made["name"][0], new["author"][0]["display"]
    assert text_of(again) == f"{name['given'][0]} {name['family']} is well. Dr. {author.split()[-1]} called."
    assert site.due() == {}
    # What is unchanged is not done again; a resource without a note is written whenever it comes.
    assert night("4", patient, first) == [made]
    assert site.due() == {}
    # Another map makes all notes due.
    other = RecordMap.parse({"fhir": {"Patient.name": "patient"}}, "other")
    source = tmp_path / "5.ndjson"
    source.write_text(json.dumps(patient) + "\n")
    site.run(source, other)
    assert set(site.due().values()) == {OTHER_SETTINGS}
    # Another release knows what was known, under its own surrogates.
    site.key = made_key(7)
    Store(tmp_path / "site" / "project", KEY).rotate(site.key)
    assert site.due() == dict.fromkeys(("DocumentReference/n1", "DocumentReference/n2", "Patient/p1"), RELEASE)
    (released,) = night("6", first)
    assert "Bell" not in text_of(released)
    assert text_of(released) != text_of(again)
    with site.store().changing() as commit:
        listed = {name for name, _ in commit.forget("p1")}
    # As the last output of each calls it, where this release has one.
    assert listed == {f"DocumentReference/{released['id']}", "DocumentReference/n2", "Patient/p1"}
    assert list(site.store().rows()) == []


def test_a_change_of_what_has_no_note_is_listed(tmp_path: Path) -> None:
    site = Site(tmp_path / "site", ["In 2031: well."])

    def night(name: str, *resources: dict[str, object]) -> list[dict[str, Any]]:
        source = tmp_path / f"{name}.ndjson"
        source.write_text("".join(json.dumps(resource) + "\n" for resource in resources))
        site.run(source, "fhir-r4")
        return [json.loads(line) for line in site.out.read_text().splitlines()]

    def changes() -> list[tuple[str, str]]:
        return [(change.facts["note"], change.facts["why"]) for change in site.store().changes()]

    patient = {"resourceType": "Patient", "id": "p1", "birthDate": "1940-03-05"}
    doctor = {"resourceType": "Practitioner", "id": "d1", "gender": "female"}
    first = night("1", patient, doctor)
    assert "birthDate" in first[0]
    assert night("2", patient, doctor) == first
    assert (site.due(), changes()) == ({}, [])
    # An age over 89 is shown by what comes later.
    night("3", document("n1", "In 2031: well.", date="2031-01-01"))
    assert site.due() == {"Patient/p1": OTHER_VALUES}
    assert "birthDate" not in night("4", patient)[0]
    assert (site.due(), changes()) == ({}, [("Patient/p1", OTHER_VALUES)])
    night("5", patient | {"gender": "male"}, doctor | {"gender": "male"})
    assert sorted(changes()[1:]) == [("Patient/p1", CORRECTED), ("Practitioner/d1", CORRECTED)]
    with pytest.raises(CorpusError, match="line 2: another record of the input has the same id"):
        night("6", patient, patient | {"gender": "other"})


def test_a_corrected_row_of_a_ready_table_is_listed(tmp_path: Path) -> None:
    site = Site(tmp_path / "site", ["Well."])

    def night(number: int, *born: str) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        lines = [f"{7001 + k},8532,{day}\n" for k, day in enumerate(born)]
        (folder / "person.csv").write_text("person_id,gender_concept_id,birth_datetime\n" + "".join(lines))
        site.run(folder, "omop")

    night(1, "1950-03-05", "1961-01-02")
    night(2, "1950-03-05", "1961-01-02")
    assert site.store().changes() == []
    night(3, "1950-03-06", "1961-01-02")
    assert [(change.facts["note"], change.facts["why"]) for change in site.store().changes()] == [
        ("person_id 7001", CORRECTED)
    ]
    with pytest.raises(ConfigError, match="row = true goes with a pseudonym"):
        FieldRule.parse({"kind": "date", "row": True}, "here")


def test_words_have_other_hashes_in_another_project(tmp_path: Path) -> None:
    rows, kept = made_rows(number=6), list[set[str]]()
    for name in ("a", "b"):
        site = Site(tmp_path / name, [row["text"] for row in rows])
        site.night(rows)
        memories = [row.memory for row in site.store().rows()]
        kept.append({memory[kind] for memory in memories for kind in ("traces", "left")} - {""})
    assert kept[0]
    assert kept[0].isdisjoint(kept[1])


def test_a_note_that_lost_its_text_is_corrected(tmp_path: Path) -> None:
    site, head = Site(tmp_path / "site", []), "id,mrn,seen,text\n"

    def night(number: int, *rows: str) -> None:
        source, out = tmp_path / f"{number}.csv", tmp_path / f"{number}-clean.csv"
        source.write_text(head + "\n".join(rows), encoding="utf-8")
        columns, within = Columns(id="id", patient="mrn", dates=("seen",)), Project(store=site.store())
        given: dict[str, Any] = {"key": KEY, "style": "surrogate", "accept_unfit": True, "within": within}
        deidentify_table(source, out, site.model, columns=columns, **given)

    night(1, "1,M1,2019-03-04,Well.", "2,M1,1940-03-05,")
    assert len({row.memory["new_id"] for row in site.store().rows()}) == 2
    night(2, "1,M1,2031-03-04,")
    assert site.due() == {"2": OTHER_VALUES}
    assert [(change.facts["note"], change.facts["why"]) for change in site.store().changes()] == [("1", CORRECTED)]
    with site.store().changing() as commit:
        assert len(commit.forget("M1")) == 3


@pytest.mark.parametrize("named", [False, True])
def test_patients_of_two_authorities_are_apart_in_all_nights(tmp_path: Path, named: bool) -> None:
    site, head = Site(tmp_path / "site", []), "MSH|^~\\&|||||20230412||ADT^A01|1|P|2.5\r"
    own = {"hl7": {"PID-3": {"kind": "pseudonym", "of": "patient", "authority": "B"}, "PID-5": "patient"}}
    rules = RecordMap.parse(own, "own") if named else "hl7-v2"

    def night(number: int, authority: str, record_map: RecordMap | str = "hl7-v2") -> RunSummary:
        source = tmp_path / f"{number}.hl7"
        source.write_text(f"{head}PID|1||700123^^^{authority}||Bell^Anna\rNTE|1||Slept.\r", newline="")
        return site.run(source, record_map)

    assert night(1, "A").withheld == night(2, "A").withheld == night(3, "").withheld == ()
    # With the rule that names B, ids without an authority are no longer those of A.
    assert "another assigning authority than earlier ones" in night(4, "B", rules).withheld[0]
    site.key = made_key(7)
    Store(tmp_path / "site" / "project", KEY).rotate(site.key)
    assert len(night(5, "B").withheld) == 1
    assert night(6, "A").written == 1
    assert site.due()["1.hl7 message"] == RELEASE


def test_rows_of_other_tables_tell_of_their_patient(tmp_path: Path) -> None:
    site = Site(tmp_path / "site", ["born 3/5/1950"])

    def night(name: str, **tables: dict[str, str]) -> RunSummary:
        folder = tmp_path / name
        folder.mkdir()
        for table, row in tables.items():
            with (folder / f"{table}.csv").open("w", newline="") as stream:
                csv.writer(stream).writerows([row.keys(), row.values()])
        return site.run(folder, "omop", project={"hold": 1})

    note = {"note_id": "9001", "person_id": "70012345", "note_text": "born 3/5/1950"}
    person = {"person_id": "70012345", "birth_datetime": "1950-03-05"}
    night("1", note=note)
    assert (site.out / "note.csv").read_text().endswith("born 3/5/1950\n")
    night("2", person=person)
    assert site.due() == {"9001": FOUND_LATER}
    night("3", note=note, note_nlp={"note_nlp_id": "1", "note_id": "9001", "term_exists": "Y"})
    assert "1950" not in (site.out / "note.csv").read_text()
    assert site.due() == {}
    assert night("4", note=note, person=person).counts[UNCHANGED] == 1


@pytest.mark.parametrize("broken_off", ["write", "commit"])
def test_a_database_and_a_run_that_was_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken_off: str
) -> None:
    site, base = Site(tmp_path / "site", ["Ms. Bell is well.", "Anna slept."]), tmp_path / "n.db"

    def insert(*row: str) -> None:
        with closing(sqlite3.connect(base)) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS n (id TEXT, mrn TEXT, name TEXT, text TEXT)")
            connection.execute("INSERT INTO n VALUES (?, ?, ?, ?)", row)

    def night(table: str, **choices: Any) -> RunSummary:
        query = InputOptions(query="SELECT * FROM n ORDER BY id", table_out=table)
        within, run = Project(store=site.store()), tmp_path / f"{table}.run"
        given = {"key": KEY, "style": "surrogate", "accept_unfit": True, "within": within, "run": run, **choices}
        return deidentify_table(f"sqlite:///{base}", None, site.model, input=query, record_map=MAP_OF_FOUR, **given)

    def texts(table: str) -> list[str]:
        with closing(sqlite3.connect(base)) as connection:
            return [text for (text,) in connection.execute(f"SELECT text FROM {table} ORDER BY text")]

    insert("1", "M1", "Anna Bell", "Ms. Bell is well.")
    owner = Night if broken_off == "commit" else Run
    with monkeypatch.context() as patch:
        patch.setattr(owner, broken_off, lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            night("a")
    assert set(site.due().values()) == {BROKEN_OFF}
    assert night("a", resume=True).written == 1
    assert site.due() == {}
    insert("2", "M1", "", "Anna slept.")
    assert night("b").counts[UNCHANGED] == 1
    (first,), (second,) = texts("a"), texts("b")
    assert "Bell" not in first
    # The name is in a row of the first night alone.
    assert "Anna" not in second


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("name", "Elizabeth Stone", "Liz was seen."),
        ("name", "Johnny Walters", "seen by waltrs"),
        ("name", "Johnny Walters", "Wal ters"),
        ("name", "Johnny Walters", "seen by Mr. J.W."),
        ("name", "Johnny Walters", "user johnnywalters"),
        ("name", "Вера Иванова", "Ивановa"),
        ("birthdate", "1950-03-05", "born March 5th, 1950"),
        ("birthdate", "1950-03-05", "born 5.3.50"),
        ("mrn", "M7001234", "no. 700-12-34"),
        ("mrn", "M7001234", "no. 7OO1234"),
        ("phone", "+1 617-555-0142", "call 555 0142"),
        ("phone", "617-555-0142", "6 1 7 5 5 5 0 1 4 2"),
        ("address", "12 Oak St, Lyndale", "by Oak Street"),
        ("city", "Lyndale", "in Lyndalle"),
    ],
)
def test_what_is_found_in_a_text_is_told_by_its_traces(kind: str, value: str, text: str) -> None:
    identifier = Identifier(KINDS[kind], value)
    known = KnownIdentifiers({"p": [identifier]}, labels=("PATIENT",))
    assert known.find(text, "p")
    assert held_by(traces_of(f"Well. {text} Then 1, 2.", KEY), [identifier], KEY) == [identifier]
    assert held_by(traces_of("Ms. Green has 1, 2, 3, 4, 5, 6, 7, 8 and 0 at 9 in May.", KEY), [identifier], KEY) == []
