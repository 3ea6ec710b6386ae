"""De-identifying Spark DataFrames and Parquet tables: the model is shipped once, and each Python worker loads it once.

Rows go to the workers as Arrow batches (`mapInArrow`), so every column keeps its type; pandas would make floats of
integers with gaps. The model, which takes nearly all of the time, reads rows spread evenly over tasks, whosever they
are; the notes of a patient meet only for the pass that follows, so a patient with many notes holds up no task for long.
A table's withheld notes go into a table of their own.
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ensemble_deid.corpora.tables.arrow import check_types
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.options import RunChoices, RunOptions
from ensemble_deid.errors import ConfigError, CorpusError, needs_extra
from ensemble_deid.integrations.arrow_stream import FOUND, OWNER, deidentified_batches, read_batches
from ensemble_deid.model.additions import labels_of_model
from ensemble_deid.model.ensemble import ModelDescription
from ensemble_deid.model.installed import find_model
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.model.options import best_members_of
from ensemble_deid.model.package import export_model

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TASKS_PER_CORE = 4
_PARTITION = 8 << 20
"""Bytes of a table, about 5,000 notes: half an hour of one core, lost if a worker dies."""
_UNKNOWN = 1 << 60
# Spark fetches the archive from its place as long as the application runs; the folders go with this process.
_SHIPPED: dict[tuple[str, str], "tempfile.TemporaryDirectory[str]"] = {}


def deidentify(
    df: "DataFrame",
    model: str | Path,
    *,
    columns: Columns | None = None,
    problem: str = "problem",
    withheld: str | None = None,
    partitions: int | None = None,
    options: RunOptions | None = None,
    **choices: Unpack[RunChoices],
) -> "DataFrame":
    """Return a DataFrame without PHI, with one column more: `problem` says why a note is withheld, and so missing.

    `problem` also has remarks on rows that are not withheld; `withheld` names a boolean column that tells which are.
    `columns` say what the columns hold, as in `ensemble-deid deidentify` (docs/data-engineer.md);
    `Columns(keep=("all",))` keeps every other one. With `columns.patient`, the notes of a patient are processed
    together. Rows are shuffled into `partitions` tasks, by default four for each core, and more where Spark knows
    that the table is large. Without `columns.date_order` (dmy, mdy or ymd), a row with a date such as 3/4/2019
    is withheld; with a key, the values are then those of the command line. `options` and `choices`
    as in `Deidentifier.deidentify`. Nothing runs before Spark is asked for rows, and it runs again whenever it is asked
    again: write or persist the result first. Raises ConfigError, CorpusError, ModelError.
    """
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import BooleanType, StringType, StructField, StructType

    columns = columns or Columns()
    if columns.text is None or columns.fields or columns.drop_rest:
        raise ConfigError("Spark takes a text column and no record map, whose tables share patients: use deidentify")
    check_types(to_arrow_schema(df.schema), columns, "the DataFrame")
    for parameter, name in (("problem", problem), ("withheld", withheld)):
        if name in df.columns:
            raise ConfigError(f"the DataFrame has a column {name!r}: name another one ({parameter}=...)")
    if partitions is not None and partitions < 1:
        raise ConfigError(f"partitions must be at least 1, not {partitions}")
    place = find_model(model)
    chosen = RunOptions.given(options, choices, labels_of_model(place, read_manifest(place)))
    check_options(place, chosen)
    shipped = _ship(df.sparkSession, place)

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        return read_batches(batches, worker_model(shipped), columns, chosen)

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        return deidentified_batches(batches, worker_model(shipped), columns, chosen, problem=problem, withheld=withheld)

    emptied = {columns.text, columns.id, columns.patient, *columns.dates}
    plain = StructType.fromJson(_without_metadata(df.schema.jsonValue()))
    fields = [StructField(f.name, f.dataType, f.nullable or f.name in emptied) for f in plain.fields]
    number = partitions or _partitions(df)
    df = df.repartition(number)
    if columns.patient is not None:
        plain.fields.extend(StructField(column, StringType()) for column in (OWNER, FOUND))
        df = df.mapInArrow(read, StructType(plain.fields)).repartition(number, OWNER).sortWithinPartitions(OWNER)
    more = [StructField(problem, StringType()), *([] if withheld is None else [StructField(withheld, BooleanType())])]
    return df.mapInArrow(run, StructType([*fields, *more]))


def _partitions(df: "DataFrame") -> int:
    """Return a number of partitions that keeps all cores busy to the end, with short tasks."""
    least = _TASKS_PER_CORE * df.sparkSession.sparkContext.defaultParallelism
    size = int(str(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    # Spark's estimate; without one, Spark returns a number larger than any table.
    return max(least, -(-size // _PARTITION)) if size < _UNKNOWN else least


def check_options(model: Path, options: RunOptions) -> None:
    """Raise ConfigError here, not in a worker, for options that the model cannot serve."""
    manifest = read_manifest(model)
    description = ModelDescription(
        submodels=tuple(manifest.config["submodels"]),
        labels=manifest.labels,
        threshold=0.0,
        arithmetic={},
        best_members=best_members_of(manifest, model),
        inclusion=None,
        manifest=manifest,
    )
    description.check_options(options.prediction)


def _without_metadata(schema: Any) -> Any:
    """Return a schema, as JSON, without the metadata of its fields: nobody reads them, and they may hold PHI."""
    if isinstance(schema, list):
        return [_without_metadata(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: {} if name == "metadata" else _without_metadata(part) for name, part in schema.items()}


@lru_cache(maxsize=1)
def worker_model(name: str) -> Deidentifier:
    """Return the model that was shipped to this worker under a name, read when it is first asked for."""
    from pyspark import SparkFiles

    return Deidentifier.load(Path(SparkFiles.get(name)) / "model", device="cpu")


def _ship(spark: "SparkSession", model: Path) -> str:
    """Add the model, without its private files, to what Spark sends to its workers; return its name there."""
    try:
        context = spark.sparkContext
    except Exception as error:
        # A session of Spark Connect has none, and says so by an exception of its own.
        raise ConfigError("the model is shipped by a SparkContext, which this session does not have") from error
    checksum = read_manifest(model).checksum
    name = f"ensemble_deid_{checksum[:16]}"
    if (context.applicationId, checksum) not in _SHIPPED:
        folder = tempfile.TemporaryDirectory(prefix="ensemble-deid-")
        export_model(model, Path(folder.name) / "tree" / "model")
        archive = shutil.make_archive(str(Path(folder.name) / name), "zip", Path(folder.name) / "tree")
        context.addArchive(f"{archive}#{name}")
        _SHIPPED[context.applicationId, checksum] = folder
    return name


PROBLEM, WITHHELD = "_ensemble_deid_problem", "_ensemble_deid_withheld"


@dataclass(frozen=True, slots=True)
class TableCounts:
    """How many notes were written and withheld.

    `remarks` counts the other rows in which a date was emptied, or a known identifier is left.
    """

    written: int
    withheld: int
    remarks: int


def deidentify_parquet(
    source: str,
    out: str,
    failed: str,
    model: Path,
    *,
    columns: Columns,
    options: RunOptions,
    master: str | None = None,
    partitions: int | None = None,
) -> TableCounts:
    """Write `out` and `failed`, which must not exist yet, and end the Spark session.

    Raises ConfigError, CorpusError, ModelError; what Spark says of a failure is left out, since it may quote a row.
    """
    with needs_extra("spark", "Spark (with Java 17)"):
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    # The Java process may stand in another folder than this one.
    source, out, failed = (_absolute(place) for place in (source, out, failed))
    if master is not None and master.startswith("local"):
        # Its workers are to have this environment, which need not be the first on the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("ensemble-deid")
    session = (builder if master is None else builder.master(master)).getOrCreate()
    try:
        made = deidentify(
            session.read.parquet(source),
            model,
            columns=columns,
            problem=PROBLEM,
            withheld=WITHHELD,
            partitions=partitions,
            options=options,
        )
        return _write(made, columns, out, failed)
    except PySparkException as error:
        reason = error.getCondition() or type(error).__name__
        raise CorpusError(f"{source} to {out}: Spark failed ({reason})") from None
    finally:
        session.stop()


def _absolute(place: str) -> str:
    """Return a path as an absolute one; what names a file system (`s3a://`, `hdfs:`) stays."""
    return place if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", place) else str(Path(place).absolute())


def _write(made: "DataFrame", columns: Columns, out: str, failed: str) -> TableCounts:
    from pyspark import StorageLevel
    from pyspark.sql.functions import col, count, when

    problem, withheld = col(PROBLEM), col(WITHHELD)
    # Kept, so that the model runs once for both tables and the counts.
    made = made.persist(StorageLevel.DISK_ONLY)
    made.drop(PROBLEM, WITHHELD).write.parquet(out)
    ids = [] if columns.id is None else [col(columns.id)]
    made.where(problem.isNotNull()).select(*ids, problem.alias("reason"), withheld.alias("withheld")).write.parquet(
        failed
    )
    counts = made.agg(count(columns.text or "text"), count(when(withheld, problem)), count(when(~withheld, problem)))
    ((written, lost, remarks),) = counts.collect()
    return TableCounts(written, lost, remarks)
