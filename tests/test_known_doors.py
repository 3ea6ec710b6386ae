"""What the site knows, at the other doors: the service, DuckDB, and the streams that Spark's workers process."""

import pickle
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from http_service import running

from ensemble_deid import ConfigError, CorpusError, Deidentifier, RunOptions, SiteLists, deidentify_series
from ensemble_deid.cli.main import main
from ensemble_deid.deidentify.known import site_lists
from ensemble_deid.deidentify.replacement import Replacer

TEXT = "Patient: Okonkwo\nDate: 03/04/2019\nUses a St. Jude device, moved to Unit 7-West.\nCall 555.555.0142."
BROKEN = "Date: 1234 03/04/2019 5678"
"""Where the date is removed, a known number appears."""
ROWS = ("patient_id,kind,value", "7,phone,(555) 555-0142", "7,mrn,12345678", ",staff,Adaeze Okonkwo")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lists")
    (folder / "known.csv").write_text("\n".join(ROWS), encoding="utf-8")
    (folder / "deny.csv").write_text("label,value\nHOSPITAL,Unit 7-West\n", encoding="utf-8")
    (folder / "allow.txt").write_text("St. Jude\n", encoding="utf-8")
    return folder


def named(files: Path) -> dict[str, Path]:
    return {"known": files / "known.csv", "deny": files / "deny.csv", "allow": files / "allow.txt"}


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Deidentifier:
    return Deidentifier.load(tiny_model)


def found_by(text: str | None) -> bool:
    """Whether all that the lists name is gone, and nothing that they allow; the rest is the model's."""
    return text is not None and text.endswith("moved to [HOSPITAL].\nCall [PHONE].") and "Okonkwo" not in text


def test_the_service(tiny_model: Path, files: Path, tmp_path: Path) -> None:
    options = [f"--{name}={path}" for name, path in named(files).items()]
    with running(tiny_model, tmp_path, *options, "--strict") as service:
        answer = service.post("/v1/deidentify", {"text": TEXT, "patient_id": "7"})
        assert answer.status == 200
        assert found_by(answer.json["text"])
        assert answer.json["known_left"] == 0
        other = service.post("/v1/deidentify", {"text": TEXT, "patient_id": "8"}).json
        assert "[HOSPITAL].\nCall 555.555.0142." in other["text"]
        refused = service.post("/v1/deidentify", {"text": BROKEN, "patient_id": "7", "style": "remove"})
        assert (refused.status, refused.json["error"]) == (422, "the text: known identifiers are left in the output: 1")
        page = service.get("/metrics").body.decode()
        for count in ("known identifiers: found", "known identifiers: left in the output", "deny list: line 2 removed"):
            value = re.search(rf'^ensemble_deid_listed_total\{{count="{count}"\}} (\S+)$', page, re.MULTILINE)
            assert value, count
            assert float(value[1]) > 0
        # Presidio's requests name no patient: what holds for all notes is found.
        entities = service.post("/analyze", {"text": TEXT, "language": "en"}).json
        strings = {TEXT[e["start"] : e["end"]] for e in entities}
        assert "Unit 7-West" in strings
        assert any("Okonkwo" in string for string in strings)


def test_the_service_does_not_start_with_a_bad_list(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "known.csv").write_text("patient_id,kind,value\n7,colour,Zyxwvu\n", encoding="utf-8")
    assert main(["serve", str(tiny_model), "--port", "0", "--known", str(tmp_path / "known.csv")]) == 2
    said = capsys.readouterr().err
    assert "known.csv:2: the kind is none of" in said
    assert "Zyxwvu" not in said
    assert main(["serve", str(tiny_model), "--port", "0", "--strict"]) == 2


def test_a_stream_of_batches_with_lists_that_went_to_another_process(model: Deidentifier, files: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra tables)")
    from ensemble_deid.corpora.tables.columns import Columns
    from ensemble_deid.integrations.arrow_stream import deidentified_batches

    lists = pickle.loads(pickle.dumps(SiteLists.read(**named(files), labels=model.labels, strict=True)))
    rows = pa.table({"text": [TEXT, TEXT], "mrn": [7, 8]})

    columns = Columns("text", None, "mrn")
    batches = list(deidentified_batches(iter(rows.to_batches()), model, columns, RunOptions(lists=lists)))
    own, other = (row for batch in batches for row in batch.to_pylist())
    assert found_by(own["text"])
    assert other["text"] is not None
    assert "555.555.0142" in other["text"]
    options = RunOptions.choose(model.labels, style="remove", lists=lists)
    rows = pa.table({"text": [BROKEN], "mrn": [7]})
    ((left,),) = (batch.to_pylist() for batch in deidentified_batches(iter(rows.to_batches()), model, columns, options))
    assert (left["text"], left["problem"]) == (None, "known identifiers are left in the output: 1")


