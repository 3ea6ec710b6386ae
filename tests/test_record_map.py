"""Record maps: every ready map hands out a record without PHI, one surrogate in field and text, nothing unknown."""

import base64
import csv
import hashlib
import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from made_keys import KEY

from ensemble_deid import Columns, RecordMap, deidentify_table, verify_run
from ensemble_deid.audit.release import read_release, released_documents
from ensemble_deid.audit.residual import residual_risk
from ensemble_deid.cli.main import main
from ensemble_deid.corpora.compressed import writing_compressed
from ensemble_deid.corpora.edits import Edit
from ensemble_deid.corpora.input_options import InputOptions
from ensemble_deid.corpora.messages.fhir import read_fhir
from ensemble_deid.corpora.messages.fhir_fields import _DATE as FHIR_DATE
from ensemble_deid.corpora.messages.hl7 import read_hl7
from ensemble_deid.corpora.messages.hl7_fields import _DAY as HL7_DATE
from ensemble_deid.corpora.record_map import Field, FieldKind, FieldRule, named_maps
from ensemble_deid.corpora.records import NewRecord, Record
from ensemble_deid.deidentify.cells import Cells
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.known.identifiers import KnownIdentifiers
from ensemble_deid.deidentify.known.of_records import identifiers_of, labelled
from ensemble_deid.deidentify.repeats import NOTHING
from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.deidentify.sources import note_source
from ensemble_deid.errors import ConfigError, CorpusError

SECRET = "Quillfeather"
MRN, BORN, PHONE = "M7001234", "1950-03-05", "617-555-0142"
NOTE = f"Anna Bell ({MRN}), born 3/5/1950, phone 617.555.0142, of 12 Oak St. Seen by Dr. Peter Irons. Ms. Bell is well."
PLANTED = ("Bell", "Anna", "Irons", "Peter", MRN, "1950", "617-555", "617.555", "12 Oak", "Lyndale", "02139", SECRET)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def write_table(path: Path, **columns: str) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([columns.keys(), columns.values()])


def run(model: Path, given: Path, out: Path, *options: str) -> None:
    command = ["deidentify", str(model), str(given), "--out", str(out), "--style", "surrogate", "--accept-unfit"]
    assert main([*command, *options]) == 0


def clean(text: str) -> str:
    for string in PLANTED:
        assert string.casefold() not in text.casefold(), string
    return text


HL7 = f"""MSH|^~\\&|LAB|{SECRET}|||20190304101500-0500||ORU^R01|77|P|2.5||||||UNICODE UTF-8
PID|1||{MRN}^^^{SECRET}^MR||Bell^Anna^M^^Mrs||{BORN.replace("-", "")}|F|||12 Oak St^^Lyndale^MA^02139||{PHONE}
PD1||||D77^Irons^Peter^J^^Dr
NK1|1|Bell^Omar^J|SPO^{SECRET}|12 Oak St^^Lyndale^MA^02139|{PHONE}
ZQQ|{SECRET}
PV1|1|I|{SECRET}||||D77^Irons^Peter^J^^Dr^^^{SECRET}|||MED|||||||||V900100
ORC|RE|O1||||||||||D77^Irons^Peter
OBR|1|O1||24323-8^{SECRET}^LN|||20190304
OBX|1|TX|11502-2^Report^LN^77^Local^L||{NOTE}||||||F|||20190304||D77^Irons^Peter
OBX|2|NM|2345-7^Glucose^LN||112|mg/dL|70-99|H|||F
NTE|1||Call Omar Bell.
TXA|1|DS|TX|20190304|D77^Irons^Peter|||||||X1^{SECRET}
""".replace("\n", "\r")


