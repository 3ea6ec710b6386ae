"""The folder in which the commands of the documents are run: a model, notes, tables, lists, a key."""

import contextlib
import csv
import json
import shutil
import sqlite3
from pathlib import Path

import tiny_stack
from made_keys import KEY

from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.service.review.edits import finish
from ensemble_deid.service.review.file import Facts, ReviewFile, settle_facts
from ensemble_deid.service.review.fill import add_note


def make_workplace(tiny_model: Path, folder: Path) -> None:
    """Fill a folder with everything that the documents take for granted."""
    for name in ("model", "en"):
        shutil.copytree(tiny_model, folder / name)
    for part, first in (("train", 300), ("dev", 400), ("test", 506)):
        # As many as a threshold may be chosen on.
        write_corpus(tiny_stack.notes(first, patients=10 if part == "dev" else 4), folder / "my" / part, "i2b2")
    for name in ("notes", "my_notes"):
        write_corpus(tiny_stack.notes(patients=1), folder / name, "plain")
    missed = tiny_stack.note("701-01", "Met ", ("Quorvax", "PATIENT"), " at the gate.\n", patient="701")
    write_corpus([missed], folder / "pool.jsonl", "jsonl")
    write_corpus(tiny_stack.notes(609), folder / "corrected.jsonl", "jsonl")
    rules = (tiny_model / "tbed.rules").read_text(encoding="utf-8").splitlines(keepends=True)
    for name, lines in {"list": rules[:-1], "before": rules, "after": rules}.items():
        (folder / f"{name}.rules").write_text("".join(lines), encoding="utf-8")
    lines = (
        {"id": note.id, "spans": [{"start": span.start, "end": span.end, "label": "PHI"} for span in note.spans[:2]]}
        for note in (*tiny_stack.notes(300), *tiny_stack.notes(400, patients=10))
    )
    (folder / "spans.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    shutil.copytree(Path(__file__).parents[1] / "data" / "german", folder / "data" / "german")
    (folder / "key").write_text(KEY.text, encoding="ascii")
    _write_tables(folder)
    _write_review(folder)
    added = "[[pattern]]\nname = 'pain'\nlabel = 'CITY'\nregex = 'chest pain'\n"
    (folder / "harvested.toml").write_text(added, encoding="utf-8")
    (folder / "sentences.toml").write_text("sentences = ['BP 120/80.']\n", encoding="utf-8")
    (folder / "my-patterns").mkdir()
    (folder / "my-patterns" / "clinic.toml").write_text(tiny_stack.PATTERNS, encoding="utf-8")


def _write_tables(folder: Path) -> None:
    """Write notes.csv, tables/, messages/ and notes.db, and the lists of a site."""
    rows = ["patient_id,kind,value", 'M300,name,"BELL, ANNA M."', "M300,mrn,0048213", ',staff,"Okonkwo, Adaeze, MD"']
    (folder / "known.csv").write_text("\n".join(rows), encoding="utf-8")
    (folder / "allow.txt").write_text("# devices\nSt. Jude\n", encoding="utf-8")
    (folder / "deny.csv").write_text("label,value\nHOSPITAL,Unit 7-West\n", encoding="utf-8")
    with (folder / "notes.csv").open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["note_id", "mrn", "seen", "ward", "text"])
        notes = tiny_stack.notes(patients=1)
        table.writerows([1001 + k, "M300", "2019-01-10", "7B", note.text] for k, note in enumerate(notes))
    (folder / "tables").mkdir()
    (folder / "tables" / "person.csv").write_text("person_id,birth_datetime\n70012345,1950-03-05\n", encoding="utf-8")
    with (folder / "tables" / "note.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([["note_id", "person_id", "note_text"], [1, 70012345, notes[0].text]])
    (folder / "messages").mkdir()
    line = "\\.br\\".join(notes[0].text.splitlines())
    # Without a field that would be kept: there is nothing to warn of.
    message = f"MSH|^~\\&|||||||ORU^R01||P|2.5\rOBX|1|TX|11502-2^^LN||{line}\r"
    (folder / "messages" / "a.hl7").write_text(message, encoding="utf-8", newline="")
    with contextlib.suppress(ImportError):
        import pyarrow
        import pyarrow.parquet

        texts = [note.text for note in notes]
        rows = {"n": [1, 2], "mrn": ["M300", "M300"], "ward": ["7B", "7B"], "text": texts}
        pyarrow.parquet.write_table(pyarrow.table(rows), folder / "notes.parquet")
    with contextlib.closing(sqlite3.connect(folder / "notes.db")) as base:
        base.execute("CREATE TABLE notes (n INTEGER, body TEXT)")
        base.execute("INSERT INTO notes VALUES (1, ?)", [notes[0].text])
        base.commit()


def _write_review(folder: Path) -> None:
    """Write review.sqlite, in which somebody finished the notes of four patients of eight, and reviewed.jsonl."""
    file = ReviewFile(folder / "review.sqlite", create=True)
    settle_facts(file, Facts("0f", 0.5, ("PATIENT", "DATE", "CITY", "DOCTOR")))
    with file.transaction() as database:
        for number, note in enumerate(tiny_stack.notes(609), start=1):
            add_note(database, note, 0.5, submodels=4)
            finish(database, "kim", number, finished=True, settle=True)
        for note in tiny_stack.notes(710):
            add_note(database, note, 0.5, submodels=4)
    file.close()
    write_corpus(tiny_stack.notes(), folder / "reviewed.jsonl", "jsonl")
