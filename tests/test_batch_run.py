"""A batch from the command line: the same form out, nothing doubled after a kill, and no change goes unseen."""

import csv
import hashlib
import io
import json
import shutil
import signal
import subprocess
import sys
import time
from datetime import date, datetime
from pathlib import Path

import pytest
import tiny_stack
from made_keys import KEY, made_key

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.records import Record
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.deidentify.cells import Cells
from ensemble_deid.deidentify.manifest import MANIFEST, verify_run
from ensemble_deid.deidentify.repeats import PatientStrings
from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.deidentify.run import Run
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.surrogates.choices import Keyed

COLUMNS = ("--id-column", "note_id", "--patient-column", "mrn", "--keep-columns", "ward")


def write_csv(path: Path, patients: int = 4, times: int = 1) -> list[dict[str, str]]:
    rows = [
        {"note_id": str(1000 + k), "mrn": f"M{note.patient_id}", "ward": '7, "B"', "text": note.text}
        for k, note in enumerate(tiny_stack.notes(patients=patients) * times)
    ]
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return rows


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)


def run(*arguments: object) -> int:
    return main([str(argument) for argument in ("deidentify", *arguments)])


def test_a_csv_becomes_a_csv(tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = write_csv(tmp_path / "notes.csv")
    assert run(tiny_model, tmp_path / "notes.csv", "--out", tmp_path / "clean.csv", *COLUMNS) == 0
    assert capsys.readouterr().out.startswith(f"8 notes written to {tmp_path / 'clean.csv'}, 0 withheld\n")
    made = read_csv(tmp_path / "clean.csv")
    assert [list(row) for row in made] == [list(row) for row in rows]
    for old, new in zip(rows, made, strict=True):
        assert new["ward"] == old["ward"]
        assert new["note_id"] != old["note_id"]
        assert new["mrn"] != old["mrn"]
        assert new["note_id"].isdigit()
        assert "[DATE]" in new["text"]
        assert "for chest pain. BP 120/80." in new["text"]
    assert len({(old["mrn"], new["mrn"]) for old, new in zip(rows, made, strict=True)}) == 4
    spans = [json.loads(line) for line in (tmp_path / "clean.csv.run" / "spans.jsonl").read_text().splitlines()]
    assert {span["note"] for span in spans} == {row["note_id"] for row in made}
    first, old, new = spans[0], rows[0]["text"], made[0]["text"]
    assert old[: first["start"]] == new[: first["new_start"]]
    assert new[first["new_start"] : first["new_end"]] == f"[{first['label']}]"
    written = "".join(path.read_text() for path in (tmp_path / "clean.csv.run").iterdir())
    assert not any(row["mrn"] in written or "Anna" in written or "Lyndale" in written for row in rows)


def test_running_on_the_output_finds_surrogates_where_phi_was(tiny_model: Path, tmp_path: Path) -> None:
    write_csv(tmp_path / "notes.csv")
    names = ("once.csv", "twice.csv")
    for source, out in zip(("notes.csv", *names), names, strict=False):
        assert run(tiny_model, tmp_path / source, "--out", tmp_path / out, *COLUMNS, "--style", "surrogate") == 0
    first, second = (
        [json.loads(line) for line in (tmp_path / f"{name}.run" / "spans.jsonl").read_text().splitlines()]
        for name in names
    )
    texts = [row["text"] for row in read_csv(tmp_path / "once.csv")]
    places = {(s["place"], s["new_start"], s["new_end"]) for s in first if s["label"] == "DATE"}
    assert len(places) == 2 * len(texts)
    # The tiny model knows dates by a pattern; names it has only seen in training.
    assert places <= {(s["place"].replace("once", "notes"), s["start"], s["end"]) for s in second}
    assert not any("2019" in text for text in texts)


def test_jobs_and_forms_agree(tiny_model: Path, tmp_path: Path) -> None:
    """The same notes as CSV, as Parquet and as JSONL, and by two processes: the same notes come out."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = write_csv(tmp_path / "a.csv", patients=40)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "b.parquet")
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert run(tiny_model, tmp_path / "a.csv", "--out", tmp_path / "1", *COLUMNS, "--jobs", 2) == 0
    assert run(tiny_model, tmp_path / "a.csv", "--out", tmp_path / "2", *COLUMNS) == 0
    assert run(tiny_model, tmp_path / "b.parquet", "--out", tmp_path / "3", *COLUMNS) == 0
    assert run(tiny_model, tmp_path / "c.jsonl", "--out", tmp_path / "4", *COLUMNS) == 0
    assert (tmp_path / "1" / "a.csv").read_bytes() == (tmp_path / "2" / "a.csv").read_bytes()
    made = read_csv(tmp_path / "1" / "a.csv")
    assert pq.read_table(tmp_path / "3" / "b.parquet").to_pylist() == made
    assert [json.loads(line) for line in (tmp_path / "4" / "c.jsonl").read_text().splitlines()] == made


def test_a_killed_run_is_resumed(tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_csv(tmp_path / "notes.csv", patients=8, times=20)
    whole, broken = tmp_path / "whole.csv", tmp_path / "broken.csv"
    assert run(tiny_model, tmp_path / "notes.csv", "--out", whole, *COLUMNS) == 0
    command = ["deidentify", str(tiny_model), str(tmp_path / "notes.csv"), "--out", str(broken), *COLUMNS]
    process = subprocess.Popen([sys.executable, "-m", "ensemble_deid", *command], stdout=subprocess.DEVNULL)
    offsets = tmp_path / "broken.csv.run" / "offsets.jsonl"
    end = time.monotonic() + 300
    try:
        while not offsets.is_file() or offsets.read_bytes().count(b"\n") < 3:
            assert time.monotonic() < end
            assert process.poll() is None, "the run was over before it could be killed"
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not broken.exists()
    with pytest.raises(CorpusError, match=r"manifest\.jsonl: cannot be read"):
        verify_run(offsets.parent)
    text = offsets.read_text(encoding="utf-8")
    assert "Anna" not in text
    # As if the last line had been half written.
    offsets.write_text(text[: text.rindex("\n") - 3], encoding="utf-8")
    lines = len(offsets.read_text(encoding="utf-8").splitlines())
    # The head, at least one whole batch and the cut one, of ten.
    assert 2 < lines < 11
    assert run(*command[1:], "--resume", "--threshold", 0.9) == 2
    assert "begun with other settings: threshold" in capsys.readouterr().err
    assert run(*command[1:], "--resume") == 0
    assert broken.read_bytes() == whole.read_bytes()
    for name in ("spans.jsonl", "failed.jsonl"):
        assert (tmp_path / "broken.csv.run" / name).read_bytes() == (tmp_path / "whole.csv.run" / name).read_bytes()
    assert not offsets.exists()
    capsys.readouterr()
    assert run(*command[1:], "--resume") == 0
    assert "was finished before" in capsys.readouterr().out


def test_what_was_found_is_not_sought_again(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ensemble_deid.deidentify import run as batch
    from ensemble_deid.model.ensemble import Ensemble

    write_csv(tmp_path / "notes.csv", patients=8)
    command = (tiny_model, tmp_path / "notes.csv", "--out", tmp_path / "o.csv", *COLUMNS)
    write = batch.Run.write
    monkeypatch.setattr(batch.Run, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert run(*command) == 130
    assert not (tmp_path / "o.csv").exists()
    monkeypatch.setattr(batch.Run, "write", write)
    monkeypatch.setattr(Ensemble, "predict", None)
    assert run(*command, "--resume") == 0
    assert len(read_csv(tmp_path / "o.csv")) == 16


def test_an_input_that_changed_is_not_resumed(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ensemble_deid.deidentify import run as batch

    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.txt").write_text("Seen by Dr. Kemp.", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(batch.Run, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert run(tiny_model, notes, "--out", tmp_path / "out") == 130
    (notes / "a.txt").write_text("Seen by Dr. Gale.", encoding="utf-8")
    assert run(tiny_model, notes, "--out", tmp_path / "out", "--resume") == 2
    assert "the input has changed since the run began" in capsys.readouterr().err


def test_any_change_to_a_run_is_seen(tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_csv(tmp_path / "notes.csv")
    assert run(tiny_model, tmp_path / "notes.csv", "--out", tmp_path / "out" / "clean.csv", *COLUMNS) == 0
    assert main(["audit", "verify", str(tmp_path / "out" / "clean.csv.run")]) == 0
    head = capsys.readouterr().out.split()[-1]
    shutil.copytree(tmp_path / "out", tmp_path / "copy")
    folder = tmp_path / "copy" / "clean.csv.run"
    assert main(["audit", "verify", str(folder), "--head", head]) == 0
    assert main(["audit", "verify", str(folder), "--head", "0" * 64]) == 2
    files = [*folder.iterdir(), folder.parent / "clean.csv"]
    assert len(files) == 4
    for path in files:
        before = path.read_bytes()
        for changed in (before + b"x", before[1:], before.replace(b"1", b"2", 1)):
            if changed != before:
                path.write_bytes(changed)
                with pytest.raises(
                    CorpusError, match=rf"{path.name}:?\d*: (the chain is broken|is not as the run wrote)"
                ):
                    verify_run(folder)
        path.unlink()
        with pytest.raises(CorpusError, match=rf"{path.name}: (is missing|cannot be read)"):
            verify_run(folder)
        path.write_bytes(before)
    manifest = folder / "manifest.jsonl"
    lines = manifest.read_bytes().splitlines(keepends=True)
    for k in range(len(lines)):
        manifest.write_bytes(b"".join(lines[:k] + lines[k + 1 :]))
        with pytest.raises(CorpusError, match=r"the chain is broken|incomplete: its beginning or end is missing"):
            verify_run(folder)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_withheld_note_is_empty_and_reported(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"text": f"Zyxwvutsr \0 {k}" if k == 1 else "Seen on 03/04/2019.", "id": k} for k in range(3)]
    path, out = tmp_path / f"n.{form}", tmp_path / f"o.{form}"
    if form == "csv":
        path.write_text("text,id\n" + "".join(f"{row['text']},{row['id']}\n" for row in rows), encoding="utf-8")
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    assert run(tiny_model, path, "--out", out, "--id-column", "id") == 3
    said = capsys.readouterr()
    assert said.out.startswith(f"2 notes written to {out}, 1 withheld\n")
    failed = [json.loads(line) for line in (tmp_path / f"o.{form}.run" / "failed.jsonl").read_text().splitlines()]
    assert [entry["place"] for entry in failed] == ["line 2" if form == "jsonl" else "row 2"]
    assert "Zyxwvutsr" not in said.err + str(failed)
    if form == "csv":
        texts = [row["text"] for row in read_csv(out)]
    elif form == "jsonl":
        texts = [json.loads(line)["text"] for line in out.read_text().splitlines()]
        texts.insert(1, "")
    else:
        texts = [text or "" for text in pq.read_table(out).column("text").to_pylist()]
    assert texts == ["Seen on [DATE].", "", "Seen on [DATE]."]
    assert run(tiny_model, path, "--out", out, "--id-column", "id", "--resume") == 3


def test_a_note_that_is_withheld_later_leaves_no_old_output(tiny_model: Path, tmp_path: Path) -> None:
    notes, out = tmp_path / "notes", tmp_path / "out"
    (notes / "deep" / "er").mkdir(parents=True)
    for path in (notes / "a.txt", notes / "deep" / "er" / "b.txt"):
        path.write_text("Seen on 03/04/2019.", encoding="utf-8")
    assert run(tiny_model, notes, "--out", out, "--recursive") == 0
    assert (out / "deep" / "er" / "b.txt").read_text(encoding="utf-8") == "Seen on [DATE]."
    (notes / "deep" / "er" / "b.txt").write_bytes(b"\xff")
    assert run(tiny_model, notes, "--out", out, "--recursive") == 3
    assert [path.name for path in out.rglob("*.txt")] == ["a.txt"]
    verify_run(tmp_path / "out.run")


def test_standard_input(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    def piped(data: bytes, *arguments: object) -> tuple[int, bytes]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        status = run(tiny_model, "-", *arguments)
        return status, capfdbinary.readouterr().out

    assert piped(b"Seen on 03/04/2019.\r\n") == (0, b"Seen on [DATE].\r\n")
    data = b"text,x\r\nSeen on 03/04/2019.,1.0\r\n"
    csv_options = ("--input-format", "csv", "--keep-columns", "all")
    assert piped(data, *csv_options) == (0, b"text,x\r\nSeen on [DATE].,1.0\r\n")
    assert piped(data, *csv_options, "--out", tmp_path / "o.csv")[0] == 0
    assert (tmp_path / "o.csv").read_bytes() == b"text,x\r\nSeen on [DATE].,1.0\r\n"
    assert piped(b"\xff") == (3, b"")


def test_several_tables_of_a_folder(tiny_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "more").mkdir(parents=True)
    for name in ("a.csv", "more/b.csv"):
        (folder / name).write_text("text\nSeen on 03/04/2019.\n", encoding="utf-8")
    (folder / "more" / "empty.csv").write_text("text\n", encoding="utf-8")
    assert run(tiny_model, folder, "--out", tmp_path / "out", "--recursive") == 0
    made = {str(path.relative_to(tmp_path / "out")): path.read_text() for path in (tmp_path / "out").rglob("*.csv")}
    note = "text\nSeen on [DATE].\n"
    assert made == {"a.csv": note, "more/b.csv": note, "more/empty.csv": "text\n"}
    assert verify_run(tmp_path / "out.run").files == 3


def test_columns_that_nobody_named_are_refused(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(tmp_path / "notes.csv")
    assert run(tiny_model, tmp_path / "notes.csv", "--out", tmp_path / "o.csv", "--id-column", "note_id") == 2
    assert "nothing says what the columns mrn, ward hold, and they may hold PHI" in capsys.readouterr().err
    assert not (tmp_path / "o.csv").exists()
    assert run(tiny_model, tmp_path / "notes.csv", "--out", tmp_path / "o.parquet", *COLUMNS) == 2
    assert "has the form of the input" in capsys.readouterr().err


def test_a_name_found_once_is_found_in_the_patients_other_notes() -> None:
    def note(identity: str, text: str, *found: tuple[str, str], patient: str | None = "7") -> Document:
        spans = [Span(text.index(s), text.index(s) + len(s), label, 0.9) for s, label in found]
        return Document(identity, text, tuple(spans), patient_id=patient)

    strings = PatientStrings()
    first = note("1", "Mr. John Smith, 45, white, seen.", ("John Smith", "PATIENT"), ("45", "AGE"), ("white", "CITY"))
    strings.add(first)
    second = note("2", "Smith, John Smith and JohnSmith; 45 white", ("Smith, John", "DOCTOR"))
    strings.add(second)
    found = strings.of(second).search(second)
    assert [(s.start, s.end, s.label) for s in found.spans] == [(0, 17, "DOCTOR")]
    third = note("3", "Seen: John Smith (45, white, John Smithson).")
    assert [s.key for s in strings.of(third).search(third).spans] == [(6, 16, "PATIENT")]
    other = note("4", "Seen: John Smith.", patient="8")
    assert not strings.of(other).search(other).spans
    alone = note("5", "John Smith. John Smith.", ("John Smith", "PATIENT"), patient=None)
    assert [s.start for s in strings.of(alone).search(alone).spans] == [0, 12]
    assert strings.of(third).taken == {"john smith", "45", "white", "smith, john"}


@pytest.mark.parametrize("form", ["plain", "jsonl"])
def test_a_run_over_standard_input_and_output_is_verified_and_resumed(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], form: str
) -> None:
    text = "Date: 03/04/2019"
    given = text if form == "plain" else json.dumps({"text": text}) + "\n"
    folder = tmp_path / "r"

    def stream(*options: object) -> int:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        return run(tiny_model, "-", "--input-format", form, "--run", folder, "--quiet", *options)

    assert stream() == 0
    made = capfd.readouterr().out
    assert made.startswith("Date: [DATE]" if form == "plain" else '{"text": "Date: [DATE]"')
    assert main(["audit", "verify", str(folder)]) == 0
    digest = hashlib.sha256(made.encode()).hexdigest()
    assert f"its output went to standard output, and had the SHA-256 {digest}" in capfd.readouterr().out
    assert not any("/tmp" in path.read_text() or "standard-input" in path.read_text() for path in [folder / MANIFEST])
    # There is nothing to print again, and an empty output must not pass for that of the run.
    assert stream("--resume") == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert "which nothing keeps" in said.err
    with monkeypatch.context() as broken:
        broken.setattr(Run, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert stream() == 130
    capfd.readouterr()
    assert stream("--resume") == 0
    assert capfd.readouterr().out == made


def test_small_integers_get_distinct_pseudonyms() -> None:
    cells = Cells(Replacer.from_options(key=KEY), Columns(id="n"), (16, 64))
    made = [cells.id(Record("r", id=k)) for k in range(1 << 14)]
    assert sorted(made) == list(range(1 << 14))  # type: ignore[type-var]
    assert made[:50] != list(range(50))
    with pytest.raises(CorpusError, match="leaves no room"):
        cells.id(Record("r", id=1 << 14))
    assert cells._shifted(None, "p") is None
    assert cells._shifted(date(2014, 3, 5), "p") != date(2014, 3, 5)


def test_no_integer_of_eight_bits_is_its_own_pseudonym() -> None:
    for number in range(300):
        cells = Cells(Replacer.from_options(key=made_key(str(number))), Columns(id="n"), (10, 10))
        notes = [cells.id(Record("r", id=value)) for value in range(256)]
        assert sorted(notes) == list(range(256))  # type: ignore[type-var]
        assert not [value for value, new in enumerate(notes) if new == value]
        if number >= 30:
            continue
        patients = [cells.patient(Record("r", patient=value)) for value in range(1, 256)]
        # 0 is a placeholder, which no patient becomes.
        assert sorted(patients) == list(range(1, 256))  # type: ignore[type-var]
        assert not [value for value, new in enumerate(patients, start=1) if new == value]


@pytest.mark.parametrize(("own", "other"), [("100000000000001", "100000000000002"), ("note-" + "0" * 20, "note-")])
def test_no_other_id_is_its_own_pseudonym(monkeypatch: pytest.MonkeyPatch, own: str, other: str) -> None:
    # As if the first one drawn were the id itself.
    drawn = iter([bytes(31) + b"\1", b"\1" * 31 + b"\2" if "-" in own else bytes(31) + b"\2"])
    monkeypatch.setattr(Keyed, "digest", lambda *_: next(drawn))
    new = Replacer.from_options(key=KEY).pseudonym(own, kind="note")
    assert new.startswith(other)
    assert new != own


def test_a_run_folder_with_other_files_is_refused(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(tmp_path / "notes.csv")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "mine").write_text("x", encoding="utf-8")
    assert run(tiny_model, tmp_path / "notes.csv", "--out", tmp_path / "o.csv", "--run", tmp_path / "r", *COLUMNS) == 2
    assert "holds other files" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "r").iterdir()] == ["mine"]


def test_a_date_column_has_one_order_or_is_refused(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """3/4/2014 is refused before anything is written, unless another row or an option says what it means."""
    options = ("--patient-column", "mrn", "--date-columns", "seen", "--style", "surrogate", "--out", tmp_path / "o.csv")

    def days(*dates: str, more: tuple[str, ...] = ()) -> list[date]:
        with (tmp_path / "n.csv").open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([("mrn", "seen", "text"), *(("A", day, "Well.") for day in dates)])
        assert run(tiny_model, tmp_path / "n.csv", *options, *more) == 0
        form = "%m/%d/%Y" if "mdy" in more else "%d/%m/%Y"
        return [datetime.strptime(row["seen"], form).date() for row in read_csv(tmp_path / "o.csv")]

    with pytest.raises(AssertionError):
        days("03/04/2014", "05/04/2014")
    assert "the dates of the column seen may be read with the day or the month first" in capsys.readouterr().err
    assert not (tmp_path / "o.csv").exists()
    first, second = days("03/04/2014", "25/04/2014")
    assert (second - first).days == 22
    first, second = days("03/04/2014", "05/04/2014", more=("--date-order", "dmy"))
    assert (second - first).days == 2
    first, second = days("03/04/2014", "05/04/2014", more=("--date-order", "mdy"))
    assert (second - first).days == 61
    assert run(tiny_model, tmp_path / "n.csv", *options, "--date-order", "ydm") == 2
    assert "must be one of dmy, mdy, ymd" in capsys.readouterr().err


def test_ids_and_dates_agree_with_the_surrogates_in_the_text(tiny_model: Path, tmp_path: Path) -> None:
    """A date column is shifted as the date in the text is, and equal keys give equal tables."""
    rows = [("id", "mrn", "seen", "text")]
    rows += [(k, f"M{k // 2}", f"03/1{k}/2019", f"Seen on 03/1{k}/2019.") for k in range(4)]
    with (tmp_path / "n.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    options = ("--id-column", "id", "--patient-column", "mrn", "--date-columns", "seen", "--style", "surrogate")
    for name in ("a.csv", "b.csv"):
        out = tmp_path / name
        assert run(tiny_model, tmp_path / "n.csv", "--out", out, *options, "--spans", tmp_path / "spans.jsonl") == 0
    made = read_csv(tmp_path / "a.csv")
    for row, (_, _, seen, _) in zip(made, rows[1:], strict=True):
        assert row["text"] == f"Seen on {row['seen']}."
        assert row["seen"] != seen
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert (tmp_path / "spans.jsonl").read_bytes() == (tmp_path / "b.csv.run" / "spans.jsonl").read_bytes()
