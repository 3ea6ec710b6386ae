"""The record of a release: made, signed, verified, forged; its documents; what stays of each patient."""

import csv
import json
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import tiny_stack
from audit_readers import adjudicate, read

from ensemble_deid.audit.documents import NOT_MEASURED, open_points, release_document
from ensemble_deid.audit.record import _PURPOSE, _canonical
from ensemble_deid.audit.residual import SMALL, residual_risk
from ensemble_deid.cli.main import main
from ensemble_deid.deidentify.manifest import verify_run
from ensemble_deid.evaluation.render.pdf import pdf_of
from ensemble_deid.evaluation.render.results import Heading, Table
from ensemble_deid.keys import SigningKey
from ensemble_deid.model.manifest import read_manifest

NOTES = tiny_stack.notes(600, patients=8)
GOLD = {f"row {number}": note for number, note in enumerate(NOTES, start=1)}
WARDS = ("A", "A", "B")


@pytest.fixture(scope="module")
def place(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, its release, its run, a finished audit and keys."""
    folder = tmp_path_factory.mktemp("release")
    with (folder / "notes.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "mrn", "ward", "text"])
        for number, note in enumerate(NOTES):
            writer.writerow([note.id, note.patient_id, WARDS[number % 3], note.text])
    table = [str(folder / "notes.csv"), "--id-column", "id", "--patient-column", "mrn", "--keep-columns", "ward"]
    out = ["--out", str(folder / "clean.csv"), "--policy", "safe-harbor", "--quiet", "--accept-unfit"]
    assert main(["deidentify", str(tiny_model), *table, *out]) == 0
    plan = ["audit", "plan", str(folder / "clean.csv.run"), str(folder / "notes.csv"), str(tiny_model), "--size", "8"]
    assert main([*plan, "--strata", "ward", "--out", str(folder / "audit")]) == 0
    read(folder / "audit", GOLD)
    adjudicate(folder / "audit", GOLD)
    assert main(["keygen", str(folder / "officer.pem"), "--signing"]) == 0
    return folder


def release(place: Path, model: Path, out: Path, *more: str) -> int:
    words = ["audit", "release", str(place / "clean.csv.run"), str(model), "--audit", str(place / "audit")]
    words += ["--sign", str(place / "officer.pem"), "--by", "Mia Ode", "--role", "privacy officer"]
    words += ["--adjudicator", "Ada Gil", "--decision", "approve", "--date", "2031-02-03", "--out", str(out)]
    return main([*words, *more])


@pytest.fixture(scope="module")
def record(place: Path, tiny_model: Path) -> Path:
    """A signed record with its documents."""
    out = place / "record.json"
    assert release(place, tiny_model, out, "--condition", "for this study only") == 0
    return out


def verify(place: Path, record: Path, *more: str, trust: str = "officer.pem.pub") -> int:
    return main(["audit", "verify", str(record), "--trust", str(place / trust), *more])


def test_a_release_is_signed_and_verified(
    place: Path, record: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert verify(place, record) == 0
    said = capsys.readouterr().out
    assert "approve, by Mia Ode, privacy officer, on 2031-02-03" in said
    assert "signed by officer (" in said
    content = json.loads(record.read_text(encoding="ascii"))["record"]
    assert content["run"]["head"] == verify_run(place / "clean.csv.run").head
    assert content["model"]["checksum"] == read_manifest(tiny_model).checksum
    assert content["decision"]["conditions"] == ["for this study only"]
    assert content["audit"]["figures"]["readers"] == ["kim", "lee"]
    assert content["attacks"] is None
    open_ones = {point for point, holds, _ in open_points(content) if holds is False}
    bound = "Direct identifiers: at most 1.00% of patients"
    assert open_ones == {bound, "Attacks on missed PHI measured for this model"}
    again = place / "again.json"
    assert release(place, tiny_model, again, "--condition", "for this study only") == 0
    for path in [record, *sorted(place.glob("record-*"))]:
        assert (place / path.name.replace("record", "again")).read_bytes() == path.read_bytes()


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value that holds no others."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = False
    for name, part in parts:
        found = True
        yield from leaves(part, (*path, name))
    if not found:
        yield path


def changed(content: Any, path: tuple[Any, ...]) -> Any:
    """Return a copy with one value changed."""
    copy = json.loads(json.dumps(content))
    holder = copy
    for name in path[:-1]:
        holder = holder[name]
    old = holder[path[-1]]
    holder[path[-1]] = old + 1 if isinstance(old, int | float) else "other" if old != "other" else "another"
    return copy


def test_no_value_can_be_changed(place: Path, record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every value of every part once; the signature refuses each before anything is computed."""
    content = json.loads(record.read_text(encoding="ascii"))
    forged = place / "forged.json"
    paths = list(leaves(content))
    assert len(paths) > 200
    for path in paths:
        forged.write_text(json.dumps(changed(content, path)), encoding="ascii")
        assert verify(place, forged) == 2, path
    capsys.readouterr()
    assert verify(place, forged.with_name("none.json")) == 2


@pytest.mark.parametrize(
    "path",
    [
        ("run", "counts", "written"),
        ("model", "threshold"),
        ("model", "rules"),
        ("audit", "figures", "rates", 0, "upper"),
        ("audit", "design", "seed"),
        ("residual", "rows", 0, "alone"),
    ],
)
def test_what_is_computed_is_checked_even_where_the_signature_is_valid(
    place: Path, record: Path, path: tuple[Any, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    content = changed(json.loads(record.read_text(encoding="ascii"))["record"], path)
    signature = SigningKey.from_file(place / "officer.pem").sign(_PURPOSE, _canonical(content))
    wrong = place / "wrong.json"
    wrong.write_text(json.dumps({"format": 2, "record": content, "signature": signature}), encoding="ascii")
    assert verify(place, wrong) == 2
    assert f"of the {path[0]} it says something else" in capsys.readouterr().err


def test_documents_are_signed_with_the_record(
    place: Path, record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(place, tmp_path / "copy")
    page = tmp_path / "copy" / "record-expert.html"
    page.write_text(page.read_text(encoding="utf-8").replace("Mia Ode", "Mia Ole"), encoding="utf-8")
    assert verify(place, tmp_path / "copy" / "record.json") == 2
    assert "record-expert.html: not the document that was signed" in capsys.readouterr().err
    page.unlink()
    model = Path(json.loads(record.read_text(encoding="ascii"))["record"]["places"]["model"])
    assert verify(place, tmp_path / "copy" / "record.json", "--model", str(place / model)) == 0
    assert "not checked: record-expert.html" in capsys.readouterr().out


def test_an_unknown_key_a_changed_output_and_a_moved_run(
    place: Path, record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not (place / "other.pem").exists():
        assert main(["keygen", str(place / "other.pem"), "--signing"]) == 0
    assert verify(place, record, trust="other.pem.pub") == 2
    assert "does not list" in capsys.readouterr().err
    assert verify(place, record, "--run", str(tmp_path)) == 2
    moved = tmp_path / "moved"
    shutil.copytree(place, moved)
    (moved / "clean.csv").write_text("id,mrn,ward,text\n", encoding="utf-8")
    assert verify(place, record, "--run", str(moved / "clean.csv.run")) == 2
    assert "is not as the run wrote it" in capsys.readouterr().err
    shutil.copy(place / "clean.csv", moved / "clean.csv")
    assert verify(place, record, "--run", str(moved / "clean.csv.run")) == 0


def test_attacks_are_those_of_this_model(
    place: Path, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picked = {"picked": {"value": 0.25}}
    exposure = {"all": {"missed": 8, "surrogates": 24, "chance": 0.25, "attacks": {"parrot": picked}}}
    file, out = tmp_path / "attacks.json", place / "attacked.json"
    file.write_text(json.dumps({"model": "0" * 64, "exposure": exposure}), encoding="ascii")
    assert release(place, tiny_model, out, "--attacks", str(file)) == 2
    assert "another model" in capsys.readouterr().err
    assert not out.exists()
    checksum = read_manifest(tiny_model).checksum
    file.write_text(json.dumps({"model": checksum, "exposure": exposure}), encoding="ascii")
    assert release(place, tiny_model, out, "--attacks", str(file)) == 0
    assert verify(place, out) == 0
    page = (place / "attacked-expert.html").read_text(encoding="utf-8")
    assert "parrot" in page
    assert NOT_MEASURED not in page
    # A package has them beside its model.
    shutil.copytree(tiny_model, tmp_path / "model")
    assert release(place, tmp_path / "model", place / "packaged.json") == 0
    assert json.loads((place / "packaged.json").read_text(encoding="ascii"))["record"]["attacks"]["model"] == checksum


def test_documents_fit_on_four_pages_and_quote_nothing(place: Path, record: Path) -> None:
    for kind in ("expert", "safe-harbor"):
        pdf = (place / f"record-{kind}.pdf").read_bytes()
        pages = len(re.findall(rb"/Type /Page\b", pdf))
        assert 1 <= pages <= 4, kind
        page = (place / f"record-{kind}.html").read_text(encoding="utf-8")
        assert "Approved for release by Mia Ode, privacy officer, on 2031-02-03" in page
        assert "for this study only" in page
        for note in NOTES:
            assert not any(len(words := note.text[s.start : s.end]) > 3 and words in page for s in note.spans)


def test_a_large_record_still_fits(record: Path) -> None:
    """With 40 strata, every identifier, and many small groups."""
    content = json.loads(record.read_text(encoding="ascii"))["record"]
    row = content["audit"]["figures"]["rates"][0]
    content["audit"]["figures"]["subgroups"] = [{**row, "name": f"ward {n}"} for n in range(40)]
    content["audit"]["figures"]["direct"] = [{**row, "name": f"identifier {n}"} for n in range(17)]
    content["residual"]["smallest"] = [[1, [f"patient-{n:020}"]] for n in range(20)]
    content["decision"]["conditions"] = ["A condition of some length, as lawyers write them, twice over. " * 3] * 4
    for kind in ("expert", "safe-harbor"):
        _, pdf = release_document(kind, content, "0" * 16)
        assert len(re.findall(rb"/Type /Page\b", pdf)) <= 4


def test_what_stays_is_counted_by_patient(place: Path) -> None:
    """Against a count by hand from the table and the spans."""
    found = residual_risk(place / "clean.csv.run", verify_run(place / "clean.csv.run"))
    assert found is not None
    rows = list(csv.DictReader((place / "clean.csv").read_text(encoding="utf-8").splitlines()))
    shown = {"AGE", "PROFESSION", "STATE", "COUNTRY", "DATE", "ZIP"}
    values: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for row in rows:
        values[row["mrn"]].add(("ward", row["ward"].lower()))
    kinds = {"AGE": "age", "PROFESSION": "job", "DATE": "date"}
    for line in (place / "clean.csv.run" / "spans.jsonl").read_text(encoding="utf-8").splitlines():
        span = json.loads(line)
        if span["label"] in shown and span["new_start"] < span["new_end"]:
            row = rows[int(span["place"].split()[1]) - 1]
            value = row["text"][span["new_start"] : span["new_end"]].lower()
            values[row["mrn"]].add((kinds.get(span["label"], "place"), value))
    groups = Counter(frozenset(own) for own in values.values())
    together = found.rows[-1]
    assert (found.patients, found.notes) == (8, 16)
    assert (together.groups, together.alone) == (len(groups), sum(k == 1 for k in groups.values()))
    assert together.in_small_groups == 8 < SMALL
    assert sum(k for k, _ in found.smallest) + found.unlisted == 8
    assert {name for _, ids in found.smallest for name in ids} <= set(values)
    assert "column ward" in {row.kind for row in found.rows}
    # Whole words: a pseudonym may contain the digits of a number by chance.
    words = set(re.findall(r"\w+", json.dumps(asdict(found))))
    assert not words & {note.patient_id for note in NOTES}


def test_pages_keep_captions_with_their_tables() -> None:
    """Whatever stands before it, a caption's page has the head and the first row of its table."""
    for lines in range(50, 80):
        table = Table("The caption", ("Head", ""), (("First", "1"), ("Second", "2")))
        pdf = pdf_of("Title", [*["line"] * (lines // 2), Heading("Above"), table])
        pages = re.findall(rb"stream\n(.*?)\nendstream", pdf, re.DOTALL)
        (page,) = [page for page in pages if b"(The caption)" in page]
        assert b"(Above)" in page
        assert b"(First)" in page


def test_a_pdf_is_a_pdf() -> None:
    pdf = pdf_of("A (title) \\ \u00e9", ["\u0141uk " + "x" * 400, Table("", ("a", "b"), (("c " * 200, "d"),))])
    assert pdf.startswith(b"%PDF-1.4\n")
    assert pdf == pdf_of("A (title) \\ \u00e9", ["\u0141uk " + "x" * 400, Table("", ("a", "b"), (("c " * 200, "d"),))])
    assert rb"(A \(title\) \\ " + b"\xe9)" in pdf
    # A letter that the fonts lack is not lost.
    assert b"U+0141uk" in pdf
    start = int(re.findall(rb"startxref\n(\d+)\n", pdf)[0])
    assert pdf[start : start + 4] == b"xref"
    for number, offset in enumerate(re.findall(rb"(\d{10}) 00000 n", pdf), start=1):
        assert pdf[int(offset) :].startswith(b"%d 0 obj\n" % number)
    for length, content in re.findall(rb"/Length (\d+) >>\nstream\n(.*?)\nendstream", pdf, re.DOTALL):
        assert len(content) == int(length)
