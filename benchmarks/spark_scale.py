"""Whether the cost of a note on Spark stays the same as a table grows, and what a second core gains.

    python benchmarks/spark_scale.py [SIZE ...] [--model MODEL] [--cores N ...] [--text TEXT]

Generated notes (four a patient; a tenth have no patient, a hundredth belong to one patient) go through MODEL, by
default a patterns-only one (trained here on the demo corpus's dev notes). TEXT is a note with `{n}` for its number.
Processor time is that of Spark and its workers together (Linux), which other programs on the machine hardly change.
`busy` is processor time over elapsed time and cores: on an idle machine, the utilisation of the cores.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, concat, expr, lit

from ensemble_deid import Columns, Config, read_corpus, train
from ensemble_deid.cli.terminal import as_script
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


PATIENT = """
    case when id % 10 = 9 then null when id % 100 = 1 then 'often' else cast(id div 4 as string) end
"""


def measure(spark: SparkSession, model: str, text: str, size: int, folder: str) -> tuple[float, float]:
    """De-identify a table of `size` notes, `text` with their numbers; return elapsed and processor seconds."""
    before, after = text.split("{n}")
    notes = spark.range(size).select(
        col("id").alias("n"),
        expr(PATIENT).alias("mrn"),
        concat(lit(before), col("id").cast("string"), lit(after)).alias("text"),
    )
    begun, used = time.perf_counter(), processor_seconds(os.getpid())
    made = deidentify(notes, model, columns=Columns(id="n", patient="mrn"), style="surrogate", key=Key.fresh())
    made.write.parquet(f"{folder}/{spark.sparkContext.applicationId}-{size}")
    return time.perf_counter() - begun, processor_seconds(os.getpid()) - used


@as_script
def main() -> None:
    """Print seconds in all and milliseconds a note, of the clock and of the processor, for each size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sizes", nargs="*", type=int)
    parser.add_argument("--model", help="default: patterns only, trained here")
    parser.add_argument("--cores", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--text", default=TEXT, help="a note, with {n} where its number goes")
    options = parser.parse_args()
    if options.text.count("{n}") != 1:
        parser.error("--text must contain {n} once")
    # The workers are to have the libraries that this process has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        model = options.model
        if model is None:
            model = f"{folder}/model"
            train(read_corpus("demo:dev"), config=Config(submodels=("regex",), folds=2, jobs=1)).save(Path(model))
        print(
            "| cores | notes | s | ms a note | s of the processor | ms a note | busy |\n|---|---|---|---|---|---|---|"
        )
        for cores in options.cores:
            builder = SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false")
            spark = builder.getOrCreate()
            # A small table starts the workers and is not counted.
            measure(spark, model, options.text, 100, folder)
            for size in options.sizes or [10_000, 100_000]:
                clock, used = measure(spark, model, options.text, size, folder)
                print(
                    f"| {cores} | {size:,} | {clock:.1f} | {1000 * clock / size:.2f} | {used:.1f}"
                    f" | {1000 * used / size:.2f} | {used / clock / cores:.0%} |",
                    flush=True,
                )
            spark.stop()


if __name__ == "__main__":
    sys.exit(main())