def test_hl7(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.hl7").write_text(HL7, newline="")
    run(tiny_model, tmp_path / "a.hl7", tmp_path / "out.hl7", "--map", "hl7-v2")
    made = clean((tmp_path / "out.hl7").read_text())
    lines = {line.split("|")[0]: line.split("|") for line in made.replace("\r", "\n").splitlines()}
    assert "ZQQ" not in lines
    family, given, *_ = lines["PID"][5].split("^")
    assert f"{given} {family} (" in made
    assert f"Ms. {family} is well" in made
    staff = lines["PV1"][7].split("^")
    assert f"Dr. {staff[2]} {staff[1]}." in made
    assert lines["PD1"][4] == lines["PV1"][7]
    assert lines["TXA"][5].split("^")[:3] == staff[:3]
    # The relative has the patient's surname, here as in the record.
    relative = lines["NK1"][2].split("^")
    assert (relative[0], f"Call {relative[1]} {relative[0]}.") == (family, lines["NTE"][3])
    # Standard codes and numbers stay.
    assert lines["OBR"][4] == "24323-8^^LN"
    assert lines["PID"][8] == "F"
    assert "|2345-7^Glucose^LN||112|mg/dL|70-99|H|||F" in made
    # The same id elsewhere has the same pseudonym.
    assert lines["PID"][3] == Replacer.from_options("tag", key=KEY).pseudonym(MRN, kind="patient")


def bundle() -> dict[str, object]:
    patient = {
        "resourceType": "Patient",
        "id": "p1",
        "extension": [{"url": f"http://{SECRET}.org"}],
        "identifier": [{"use": "usual", "system": f"http://{SECRET}", "value": MRN}],
        "name": [{"use": "official", "family": "Bell", "given": ["Anna", "M"], "text": "Anna M Bell"}],
        "telecom": [{"system": "phone", "value": PHONE}],
        "gender": "female",
        "birthDate": BORN,
        "address": [{"line": ["12 Oak St"], "city": "Lyndale", "state": "MA", "postalCode": "02139"}],
        "contact": [{"name": {"family": "Bell", "given": ["Omar"]}}],
        "photo": [{"title": SECRET}],
    }
    practitioner = {"resourceType": "Practitioner", "id": "d1", "name": [{"family": "Irons", "given": ["Peter"]}]}
    encounter = {
        "resourceType": "Encounter",
        "id": "e1",
        "status": "finished",
        "class": {"code": "AMB", "display": SECRET},
        "subject": {"reference": "urn:uuid:p1"},
        "participant": [{"individual": {"reference": "Practitioner/d1", "display": "Peter Irons"}}],
        "period": {"start": "2019-03-04T10:00:00-05:00"},
    }
    document = {
        "resourceType": "DocumentReference",
        "id": "n1",
        "status": "current",
        "type": {"coding": [{"system": "http://loinc.org", "code": "11506-3", "display": SECRET}], "text": SECRET},
        "subject": {"reference": "Patient/p1", "display": "Anna Bell"},
        "author": [{"reference": "Practitioner/d1", "display": "Dr. Peter Irons", "type": SECRET}],
        "content": [{"attachment": {"contentType": "text/plain", "data": base64.b64encode(NOTE.encode()).decode()}}],
    }
    report = {
        "resourceType": "DiagnosticReport",
        "id": "r1",
        "status": "final",
        "code": {"text": SECRET},
        "subject": {"reference": "Patient/p1"},
        "conclusion": "Ms. Bell is well.",
    }
    observation = {
        "resourceType": "Observation",
        "id": "o1",
        "status": "final",
        "code": {"coding": [{"system": f"http://{SECRET}", "code": SECRET}]},
        "subject": {"reference": "Patient/p1"},
        "valueQuantity": {"value": 7.25, "unit": "mg/dL"},
    }
    entries = [{"fullUrl": "urn:uuid:p1", "resource": patient}]
    entries += [{"resource": resource} for resource in (practitioner, encounter, document, report, observation)]
    return {"resourceType": "Bundle", "id": "b1", "type": "collection", "entry": entries}


def test_fhir_bundle(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(bundle()))
    run(tiny_model, tmp_path / "a.json", tmp_path / "out.json", "--map", "fhir-r4")
    made = json.loads(clean((tmp_path / "out.json").read_text()))
    found = {entry["resource"]["resourceType"]: entry["resource"] for entry in made["entry"]}
    patient, document = found["Patient"], found["DocumentReference"]
    assert not patient.keys() & {"extension", "photo"}
    # References lead where they did.
    assert document["subject"]["reference"] == found["Encounter"]["subject"]["reference"] == f"Patient/{patient['id']}"
    assert document["author"][0]["reference"] == f"Practitioner/{found['Practitioner']['id']}"
    assert found["Encounter"]["participant"][0]["individual"]["reference"] == document["author"][0]["reference"]
    # One surrogate in all places.
    note = clean(base64.b64decode(document["content"][0]["attachment"]["data"]).decode())
    name, doctor = patient["name"][0], found["Practitioner"]["name"][0]
    assert note.startswith(f"{name['given'][0]} {name['family']} (")
    assert name["text"] == " ".join([*name["given"], name["family"]])
    assert document["subject"]["display"] == f"{name['given'][0]} {name['family']}"
    assert document["author"][0]["display"] == f"Dr. {doctor['given'][0]} {doctor['family']}"
    assert found["DiagnosticReport"]["conclusion"] == f"Ms. {name['family']} is well."
    assert document["type"] == {"coding": [{"system": "http://loinc.org", "code": "11506-3"}]}
    assert found["Observation"]["valueQuantity"] == {"value": 7.25, "unit": "mg/dL"}
    assert "code" not in found["Observation"]
    assert "10:00:00-05:00" in found["Encounter"]["period"]["start"]


def test_fhir_lines(tiny_model: Path, tmp_path: Path) -> None:
    resources = [entry["resource"] for entry in bundle()["entry"]]  # type: ignore[attr-defined]
    lines = [json.dumps(resource).replace("urn:uuid:p1", "Patient/p1") for resource in resources]
    (tmp_path / "a.ndjson").write_text("\n".join([*lines[:2], "", *lines[2:]]) + "\n")
    run(tiny_model, tmp_path / "a.ndjson", tmp_path / "out.ndjson", "--map", "fhir-r4")
    made = [json.loads(line) for line in clean((tmp_path / "out.ndjson").read_text()).splitlines() if line]
    assert [one["resourceType"] for one in made] == [one["resourceType"] for one in resources]
    # The Patient's own line tells what is removed from the notes on other lines.
    note = clean(base64.b64decode(made[3]["content"][0]["attachment"]["data"]).decode())
    assert note.startswith(f"{made[0]['name'][0]['given'][0]} {made[0]['name'][0]['family']} (")


def test_omop(tiny_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write_table(folder / "note.csv", note_id="9001", person_id="70012345", note_date="2019-03-04", note_title="Visit",
                note_text=NOTE.replace(MRN, "70012345"), provider_id="5", note_source_value=SECRET)  # fmt: skip
    write_table(folder / "person.csv", person_id="70012345", gender_concept_id="8532", year_of_birth="1950",
                birth_datetime=BORN, person_source_value=SECRET)  # fmt: skip
    write_table(folder / "note_nlp.csv", note_nlp_id="1", note_id="9001", snippet=SECRET, term_exists="Y",
                nlp_system=SECRET)  # fmt: skip
    run(tiny_model, folder, tmp_path / "out", "--map", "omop")
    (note,), (person,), (nlp,) = (rows(tmp_path / "out" / f"{name}.csv") for name in ("note", "person", "note_nlp"))
    assert note["person_id"] == person["person_id"] != "70012345"
    assert nlp == {"note_nlp_id": nlp["note_nlp_id"], "note_id": note["note_id"], "term_exists": "Y"}
    assert set(person) == {"person_id", "gender_concept_id", "birth_datetime"}
    assert person["gender_concept_id"] == "8532"
    # The day of birth is known from another table.
    assert "3/5/1950" not in note["note_text"]
    assert "70012345" not in note["note_text"]
    assert verify_run(tmp_path / "out.run").counts["written"] == 1


@pytest.mark.parametrize(
    ("name", "table", "columns", "left"),
    [
        (
            "pcornet",
            "NOTES",
            {"PATID": MRN, "NOTEID": "n1", "NOTE_DATE": "2019-03-04", "NOTE_TEXT": NOTE, "RAW_NAME": SECRET},
            {"PATID", "NOTEID", "NOTE_DATE", "NOTE_TEXT"},
        ),
        (
            "mimic-tables",
            "noteevents",
            {"SUBJECT_ID": MRN, "CHARTDATE": "2019-03-04", "CATEGORY": SECRET, "TEXT": NOTE, "DESCRIPTION": SECRET},
            {"SUBJECT_ID", "CHARTDATE", "CATEGORY", "TEXT"},
        ),
    ],
)
def test_other_tables(
    tiny_model: Path, tmp_path: Path, name: str, table: str, columns: dict[str, str], left: set[str]
) -> None:
    write_table(tmp_path / f"{table}.csv", **columns)
    run(tiny_model, tmp_path / f"{table}.csv", tmp_path / "out.csv", "--map", name)
    (made,) = rows(tmp_path / "out.csv")
    assert set(made) == left
    text = (tmp_path / "out.csv").read_text()
    assert MRN not in text
    assert SECRET not in text


MAP = """
[columns]
n = { kind = "pseudonym", of = "note" }
mrn = { kind = "pseudonym", of = "patient" }
name = "patient"
author = "staff"
seen = "date"
born = { kind = "date", of = "birth" }
age = "age"
zip = "zip"
phone = "phone"
address = "address"
sex = { kind = "codes", values = ["F", "M"] }
title = "text"
body = "text"
ward = "keep"
secret = "drop"
"""


def own_table(folder: Path) -> dict[str, str]:
    (folder / "map.toml").write_text(MAP)
    row = {"n": "1", "mrn": MRN, "name": "Bell, Anna", "author": "Peter Irons", "seen": "03/14/2019", "born": BORN}
    row |= {"age": "93", "zip": "02139", "phone": PHONE, "address": "12 Oak St, Lyndale, MA 02139", "sex": SECRET}
    row |= {"title": "Visit of Anna Bell", "body": NOTE, "ward": "3", "secret": SECRET, "unknown": SECRET}
    return row


def as_csv(folder: Path, row: dict[str, str]) -> tuple[Path, str]:
    write_table(folder / "a.csv", **row)
    return folder / "a.csv", "out.csv"


def as_jsonl(folder: Path, row: dict[str, str]) -> tuple[Path, str]:
    (folder / "a.jsonl").write_text(json.dumps(row) + "\n")
    return folder / "a.jsonl", "out.jsonl"


def as_parquet(folder: Path, row: dict[str, str]) -> tuple[Path, str]:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.Table.from_pylist([row]), folder / "a.parquet")
    return folder / "a.parquet", "out.parquet"


def read_back(path: Path) -> dict[str, str]:
    if path.suffix == ".csv":
        return rows(path)[0]
    if path.suffix == ".jsonl":
        found: dict[str, str] = json.loads(path.read_text())
        return found
    parquet = pytest.importorskip("pyarrow.parquet")
    return {name: value or "" for name, value in parquet.read_table(path).to_pylist()[0].items()}


def check_own(made: dict[str, str]) -> None:
    clean(json.dumps(made))
    assert not made.keys() & {"secret", "unknown"}
    family, given = made["name"].split(", ")
    assert made["title"] == f"Visit of {given} {family}"
    assert made["body"].startswith(f"{given} {family} (")
    assert f"Dr. {made['author']}." in made["body"]
    assert (made["age"], made["ward"], made["sex"] or "") == ("90+", "3", "")


@pytest.mark.parametrize("stored", [as_csv, as_jsonl, as_parquet])
def test_every_form_of_table(tiny_model: Path, tmp_path: Path, stored: object) -> None:
    path, out = stored(tmp_path, own_table(tmp_path))  # type: ignore[operator]
    map_file = str(tmp_path / "map.toml")
    run(tiny_model, path, tmp_path / out, "--map", map_file)
    check_own(read_back(tmp_path / out))
    again = tmp_path / f"again{path.suffix}"
    deidentify_table(path, again, tiny_model, record_map=map_file, style="surrogate", accept_unfit=True)
    assert again.read_bytes() == (tmp_path / out).read_bytes()


def test_database(tiny_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    row = own_table(tmp_path)
    with sqlite3.connect(tmp_path / "a.db") as base:
        base.execute(f"CREATE TABLE t ({', '.join(f'{name} TEXT' for name in row)})")
        base.execute(f"INSERT INTO t VALUES ({', '.join('?' for _ in row)})", list(row.values()))
    query = ["--query", "SELECT * FROM t ORDER BY n", "--table-out", "clean", "--map", str(tmp_path / "map.toml")]
    url = f"sqlite:///{tmp_path / 'a.db'}"
    command = ["deidentify", str(tiny_model), url, "--out", str(tmp_path / "o"), "--style", "surrogate"]
    assert main([*command, "--accept-unfit", *query]) == 0
    with sqlite3.connect(tmp_path / "a.db") as base:
        base.row_factory = sqlite3.Row
        (made,) = base.execute("SELECT * FROM clean").fetchall()
    check_own({name: made[name] or "" for name in made.keys()})  # noqa: SIM118


def test_a_run_belongs_to_its_map(tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = as_csv(tmp_path, own_table(tmp_path))
    options = ["--map", str(tmp_path / "map.toml"), "--resume"]
    run(tiny_model, path, tmp_path / "out.csv", *options[:2])
    run(tiny_model, path, tmp_path / "out.csv", *options)
    assert "finished before" in capsys.readouterr().out
    (tmp_path / "map.toml").write_text(MAP.replace('ward = "keep"', 'ward = "drop"'))
    command = ["deidentify", str(tiny_model), str(path), "--out", str(tmp_path / "out.csv"), "--style", "surrogate"]
    assert main([*command, "--accept-unfit", *options]) == 2
    assert "other settings: columns, record_map" in capsys.readouterr().err


def test_single_columns(tiny_model: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "a.csv", text=NOTE, author="Peter Irons", secret=SECRET, mrn=MRN)
    options = ["--column", "author=staff", "--column", "secret=drop", "--column", "mrn=pseudonym:patient"]
    run(tiny_model, tmp_path / "a.csv", tmp_path / "out.csv", *options)
    (made,) = rows(tmp_path / "out.csv")
    assert set(made) == {"text", "author", "mrn"}
    assert f"Dr. {made['author']}." in made["text"]
    assert MRN not in made["text"]


REFUSED = [
    ('[columns]\nbody = "txt"', "columns.body: unknown kind 'txt'; did you mean text?"),
    ('[columns]\nbody = { knd = "text" }', "columns.body: unknown key 'knd'; did you mean kind?"),
    ('[colums]\nbody = "text"', "unknown section 'colums'; did you mean columns?"),
    ('[columns]\nmrn = "pseudonym"', 'columns.mrn: say of what the pseudonym is, as in of = "patient"'),
    ('[columns]\nsex = { kind = "codes", pattern = "(" }', "columns.sex: the pattern is no regular expression"),
    ('[columns]\nbody = "text"\nunknwn = "drop"', "has no column named unknwn (did you mean unknown?)"),
    ('[hl7]\n"PID-5" = "patient"', "says nothing of a table's columns"),
    ('[hl7]\n"PID5" = "patient"', 'hl7.PID5: expected a field, as in "PID-5"'),
    ('[fhir]\n"patient.name" = "patient"', 'fhir.patient.name: expected a resource\'s element, as in "Patient.name"'),
    ('base = "omp"\n[columns]\nbody = "text"', "base is one of the maps fhir-r4"),
    ('[columns]\nn = { kind = "pseudonym", of = "note", authority = "A" }', "authority goes with the pseudonym of a"),
    ('[tables.b]\nbody = "text"', "says nothing of a table a; it has the tables b"),
    ("[columns", "cannot be read as TOML"),
    ('base = ["omop"]', "base is one of the maps"),
    ('[tables.a]\nbody = "text"\n[tables.A]\nunknown = "keep"', "tables.A: there are two sections of this name"),
]


@pytest.mark.parametrize(("content", "said"), REFUSED)
def test_wrong_maps_are_refused_before_a_model_is_loaded(
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    content: str,
    said: str,
) -> None:
    def loaded(*_: object, **__: object) -> None:
        pytest.fail("a model was loaded")

    monkeypatch.setattr(Deidentifier, "load", loaded)
    write_table(tmp_path / "a.csv", body=NOTE, unknown=SECRET)
    (tmp_path / "m.toml").write_text(content)
    command = ["deidentify", str(tiny_model), str(tmp_path / "a.csv"), "--out", str(tmp_path / "o.csv")]
    assert main([*command, "--map", str(tmp_path / "m.toml")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert ".csv" in error or "m.toml" in error
    assert main([*command, "--map", "omp"]) == 2
    assert "did you mean omop?" in capsys.readouterr().err
    assert main([*command, "--map", "omop", "--keep-fields"]) == 2
    assert main([*command, "--column", "body=tex"]) == 2
    assert "did you mean text?" in capsys.readouterr().err
    body = [*command, "--text-column", "body", "--keep-columns", "all"]
    for wrong, said in (
        (["--style", "surogate"], "unknown style 'surogate'"),
        (["--threshold", "2"], "threshold"),
        (["--policy", "safe-harbour"], "safe-harbour"),
        (["--set", "surrogates.min_scor=1"], "min_scor"),
        (["--key-file", str(tmp_path / "a.csv")], "not a key"),
    ):
        assert main([*body, *wrong]) == 2
        assert said in capsys.readouterr().err


def test_every_ready_map_can_be_read() -> None:
    assert set(named_maps()) == {"fhir-r4", "hl7-v2", "mimic-tables", "omop", "pcornet"}
    digests = {RecordMap.read(name).digest for name in named_maps()}
    assert len(digests) == len(named_maps())


@pytest.mark.parametrize(
    ("rule", "value", "new"),
    [
        (FieldRule(FieldKind.AGE), "93", "90+"),
        (FieldRule(FieldKind.AGE), 93, 90),
        (FieldRule(FieldKind.AGE), "45", "45"),
        (FieldRule(FieldKind.AGE), "Bell", None),
        (FieldRule(FieldKind.CODES, values=("F",)), "F", "F"),
        (FieldRule(FieldKind.CODES, values=("F",)), SECRET, None),
        (FieldRule(FieldKind.CODES, pattern="[0-9]{2}"), "123", None),
        (FieldRule(FieldKind.ZIP), "02139", "021**"),
        (FieldRule(FieldKind.ZIP), "03601", "000**"),
        (FieldRule(FieldKind.ZIP), 12345, None),
        (FieldRule(FieldKind.DATE), "2019-03-04", "2019"),
        (FieldRule(FieldKind.DATE), "3/4/1890", None),
        (FieldRule(FieldKind.STAFF), "Dr. Irons", "[DOCTOR]"),
        (FieldRule(FieldKind.KEEP), SECRET, SECRET),
    ],
)
def test_values_have_the_style_of_the_text(rule: FieldRule, value: object, new: object) -> None:
    replacer = Replacer.from_options(policy="safe-harbor", key=KEY)
    cells = Cells(replacer, Columns(date_order="mdy"), (64, 64), ("DATE", "DOCTOR", "ZIP"), mapped=True)
    record = Record("r", patient="7", fields=(Field("f", rule, value),))
    assert cells.fields(record, NOTHING) == (new,)


def test_an_address_is_replaced_part_by_part() -> None:
    value = "12 Oak St, Lyndale, MA 02139"
    found = [(value[start:end], type) for start, end, type in labelled(FieldKind.ADDRESS, value)]
    assert found == [("12 Oak St", "STREET"), ("Lyndale", "CITY"), ("MA", "STATE"), ("02139", "ZIP")]


def test_what_a_record_says_is_known_of_its_patient_alone() -> None:
    known = KnownIdentifiers({}, labels=("PATIENT", "PHONE", "MEDICALRECORD", "DATE"))
    rules = {
        "Bell, Anna": FieldRule(FieldKind.PATIENT),
        PHONE: FieldRule(FieldKind.PHONE),
        "x": FieldRule(FieldKind.STAFF),
    }
    rules |= {"77": FieldRule(FieldKind.PSEUDONYM, of="note"), BORN: FieldRule(FieldKind.DATE, of="birth")}
    for value, rule in rules.items():
        for identifier in identifiers_of(Field("f", rule, value)):
            known.add("7", identifier)
    text = "77 calls (617) 555-0142 for BELL, born 3/5/50."
    found = [(text[match.start : match.end], match.label) for match in known.find(text, "7")]
    assert found == [("617) 555-0142", "PHONE"), ("BELL", "PATIENT"), ("3/5/50", "DATE")]
    assert not known.find(text, "8")
    copy = known.copy()
    assert len(copy.find(text, "7")) == len(found)


def test_partial_dates_and_tags_in_messages() -> None:
    hl7 = read_hl7(HL7.replace("19500305", "195003").encode(), "a.hl7", RecordMap.read("hl7-v2").hl7)
    values = {"PID-5": "[PATIENT]", "PID-7": "1948-05-15", "MSH-7": "2018"}
    made = hl7.written((), [values.get(field.name) for field in hl7.fields]).decode()
    assert "|[PATIENT]^^||194805|" in made
    assert made.startswith("MSH|^~\\&|||||2018||ORU^R01|")
    resource = {"resourceType": "Patient", "id": "1", "name": [{"family": "Bell", "given": ["A"]}], "birthDate": "1950"}
    rules = RecordMap.read("fhir-r4").fhir
    fhir = read_fhir(json.dumps(resource).encode(), "a.json", rules)
    new = {"Patient.id": "9", "Patient.name": "[PATIENT]", "Patient.birthDate": "1948-07-01"}
    made = fhir.written((), [new[field.name] for field in fhir.fields]).decode()
    assert json.loads(made) == {
        "resourceType": "Patient",
        "id": "9",
        "name": [{"family": "[PATIENT]"}],
        "birthDate": "1948",
    }
    with pytest.raises(CorpusError, match="holds NUL characters"):
        read_hl7(HL7.encode() + b"NTE|1||\0\r", "a.hl7", {})


@pytest.mark.parametrize("suffix", [".csv.gz", ".jsonl.zst"])
def test_compressed_tables(suffix: str, tmp_path: Path) -> None:
    """Every byte comes back, and nothing that is no table fills the memory."""
    pytest.importorskip("zstandard")
    lines = {".csv.gz": "text,n\r\nBell,1\r\n", ".jsonl.zst": '{"text": "Bell", "id": 1}\n'}[suffix]
    path, out = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    for content, problem in ((lines, ""), ("0" * (70 << 20), "a line is longer than 64 MiB")):
        with writing_compressed(path) as stream:
            stream.write(content.encode())
        assert len(path.read_bytes()) < 100_000
        source = note_source(path, InputOptions(columns=Columns(id="n" if "csv" in suffix else "id")), leave_out=[])
        if problem:
            with pytest.raises(CorpusError, match=problem):
                source.count()
            continue
        with source.writer(out, lambda path, digest: None) as writer:
            for record in source.records():
                writer.write(record, NewRecord((), record.id, record.patient, record.dates))
        assert out.read_bytes() == path.read_bytes()
        path.write_bytes(path.read_bytes()[:-3])
        with pytest.raises(CorpusError, match="cannot be decompressed"):
            source.count()


def test_a_map_needs_its_kind_of_input() -> None:
    with pytest.raises(ConfigError, match="has no section fhir"):
        RecordMap.read("hl7-v2").of_messages("fhir")


@pytest.mark.parametrize("rule", ["keep", "drop", "staff"])
def test_the_column_of_the_text_can_only_be_text(tiny_model: Path, tmp_path: Path, rule: str) -> None:
    write_table(tmp_path / "a.csv", id="1", text=NOTE)
    command = ["deidentify", str(tiny_model), str(tmp_path / "a.csv"), "--out", str(tmp_path / "o.csv")]
    assert main([*command, "--column", f"text={rule}", "--column", "id=pseudonym:note"]) == 2
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.parametrize(
    ("place", "passing", "held"),
    [
        ("OBX-5", ("7.2", "<0.5", "250"), ("02139", "48213", "1970")),
        ("OBX-6", ("mmol/L", "%"), ("John", "Lee/Anna")),
        ("OBX-7", ("3.5-5.1", "<5"), ("555-1234", "")),
        ("PID-15", ("en", "SPA"), ("LEE", "ann")),
        ("NK1-3", ("MTH",), ("ANN",)),
        ("TXA-2", ("DS",), ("AL",)),
    ],
)
def test_what_passes_as_a_code_in_hl7(place: str, passing: tuple[str, ...], held: tuple[str, ...]) -> None:
    rule = RecordMap.read("hl7-v2").hl7[place]
    assert [rule.allows(value) for value in (*passing, *held)] == [True] * len(passing) + [False] * len(held)


def test_what_passes_as_a_quantity_in_fhir() -> None:
    rules = RecordMap.read("fhir-r4").fhir
    value, unit = (rules[f"Observation.valueQuantity.{name}"] for name in ("value", "unit"))
    assert [value.allows(one) for one in ("7.25", "-3", "02139", "1970")] == [True, True, False, False]
    assert [unit.allows(one) for one in ("mg/dL", "John", "Lee/Anna")] == [True, False, False]
    system = "http://terminology.hl7.org/CodeSystem/v3-ObservationInterpretation"
    quantity = {"value": 142, "unit": "mm[Hg]"}
    part = {"valueQuantity": quantity, "interpretation": [{"coding": [{"system": system, "code": "H"}]}]}
    resource: dict[str, Any] = {"resourceType": "Observation", "component": [part, part | {"valueString": "Lee"}]}
    message = read_fhir(json.dumps(resource).encode(), "a.json", rules)
    values = [field.value for field in message.fields]
    del resource["component"][1]["valueString"]
    assert json.loads(message.written([Edit(0, 3, "X")], values))["component"] == [part, part | {"valueString": "X"}]


def test_an_interpreter_in_one_component_is_read() -> None:
    rules = RecordMap.read("hl7-v2").hl7
    message = read_hl7(f"{HL7.splitlines()[0]}\rOBR|1|||||||{'|' * 24}7701&Vance&Orla&T|\r".encode(), "a.hl7", rules)
    assert [(field.rule.kind, field.value) for field in message.fields[-2:]] == [
        (FieldKind.PSEUDONYM, "7701"),
        (FieldKind.STAFF, "Orla\nT\nVance"),
    ]
    written = message.written([], [None] * (len(message.fields) - 2) + ["s1", "Ann\nB\nLee"])
    assert written.decode().split("|")[-2] == "s1&Lee&Ann&B"


@pytest.mark.parametrize(
    ("pattern", "times", "others"),
    [
        (HL7_DATE, ("19700102", "197001021530", "19700102153059.1234+0100"), ("197001025551234567", "19700102.617")),
        (
            FHIR_DATE,
            ("1970-01-02", "1970-01-02T15:30:59.123Z", "1970-01-02T15:30:59+01:00"),
            ("2019-03-04T617.555.0123", "2019-03-04T10:00:00+6175550123"),
        ),
    ],
)
def test_only_times_follow_a_date(pattern: re.Pattern[str], times: tuple[str, ...], others: tuple[str, ...]) -> None:
    assert [pattern.fullmatch(one) is not None for one in (*times, *others)] == [True] * len(times) + [False] * 2


def test_what_a_map_lets_pass_is_counted_by_patient(tiny_model: Path, tmp_path: Path) -> None:
    """Two tables of four patients, whose sex, year of birth and age pass; the text passes nothing."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    people = [
        ("p1", "F", BORN, "44"),
        ("p2", "F", BORN, "95"),
        ("p3", "M", BORN, "44"),
        ("p4", "F", "1950-11-30", "91"),
    ]
    with (folder / "person.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("mrn", "sex", "born", "age"), *people])
    with (folder / "note.csv").open("w", newline="") as stream:
        notes = [(name, f"ward {n % 2}", f"{NOTE} Visit {n}.") for n, (name, *_) in enumerate(people)]
        csv.writer(stream).writerows([("mrn", "ward", "body"), *notes])
    mrn = 'mrn = { kind = "pseudonym", of = "patient" }'
    own = f'[tables.person]\n{mrn}\nsex = {{ kind = "codes", values = ["F", "M"] }}\nborn = "date"\nage = "age"\n'
    (tmp_path / "map.toml").write_text(f'optional = true\n{own}[tables.note]\n{mrn}\nward = "keep"\nbody = "text"\n')
    (tmp_path / "policy.toml").write_text('style = "tag"\n[styles]\nDATE = "year"\n')
    command = ["deidentify", str(tiny_model), str(folder), "--out", str(out), "--policy", str(tmp_path / "policy.toml")]
    assert main([*command, "--map", str(tmp_path / "map.toml"), "--accept-unfit"]) == 0
    release = read_release(tmp_path / "out.run", str(folder), by=["ward"])
    assert [note.metadata for note in release.documents] == [{"ward": f"ward {n % 2}"} for n in range(4)]
    assert [note.text for note in release.documents] == [text for *_, text in notes]
    found = residual_risk(tmp_path / "out.run", verify_run(tmp_path / "out.run"))
    assert found is not None
    alone = {row.kind: (row.patients, row.groups, row.alone) for row in found.rows if row.kind.startswith("column")}
    assert alone == {
        "column age": (4, 2, 0),
        "column born": (4, 1, 0),
        "column sex": (4, 2, 1),
        "column ward": (4, 2, 0),
    }
    assert (found.patients, found.notes, found.rows[-1].groups) == (4, 4, 3)


def test_an_audit_refuses_a_run_that_did_not_record_its_map(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="did not record the rules"):
        next(released_documents("a.csv", {"format": "csv", "record_map": "a digest"}, tmp_path, ()))


def test_a_map_reads_back_as_it_was_written() -> None:
    for name in named_maps():
        given = RecordMap.read(name)
        assert RecordMap.parse(given.to_json(), name) == given


def test_size_and_hash_of_what_a_map_leaves_out_are_left_out() -> None:
    data = base64.b64encode(b"Seen by Dr. Irons.").decode()
    digest = base64.b64encode(hashlib.sha1(b"Seen by Dr. Irons.").digest()).decode()
    attachment = {"contentType": "text/plain", "data": data, "size": 18, "hash": digest}
    resource = {"resourceType": "DocumentReference", "id": "1", "content": [{"attachment": attachment}]}
    rules = {"DocumentReference.content.attachment.data": FieldRule(FieldKind.DROP)}
    message = read_fhir(json.dumps(resource).encode(), "a.json", rules)
    written = message.written([], ["" for _ in message.fields]).decode()
    assert data not in written
    assert digest not in written


@pytest.mark.parametrize(
    "given", [{"rules": {"id": FieldRule(FieldKind.DROP)}}, {"columns": Columns(id="id")}], ids=["rules", "columns"]
)
def test_options_of_columns_are_refused_beside_a_map_of_fhir(tmp_path: Path, given: dict[str, Any]) -> None:
    (tmp_path / "a.ndjson").write_text("{}")
    with pytest.raises(ConfigError, match="the input has none"):
        note_source(tmp_path / "a.ndjson", InputOptions(record_map=RecordMap.read("fhir-r4"), **given), leave_out=[])


def test_a_map_that_names_no_text_is_refused_where_there_is_one(tiny_model: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "a.csv", mrn=MRN, text=NOTE)
    rules = {"mrn": {"kind": "pseudonym", "of": "patient"}}
    with pytest.raises(CorpusError, match="the map does not name the column text"):
        deidentify_table(
            tmp_path / "a.csv", tmp_path / "b.csv", tiny_model, record_map=RecordMap.parse({"columns": rules}, "m")
        )


def test_patients_of_two_authorities(tiny_model: Path, tmp_path: Path) -> None:
    for name, authority in ("a", "GENERAL"), ("b", "MERCY&1.2&ISO"), ("c", "GENERAL"):
        message = f"{HL7.splitlines()[0]}\rPID|1||{MRN}^^^{authority}^MR\rNTE|1||{MRN} is well.\r"
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{name}.hl7").write_text(message, newline="")
    options: dict[str, Any] = {"style": "surrogate", "accept_unfit": True}
    found = deidentify_table(tmp_path / "in", tmp_path / "out", tiny_model, record_map="hl7-v2", **options)
    assert [problem for problem in found.withheld if "has another assigning authority" in problem] == list(
        found.withheld
    )
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.hl7", "c.hl7"]
    (tmp_path / "own.toml").write_text(
        'base = "hl7-v2"\n[hl7]\n"PID-3" = { kind = "pseudonym", of = "patient", authority = "GENERAL" }\n'
    )
    deidentify_table(tmp_path / "in", tmp_path / "own", tiny_model, record_map=tmp_path / "own.toml", **options)
    lines = [(tmp_path / "own" / f"{name}.hl7").read_text().replace("\r", "\n").splitlines() for name in "abc"]
    ids = [one[1].split("|")[3] for one in lines]
    assert ids[0] == ids[2] == Replacer.from_options("tag", key=KEY).pseudonym(MRN, kind="patient") != ids[1]
    assert not any(MRN in one[2] for one in lines)


def test_names_of_tables_ignore_capitals_in_a_base_too(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text('base = "omop"\n[tables.NOTE]\nnote_source_value = { kind = "pseudonym", of = "source" }\n')
    rules = RecordMap.read(path).tables["note"]
    assert rules["note_text"].kind is FieldKind.TEXT
    assert rules["note_source_value"].kind is FieldKind.PSEUDONYM


def test_hl7_names_its_sign_of_truncation() -> None:
    raw = HL7.replace("MSH|^~\\&|", "MSH|^~\\&#|", 1).encode()
    message = read_hl7(raw, "a", RecordMap.read("hl7-v2").hl7)
    assert message.written([], [None] * len(message.fields)).startswith(b"MSH|^~\\&#|")


def test_a_name_that_fhir_lacks_is_left_out() -> None:
    resource = {"resourceType": "Observation", "status": "final", SECRET: {"status": "final"}, "_status": {"id": "a"}}
    message = read_fhir(json.dumps(resource).encode(), "a.json", RecordMap.read("fhir-r4").fhir)
    assert json.loads(message.written([], [None] * len(message.fields))).keys() <= {"resourceType", "status", "_status"}


def test_a_section_of_a_base_may_have_a_place_called_kind(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('base = "pcornet"\n[tables.notes]\nkind = "drop"\nNOTE_DATE = "keep"\n[tables.kind]\nid = "drop"\n')
    base, own = RecordMap.read("pcornet").tables, RecordMap.read(path).tables
    date = {"NOTE_DATE": FieldRule(FieldKind.KEEP), "kind": FieldRule(FieldKind.DROP)}
    assert own == {**base, "notes": {**base["notes"], **date}, "kind": {"id": FieldRule(FieldKind.DROP)}}


@pytest.mark.parametrize("authority", ["A\\T\\B", "A\\T\\B&1.2&ISO", ""])
def test_an_authority_is_read_before_it_is_compared(authority: str) -> None:
    rules = {"PID-3": FieldRule(FieldKind.PSEUDONYM, of="patient", authority="A&B")}
    for id, read in ("7001", "7001"), ("7\\S\\1", "7^1"):
        data = f"{HL7.splitlines()[0]}\rPID|1||{id}^^^{authority}\r"
        assert read_hl7(data.encode(), "a.hl7", rules).patient == read


def test_ages_over_89_in_results() -> None:
    head, rules = HL7.splitlines()[0], RecordMap.read("hl7-v2").hl7

    def kinds(segment: str) -> list[tuple[FieldKind, object]]:
        message = read_hl7(f"{head}\r{segment}\r".encode(), "a.hl7", rules)
        return [(field.rule.kind, field.value) for field in message.fields if field.name == "OBX-5"]

    assert kinds("OBX|1|NM|30525-0^^LN||94") == [(FieldKind.AGE, "94")]
    assert kinds("OBX|1|NM|X^Patient age^L||94") == [(FieldKind.AGE, "94")]
    assert kinds("OBX|1|NM|X^Years smoked^L||94|a^year^UCUM") == [(FieldKind.AGE, "94")]
    assert kinds("OBX|1|NM|30525-0^Age^LN||94|mo") == [(FieldKind.CODES, "94")]
    assert kinds("OBX|1|NM|2345-7^Glucose^LN||94|mg/dL") == [(FieldKind.CODES, "94")]

    def value(code: dict[str, object], **quantity: object) -> object:
        resource = {"resourceType": "Observation", "code": code, "valueQuantity": quantity}
        content = json.dumps(resource).replace("Infinity", "1e999").encode()
        message = read_fhir(content, "a.json", RecordMap.read("fhir-r4").fhir)
        return [(field.rule.kind, field.value) for field in message.fields if field.rule.kind is FieldKind.AGE]

    loinc = {"coding": [{"system": "http://loinc.org", "code": "30525-0"}]}
    assert value(loinc, value=94.0) == value({"text": "x"}, value=94, unit="years") == [(FieldKind.AGE, 94)]
    assert value(loinc, value=float("1e999")) == value(loinc, value=True) == []
    assert value({"text": "Glucose"}, value=94) == value(loinc, value=94, unit="mo") == []
