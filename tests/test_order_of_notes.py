"""Notes of nobody in another order: the same surrogates for the same text, at every door."""

import csv
import json
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

import pytest
import tiny_stack
from made_keys import KEY

from ensemble_deid import Deidentifier, deidentify_series
from ensemble_deid.cli.main import main
from ensemble_deid.deidentify.replacement import Replacer

D = "03/04/2019"
NOTES = ["Date: 03/04/2019", "Seen on 05/06/2018"]


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Deidentifier:
    return Deidentifier.load(tiny_model)


@pytest.fixture(scope="module")
def wanted(model: Deidentifier) -> dict[str, str]:
    found = [result.text or "" for result in model.pipe(NOTES, style="surrogate", key=KEY)]
    assert all(text not in NOTES and "[" not in text for text in found)
    return dict(zip(NOTES, found, strict=True))


def day(written: str) -> date:
    return datetime.strptime(written, "%m/%d/%Y").date()


def test_what_is_found_does_not_depend_on_the_notes_beside_it(model: Deidentifier) -> None:
    """Of notes of unequal length, alone and together, in either order; arithmetic differs in the last digits."""
    notes = [note for group in (tiny_stack.notes(700, patients=5), tiny_stack.notes(800, patients=1)) for note in group]
    notes = [replace(note, text=note.text + "\nStable." * (n % 4), spans=()) for n, note in enumerate(notes)]
    threshold = model.description.threshold
    together, alone = model.predict(notes, threshold=0.0), [model.predict([note], threshold=0.0)[0] for note in notes]
    for found in (alone, model.predict(notes[::-1], threshold=0.0)[::-1]):
        for one, other in zip(together, found, strict=True):
            assert [span.key for span in one.spans] == [span.key for span in other.spans]
            scores = [span.score or 0.0 for span in other.spans]
            assert [span.score for span in one.spans] == pytest.approx(scores, abs=1e-5)
    assert any(span.score and span.score >= threshold for note in together for span in note.spans)


@pytest.mark.parametrize("form", ["csv", "jsonl", "txt"])
def test_the_command_line(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: dict[str, str], form: str
) -> None:
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)
    for name, notes in (("a", NOTES), ("b", NOTES[::-1])):
        source, out = tmp_path / f"{name}.{form}", tmp_path / f"{name}-new.{form}"
        if form == "txt":
            source, out = tmp_path / name, tmp_path / f"{name}-new"
            source.mkdir()
            for number, note in enumerate(notes):
                (source / f"{number}.txt").write_text(note, encoding="utf-8")
        elif form == "csv":
            source.write_text("\n".join(["text", *notes]), encoding="utf-8")
        else:
            source.write_text("\n".join(json.dumps({"text": note}) for note in notes), encoding="utf-8")
        assert (
            main(["deidentify", str(tiny_model), str(source), "--out", str(out), "--style=surrogate", "--quiet"]) == 0
        )
        if form == "txt":
            found = [path.read_text(encoding="utf-8") for path in sorted(out.iterdir())]
        elif form == "csv":
            found = out.read_text(encoding="utf-8").splitlines()[1:]
        else:
            found = [json.loads(line)["text"] for line in out.read_text(encoding="utf-8").splitlines()]
        assert found == [wanted[note] for note in notes]


def test_the_date_column_goes_with_the_text(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: dict[str, str]
) -> None:
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)
    rows = ["d,text", f"{D},{NOTES[0]}", f"{D},", "03/05/2019,"]
    (tmp_path / "a.csv").write_text("\n".join(rows), encoding="utf-8")
    command = ["deidentify", str(tiny_model), str(tmp_path / "a.csv"), "--out", str(tmp_path / "o.csv")]
    assert main([*command, "--date-columns", "d", "--date-order", "mdy", "--style", "surrogate", "--quiet"]) == 0
    first, second, third = csv.DictReader((tmp_path / "o.csv").read_text(encoding="utf-8").splitlines())
    assert first["text"] == wanted[NOTES[0]] == f"Date: {first['d']}"
    # Rows without a text are not shifted as one patient: one known date would tell the others.
    shifts = {day(row["d"]) - day(old) for row, old in ((first, D), (second, D), (third, "03/05/2019"))}
    assert len(shifts) == 3


def test_series_duckdb_and_streams(model: Deidentifier, wanted: dict[str, str]) -> None:
    pandas = pytest.importorskip("pandas")
    replacer = Replacer.from_options("surrogate", key=KEY)
    for notes in (NOTES, NOTES[::-1]):
        expected = [wanted[note] for note in notes]
        assert deidentify_series(pandas.Series(notes), model, replacer=replacer).to_list() == expected
        assert [found for _, found in sorted(by_duckdb(model, notes).items())] == expected
        assert by_batches(model, notes, replacer) == expected


def by_duckdb(model: Deidentifier, notes: list[str]) -> dict[int, str]:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed (extra duckdb)")
    from ensemble_deid.integrations.duckdb import register

    with duckdb.connect() as connection:
        register(connection, model, style="surrogate", key=KEY)
        query = "SELECT n, deidentify(t, NULL).text FROM (VALUES (0, ?), (1, ?)) AS notes(n, t)"
        return dict(connection.execute(query, notes).fetchall())


def by_batches(model: Deidentifier, notes: list[str], replacer: Replacer) -> list[str]:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra tables)")
    from ensemble_deid.corpora.tables.columns import Columns
    from ensemble_deid.deidentify.options import RunOptions
    from ensemble_deid.integrations.arrow_stream import deidentified_batches

    batches = iter(pa.table({"text": notes}).to_batches())
    made = deidentified_batches(batches, model, Columns("text"), RunOptions(replacer=replacer))
    return [row["text"] for batch in made for row in batch.to_pylist()]
