"""A real Spark here with two Python workers: the bytes of the command line, the model loaded once in each worker."""

import datetime as dt
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_stack
from made_keys import KEY

from ensemble_deid import Columns, ConfigError, CorpusError
from ensemble_deid.cli.main import main

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra spark)")
import pyarrow.parquet as pq  # noqa: E402

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17, and there is no java here"),
    # Of Spark's own code: it does not know the newest pandas, which is not used here, and leaves sockets open.
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
        session = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
        yield session
        session.stop()


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A table of 40 notes of 20 patients, one of which cannot be processed, and a key."""
    made = [note for first in range(0, 20, 4) for note in tiny_stack.notes(300 + first)]
    texts = [note.text for note in made]
    texts[5] = "Anna\0Bell"
    columns = {
        "n": pa.array(range(len(texts)), pa.int64()),
        "text": texts,
        "mrn": [note.patient_id for note in made],
        "seen": [dt.date(2019, 1 + k % 12, 1 + k % 28) for k in range(len(texts))],
        "ward": pa.array([None if k % 2 else k for k in range(len(texts))], pa.int32()),
    }
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    (tmp_path / "key").write_text(KEY.text, encoding="ascii")
    return tmp_path


def test_spark_gives_the_bytes_of_the_command_line(spark: Any, tiny_model: Path, notes: Path) -> None:
    columns = ["--id-column=n", "--patient-column=mrn", "--date-columns=seen", "--keep-columns=ward"]
    columns += ["--style=surrogate", f"--key-file={notes / 'key'}"]
    source = str(notes / "in.parquet")
    assert main(["deidentify", str(tiny_model), source, "--out", str(notes / "cli.parquet"), "--quiet", *columns]) == 3
    expected = {row["n"]: row for row in pq.read_table(notes / "cli.parquet").to_pylist()}

    from ensemble_deid.integrations.spark import deidentify, worker_model

    table = spark.read.parquet(source).repartition(8)
    columns = Columns("text", "n", "mrn", ("seen",), ("ward",))
    made = deidentify(table, tiny_model, columns=columns, style="surrogate", key=KEY).collect()
    found = {row["n"]: row.asDict() for row in made}
    problems = {row.pop("problem") for row in found.values()}
    assert found == expected
    assert problems == {None, "character 4 of the text is NUL, which no note may hold"}

    def loads(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"n": [worker_model.cache_info().misses]})

    # Rows of one patient, and of nobody, are read by several tasks, and only the patient's meet.
    texts = [("M1" if k % 2 else None, k, f"Seen on 03/04/20{10 + k}.") for k in range(40)]
    rows = spark.createDataFrame(texts, "mrn string, n long, text string").coalesce(1)
    made = deidentify(rows, tiny_model, columns=Columns(id="n", patient="mrn"), partitions=4, key=KEY)
    sizes = [len(part) for part in made.select("mrn").rdd.glom().collect()]
    assert len(sizes) == 4
    assert sorted(sizes)[-1] < 20 + 20
    plan = made._jdf.queryExecution().toString()
    assert plan.count("Exchange RoundRobinPartitioning(4)") >= 1
    assert "hashpartitioning(_ensemble_deid_owner" in plan
    assert "[DATE]" in str(made.collect())

    counts = spark.range(8, numPartitions=8).mapInArrow(loads, "n long").collect()
    assert max(row["n"] for row in counts) == 1


def test_what_cannot_be_done_is_refused_before_anything_runs(spark: Any, tiny_model: Path, notes: Path) -> None:
    from ensemble_deid.integrations.spark import deidentify

    table = spark.read.parquet(str(notes / "in.parquet"))
    with pytest.raises(CorpusError, match="the DataFrame: nothing says what the columns n, mrn, seen, ward hold"):
        deidentify(table, tiny_model)
    with pytest.raises(ConfigError, match="has a column 'ward'"):
        deidentify(table, tiny_model, columns=Columns(keep=("all",)), problem="ward")
    with pytest.raises(ConfigError, match="unknown style"):
        deidentify(table, tiny_model, columns=Columns(keep=("all",)), style="surprise")


def test_the_command(spark: Any, tiny_model: Path, notes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = notes / "out.parquet"
    command = ["spark", str(tiny_model), str(notes / "in.parquet"), str(out), "--keep-columns=all", "--id-column=n"]
    assert main([*command, f"--key-file={notes / 'key'}"]) == 3
    assert f"39 notes written to {out}, 1 withheld" in capsys.readouterr().out
    (failed,) = pq.read_table(notes / "out.parquet.failed").to_pylist()
    assert failed["reason"].startswith("character 4 of the text is NUL")
    written = pq.read_table(out)
    assert written.column_names == ["n", "text", "mrn", "seen", "ward"]
    assert [row["n"] for row in written.to_pylist() if row["text"] is None] == [failed["n"]]


def test_a_row_without_a_note_is_not_withheld(spark: Any, tiny_model: Path, tmp_path: Path) -> None:
    columns = {"n": [1, 2], "mrn": ["7", "7"], "seen": ["rubbish", "2071-04-25"], "text": [None, "Seen 4/25/2071."]}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    command = [str(tmp_path / "in.parquet"), "--id-column=n", "--patient-column=mrn", "--date-columns=seen"]
    spark_out, out = tmp_path / "spark.parquet", tmp_path / "out.parquet"
    assert main(["spark", str(tiny_model), command[0], str(spark_out), *command[1:], "--style=surrogate"]) == 0
    assert main(["deidentify", str(tiny_model), *command, "--out", str(out), "--style=surrogate"]) == 0
    (remark,) = pq.read_table(f"{spark_out}.failed").to_pylist()
    assert remark["reason"] == "1 dates that could not be read, and were emptied"
    assert not remark["withheld"]
