"""Dates in columns: in the style of the dates in the text, showing neither a shift nor a great age."""

import csv
from collections import Counter
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

import pytest
from made_keys import KEY

from ensemble_deid import Deidentifier
from ensemble_deid.cli.main import main
from ensemble_deid.corpora.records import Record, Value
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.corpora.tables.date_order import DateOrders
from ensemble_deid.deidentify.cells import GREAT_AGE, NO_YEAR, UNREADABLE_DATES, YEAR_ALONE, Cells
from ensemble_deid.deidentify.manifest import verify_run
from ensemble_deid.deidentify.repeats import NOTHING
from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.deidentify.rows import LatestYears
from ensemble_deid.errors import ConfigError, CorpusError

COLUMNS = Columns("text", None, "p", ("d",))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)


def treated(value: Value, style: str, *, labels: tuple[str, ...] = ("DATE",)) -> tuple[Value, Counter[str]]:
    """Return what becomes of a cell where dates have that style, and what was counted."""
    replacer = Replacer.from_options("tag", {"DATE": style}, key=KEY)
    cells = Cells(replacer, COLUMNS, (64, 64), labels)
    (new,) = cells.dates(Record("r", patient="7", dates=(value,)), NOTHING)
    return new, cells.counts


@pytest.mark.parametrize(
    ("value", "year"),
    [
        ("2026-03-14", "2026"),
        ("3/14/2026 10:22", "2026"),
        (20260314, 2026),
        (date(2026, 3, 14), None),
        (datetime(2026, 3, 14, 10, 22), None),
    ],
)
def test_a_column_is_treated_as_dates_in_the_text_are(value: Value, year: Value) -> None:
    assert treated(value, "keep")[0] == value
    new, counts = treated(value, "year")
    assert new == year
    assert counts == ({YEAR_ALONE: 1} if year is None else {})
    for hidden in ("tag", "surrogate", "remove"):
        new, counts = treated(value, hidden)
        assert type(new) is type(value)
        assert new != value
        assert not counts


@pytest.mark.parametrize(
    ("order", "value", "day", "form"),
    [
        ("dmy", "03/04/2019", date(2019, 4, 3), "%d/%m/%Y"),
        ("mdy", "03/04/2019", date(2019, 3, 4), "%m/%d/%Y"),
        ("mdy", "03-04-19 10:22", date(2019, 3, 4), "%m-%d-%y 10:22"),
        ("ymd", "19.03.04", date(2019, 3, 4), "%y.%m.%d"),
        ("dmy", "03/04/76", date(1976, 4, 3), "%d/%m/%y"),
        ("dmy", "2019-03-04", date(2019, 3, 4), "%Y-%m-%d"),
    ],
)
def test_a_date_is_read_and_written_in_the_order_that_is_told(order: str, value: str, day: date, form: str) -> None:
    replacer = Replacer.from_options("surrogate", key=KEY)
    plain = Cells(replacer, COLUMNS, (64, 64))
    told = Cells(replacer, replace(COLUMNS, date_order=order), (64, 64))
    (moved,) = plain.dates(Record("r", patient="7", dates=(day,)), NOTHING)
    (new,) = told.dates(Record("r", patient="7", dates=(value,)), NOTHING)
    assert isinstance(moved, date)
    assert new == moved.strftime(form)


@pytest.mark.parametrize(
    ("value", "unclear"),
    [
        ("03/04/2019", True),
        ("3-4-19", True),
        ("10/11/12", True),
        ("03042019", True),
        ("03042019 10:11", True),
        ("０３/０４/２０１９", True),
        ("3/4", True),
        ("3/4/2019 to 5/4/2019", True),
        ("04/04/2019", False),
        ("14/04/2019", False),
        ("04/14/2019 10:11", False),
        ("2019-03-04", False),
        ("4 March 2019", False),
        ("20190304", False),
        ("20101112", False),
        ("14042019", False),
    ],
)
def test_an_ambiguous_date_of_a_stream_withholds_its_row(value: str, unclear: bool) -> None:
    cells = Cells(Replacer.from_options("surrogate", key=KEY), COLUMNS, (64, 64))
    record = Record("r", patient="7", dates=(value,))
    if not unclear:
        assert cells.dates(record, NOTHING)[0] not in (None, value)
        return
    with pytest.raises(CorpusError, match="the column d may be read with the day or the month first"):
        cells.dates(record, NOTHING)
    told = Cells(cells.replacer, replace(COLUMNS, date_order="dmy"), (64, 64))
    assert told.dates(record, NOTHING)[0] not in (None, value)


def test_the_values_of_a_column_show_its_order() -> None:
    orders = DateOrders()
    rows = [("3/4/2019", "14/4/2019", "x"), ("14/4/2019", "4/14/2019", None), (None, None, "y")]
    orders.learn((), [zip("abc", row, strict=True) for row in rows])
    assert [orders.of(name, "3/4/2019") for name in "a"] == ["dmy"]
    with pytest.raises(CorpusError, match="column b"):
        orders.of("b", "3/4/2019")
    with pytest.raises(CorpusError, match="column a"):
        DateOrders().learn((), [[("a", day)] for day in ("3/4/2019", "14/4/2019", "4/14/2019")])
    with pytest.raises(ConfigError, match="must be one of dmy, mdy, ymd"):
        DateOrders("myd")


def test_what_is_no_date_in_the_order_of_its_column_is_emptied() -> None:
    told = Cells(Replacer.from_options("surrogate"), replace(COLUMNS, date_order="dmy"), (64, 64))
    assert told.dates(Record("r", patient="7", dates=("04/14/2019",)), NOTHING) == (None,)
    assert told.counts == {UNREADABLE_DATES: 1}


