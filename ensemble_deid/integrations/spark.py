"""De-identifying Spark DataFrames: the model is shipped once, and each Python worker loads it once.

Rows go to the workers as Arrow batches (`mapInArrow`), so every column keeps its type; pandas would make floats of
integers with gaps. The notes of a patient are brought together on one worker.
"""

import shutil
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ensemble_deid.corpora.tables.arrow import check_types
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.options import RunChoices, RunOptions
from ensemble_deid.errors import ConfigError
from ensemble_deid.integrations.arrow_stream import deidentified_batches
from ensemble_deid.model.export import export_model
from ensemble_deid.model.installed import find_model
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.stacking.stacker import check_threshold

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark fetches the archive from its place as long as the application runs; the folders go with this process.
_SHIPPED: dict[tuple[str, str], "tempfile.TemporaryDirectory[str]"] = {}


def deidentify(
    df: "DataFrame",
    model: str | Path,
    *,
    columns: Columns | None = None,
    problem: str = "problem",
    options: RunOptions | None = None,
    **choices: Unpack[RunChoices],
) -> "DataFrame":
    """Return a DataFrame without PHI, with one column more: `problem` says why a note is withheld, and so missing.

    `columns` say what the columns hold, as in `ensemble-deid deidentify` (docs/data-engineer.md);
    `Columns(keep=("all",))` keeps every other one. With `columns.patient`, rows are shuffled so that the notes of a
    patient are processed together; without `columns.date_order` (dmy, mdy or ymd), a row with a date such as 3/4/2019
    is withheld; with a key, the values are then those of the command line. `options` and `choices`
    as in `Deidentifier.deidentify`. Nothing runs before Spark is asked for rows, and it runs again whenever it is asked
    again: write or persist the result first. Raises ConfigError, CorpusError, ModelError.
    """
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StringType, StructField, StructType

    columns = columns or Columns()
    check_types(to_arrow_schema(df.schema), columns, "the DataFrame")
    if problem in df.columns:
        raise ConfigError(f"the DataFrame has a column {problem!r}: name another one for the reasons (problem=...)")
    place = find_model(model)
    chosen = RunOptions.given(options, choices, read_manifest(place).labels)
    check_threshold(chosen.prediction.threshold)
    name = _ship(df.sparkSession, place)

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        return deidentified_batches(batches, worker_model(name), columns, chosen, problem=problem)

    emptied = {columns.text, columns.id, columns.patient, *columns.dates}
    plain = StructType.fromJson(_without_metadata(df.schema.jsonValue()))
    fields = [StructField(f.name, f.dataType, f.nullable or f.name in emptied) for f in plain.fields]
    if columns.patient is not None:
        df = df.repartition(columns.patient).sortWithinPartitions(columns.patient)
    return df.mapInArrow(run, StructType([*fields, StructField(problem, StringType())]))


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