def test_what_is_left_is_said_at_every_door(model: Deidentifier, files: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Lists that are not strict let the note pass: then it is counted, and said where nobody counts."""
    pandas = pytest.importorskip("pandas")
    lists = SiteLists.read(known=files / "known.csv", labels=model.labels)
    replacer = Replacer.from_options("remove", labels=model.labels)
    wanted, remark = {site_lists.LEFT: 1}, f"1 {site_lists.LEFT}"
    result = model.deidentify(BROKEN, patient="7", lists=lists, style="remove")
    assert (result.counts, result.known_left) == (wanted, 1)
    (result,) = model.pipe([BROKEN], patients=["7"], lists=lists, style="remove")
    assert result.counts == wanted
    series = {"patients": pandas.Series(["7"]), "lists": lists, "replacer": replacer}
    counts: Counter[str] = Counter()
    deidentify_series(pandas.Series([BROKEN]), model, **series, counts=counts)
    assert +counts == wanted
    assert not caplog.records
    deidentify_series(pandas.Series([BROKEN]), model, **series)
    assert caplog.messages == [remark]
    assert by_batches(model, replacer, lists)["problem"] == remark
    assert by_duckdb(model, lists, counts)[1] == remark
    assert counts[site_lists.LEFT] == 2
    strict = SiteLists.read(known=files / "known.csv", labels=model.labels, strict=True)
    with pytest.raises(CorpusError):
        model.deidentify(BROKEN, patient="7", lists=strict, style="remove")
    (result,) = model.pipe([BROKEN], patients=["7"], lists=strict, style="remove")
    assert (result.text, result.counts) == (None, wanted)


def test_what_the_lists_did_is_counted(model: Deidentifier, files: Path) -> None:
    pandas = pytest.importorskip("pandas")
    lists = SiteLists.read(**named(files), labels=model.labels)
    found = model.deidentify(TEXT, patient="7", lists=lists).counts
    assert found["deny list: line 2 removed"] == 1
    assert found[site_lists.MATCHED] == 2
    assert site_lists.LEFT not in found
    counts: Counter[str] = Counter()
    deidentify_series(pandas.Series([TEXT]), model, patients=pandas.Series(["7"]), lists=lists, counts=counts)
    assert +counts == found
    assert model.deidentify(TEXT, patient="7").counts == {}
    assert hash(model.deidentify(TEXT, patient="7", lists=lists))


def by_batches(model: Deidentifier, replacer: Replacer, lists: SiteLists) -> dict[str, Any]:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra tables)")
    from ensemble_deid.corpora.tables.columns import Columns
    from ensemble_deid.integrations.arrow_stream import deidentified_batches

    columns, options = Columns("text", None, "mrn"), RunOptions(replacer=replacer, lists=lists)
    batches = iter(pa.table({"text": [BROKEN, "Well."], "mrn": [7, 7]}).to_batches())
    row, other = (row for batch in deidentified_batches(batches, model, columns, options) for row in batch.to_pylist())
    assert other["problem"] is None
    assert row["text"] is not None
    return row


def by_duckdb(model: Deidentifier, lists: SiteLists, counts: Counter[str]) -> tuple[str, str]:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed (extra duckdb)")
    from ensemble_deid.integrations.duckdb import register

    with duckdb.connect() as connection:
        register(connection, model, style="remove", lists=lists, counts=counts)
        row = connection.execute("SELECT d.text, d.problem FROM (SELECT deidentify(?, '7') AS d)", [BROKEN]).fetchone()
    assert row is not None
    return row


def test_duckdb(model: Deidentifier, files: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed (extra duckdb)")
    from ensemble_deid.integrations.duckdb import register

    with duckdb.connect() as connection:
        register(connection, model, lists=SiteLists.read(**named(files), labels=model.labels))
        rows = connection.execute("SELECT deidentify(?, p).text FROM (VALUES ('7'), (NULL)) AS t(p)", [TEXT]).fetchall()
    (own,), (nobody,) = rows
    assert found_by(own)
    assert "555.555.0142" in nobody
    assert "Okonkwo" not in nobody
    assert "[HOSPITAL]" in nobody


def test_strict_needs_identifiers(model: Deidentifier) -> None:
    with pytest.raises(ConfigError):
        SiteLists.read(strict=True, labels=model.labels)
    with pytest.raises(CorpusError):
        SiteLists.read(known="absent.csv", labels=model.labels)