@pytest.mark.parametrize("style", ["keep", "year", "tag", "surrogate"])
def test_what_is_no_date_is_emptied_whatever_the_style(style: str) -> None:
    assert treated("Ada Strong", style) == (None, {UNREADABLE_DATES: 1})
    for value in ("Ada Strong 3/14/2019", "3/14/2019 Ada Strong", "14/3/2019T Ada"):
        assert treated(value, style) == (None, {UNREADABLE_DATES: 1})


def test_a_day_without_a_year_has_no_year_to_show() -> None:
    assert treated("3/14", "year") == (None, {NO_YEAR: 1})


def test_the_style_is_that_of_the_models_own_label() -> None:
    replacer = Replacer.from_options("tag", {"FECHAS": "keep"}, key=KEY)
    record = Record("r", patient="7", dates=("2026-03-14",))
    assert Cells(replacer, COLUMNS, (64, 64), ("FECHAS", "CALLE")).dates(record, NOTHING) == ("2026-03-14",)
    with pytest.raises(ConfigError, match="several styles"):
        Cells(replacer, COLUMNS, (64, 64), ("FECHAS", "DATE"))
    # Without such columns there is nothing to decide.
    Cells(replacer, Columns("text"), (64, 64), ("FECHAS", "DATE"))


def test_the_latest_year_is_that_of_all_records_of_a_patient() -> None:
    years = LatestYears()
    rows = [("7", "1920-05-06"), ("7", date(2019, 5, 6)), ("7", "9999-12-31"), ("8", "14/5/1930"), (None, "2020-01-01")]
    records = [Record("r", patient=patient, dates=(day, None)) for patient, day in rows]
    for record in records:
        years.add(record)
    assert years.taken(records[0]) == {"2019-07-01"}
    assert years.taken(records[3]) == {"1930-07-01"}
    assert years.taken(records[4]) == {"2020-07-01"}
    assert years.taken(Record("r", patient="9")) == years.taken(Record("r", dates=("x", None))) == frozenset()


def run(model: Path, folder: Path, rows: list[tuple[str, ...]], *options: str) -> list[dict[str, str]]:
    with (folder / "n.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    columns = ("--patient-column", "mrn", "--date-columns", "born,seen", "--quiet")
    assert (
        main(["deidentify", str(model), str(folder / "n.csv"), "--out", str(folder / "o.csv"), *columns, *options]) == 0
    )
    with (folder / "o.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


HEAD = ("mrn", "born", "seen", "text")
BORN = "Born on 05/06/1920."


@pytest.mark.parametrize("style", ["surrogate", "year"])
def test_columns_and_notes_of_a_patient_together_show_no_great_age(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], style: str
) -> None:
    rows = [HEAD, ("A", "1920-05-06", "", BORN), ("A", "", "2019-05-06", ""), ("B", "1920-05-06", "1995-01-01", BORN)]
    first, visit, other = run(tiny_model, tmp_path, rows, "--set", f"styles.DATE={style}")
    assert (first["born"], first["text"]) == ("", "Born on [DATE].")
    assert visit["seen"]
    assert other["born"]
    assert "[DATE]" not in other["text"]
    assert f"1 {GREAT_AGE}" in capsys.readouterr().err
    assert verify_run(tmp_path / "o.csv.run").counts[GREAT_AGE] == 1


def test_a_row_of_nobody_is_old_by_its_own_dates(tiny_model: Path, tmp_path: Path) -> None:
    rows = [HEAD[1:], ("1920-05-06", "2019-05-06", BORN), ("1920-05-06", "1995-01-01", f"{BORN} ")]
    with (tmp_path / "n.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    options = ["--date-columns", "born,seen", "--style", "surrogate", "--quiet"]
    assert (
        main(["deidentify", str(tiny_model), str(tmp_path / "n.csv"), "--out", str(tmp_path / "o.csv"), *options]) == 0
    )
    with (tmp_path / "o.csv").open(encoding="utf-8", newline="") as stream:
        old, young = csv.DictReader(stream)
    assert (old["born"], old["text"]) == ("", "Born on [DATE].")
    assert young["born"]
    assert "[DATE]" not in young["text"]


def test_dates_of_a_limited_data_set_show_no_shift(tiny_model: Path, tmp_path: Path) -> None:
    rows = [HEAD, ("A", "1920-05-06", "2026-03-14", "Seen on 3/14/2026.")]
    (new,) = run(tiny_model, tmp_path, rows, "--policy", "limited-data-set")
    assert (new["born"], new["seen"]) == ("1920-05-06", "2026-03-14")
    (new,) = run(tiny_model, tmp_path, [HEAD, ("A", "", "2026-03-14", "Seen.")], "--policy", "safe-harbor")
    assert new["seen"] == "2026"


def test_a_stream_of_batches_has_the_same_evidence(tiny_model: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra tables)")
    from ensemble_deid.deidentify.options import RunOptions
    from ensemble_deid.integrations.arrow_stream import deidentified_batches

    rows = pa.table(
        {"p": [7, 7], "d": ["1920-05-06", "2019-05-06"], "text": [BORN, "Well."]},
    )
    replacer = Replacer.from_options("surrogate", key=KEY)
    options = RunOptions(replacer=replacer)
    batches = deidentified_batches(iter(rows.to_batches()), Deidentifier.load(tiny_model), COLUMNS, options)
    old, visit = (row for batch in batches for row in batch.to_pylist())
    assert (old["d"], old["text"], old["problem"]) == (None, "Born on [DATE].", f"1 {GREAT_AGE}")
    assert visit["d"]
    assert visit["problem"] is None
