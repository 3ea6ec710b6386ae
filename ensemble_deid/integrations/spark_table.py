"""De-identifying a Parquet table on Spark: a table out, and one of the notes that were withheld."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.integrations.spark import deidentify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PROBLEM = "_ensemble_deid_problem"


@dataclass(frozen=True, slots=True)
class TableCounts:
    """How many notes were written and withheld.

    `remarks` counts the written ones in whose row a date was emptied, or in whose text a known identifier is left.
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
) -> TableCounts:
    """Write `out` and `failed`, which must not exist yet, and end the Spark session.

    Raises ConfigError, CorpusError, ModelError; what Spark says of a failure is left out, since it may quote a row.
    """
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError("Spark needs an extra: pip install 'ensemble_deid[spark]', and Java 17") from None
    # The Java process may stand in another folder than this one.
    source, out, failed = (_absolute(place) for place in (source, out, failed))
    builder = SparkSession.builder.appName("ensemble-deid")
    session = (builder if master is None else builder.master(master)).getOrCreate()
    try:
        made = deidentify(
            session.read.parquet(source),
            model,
            columns=columns,
            problem=PROBLEM,
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

    text, problem = col(columns.text), col(PROBLEM)
    # Kept, so that the model runs once for both tables and the counts.
    made = made.persist(StorageLevel.DISK_ONLY)
    made.drop(PROBLEM).write.parquet(out)
    ids = [] if columns.id is None else [col(columns.id)]
    withheld = text.isNull().alias("withheld")
    made.where(problem.isNotNull()).select(*ids, problem.alias("reason"), withheld).write.parquet(failed)
    counts = made.agg(count(text), count(when(text.isNull(), problem)), count(when(text.isNotNull(), problem)))
    ((written, lost, remarks),) = counts.collect()
    return TableCounts(written, lost, remarks)
