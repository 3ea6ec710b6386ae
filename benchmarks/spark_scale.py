"""Whether the cost of a note on Spark stays the same as a table grows.

Generated notes of 4 to a patient go through a model that knows patterns only (trained here on the demo corpus's dev
notes), from 10,000 to 100,000 of them. Processor time is that of Spark and its workers together (Linux), which other
programs on the machine hardly change. Run: `python benchmarks/spark_scale.py [SIZE ...]`.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, concat, expr, lit

from ensemble_deid import Columns, Config, read_corpus, train
from ensemble_deid.deidentify.replacement import Key
from ensemble_deid.integrations.spark import deidentify

TEXT = "Record date: 2071-03-04\nMRN: 4711{n}\nSeen by Dr. Strong on 03/04/2071. BP 120/80.\nCall 555-0123.\n"


def processor_seconds(process: int) -> float:
    """Return the seconds of the processor that a process and all below it have used, those that have ended too."""
    # The name of the program, which may hold anything, ends with the last bracket.
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    children = [
        child for path in Path(f"/proc/{process}/task").glob("*/children") for child in path.read_text("utf-8").split()
    ]
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(processor_seconds(int(child)) for child in children)


def main() -> None:
    """Print seconds in all and milliseconds a note, of the clock and of the processor, for each size."""
    # The workers are to have the libraries that this process has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    sizes = [int(size) for size in sys.argv[1:]] or [10_000, 30_000, 100_000]
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        train(read_corpus("demo:dev"), config=Config(submodels=("regex",), folds=2, jobs=1)).save(model)
        before, after = TEXT.split("{n}")
        for size in [100, *sizes]:
            notes = spark.range(size).select(
                col("id").alias("n"),
                expr("cast(id div 4 as string)").alias("mrn"),
                concat(lit(before), col("id").cast("string"), lit(after)).alias("text"),
            )
            options = {
                "columns": Columns(id="n", patient="mrn"),
                "style": "surrogate",
                "key": Key.fresh(),
            }
            begun, used = time.perf_counter(), processor_seconds(os.getpid())
            deidentify(notes, model, **options).write.parquet(f"{folder}/{size}")
            seconds, used = time.perf_counter() - begun, processor_seconds(os.getpid()) - used
            # The first, small table starts the workers and is not counted.
            if size != 100:
                print(
                    f"{size:>9,} notes {seconds:>8.1f} s {1000 * seconds / size:>8.2f} ms a note"
                    f" {used:>8.1f} s of the processor {1000 * used / size:>8.2f} ms a note",
                    flush=True,
                )
    spark.stop()


if __name__ == "__main__":
    main()
