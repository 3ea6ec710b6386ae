"""`spark`: a Parquet table in, one without PHI out, on as many machines as Spark has."""

import argparse
from pathlib import Path
from typing import Any

from ensemble_deid.cli.replacement import add_replacement, make_replacer
from ensemble_deid.cli.status import NOTES_WITHHELD
from ensemble_deid.cli.terminal import counted, say, warn
from ensemble_deid.errors import ConfigError, CorpusError

PROBLEM = "_ensemble_deid_problem"


def add_commands(commands: Any) -> None:
    """Add this module's command to the parser."""
    parser = commands.add_parser("spark", help="de-identify a Parquet table on Spark (docs/integrations.md)")
    parser.add_argument("model", metavar="MODEL", type=Path)
    parser.add_argument("input", metavar="IN.parquet", help="a file, a folder or a URL that Spark can read")
    parser.add_argument("output", metavar="OUT.parquet", help="a folder that does not exist yet")
    parser.add_argument("--failed", metavar="PATH", help="table of withheld notes; default: OUT.parquet.failed")
    parser.add_argument("--master", metavar="URL", help="such as local[8]; default: what Spark's own settings say")
    parser.add_argument("--text-column", metavar="NAME", default="text")
    parser.add_argument("--id-column", metavar="NAME")
    parser.add_argument("--patient-column", metavar="NAME", help="its notes are processed together")
    parser.add_argument("--date-columns", metavar="NAMES", help="commas between several")
    parser.add_argument("--keep-columns", metavar="NAMES", help="are handed out as they are; all: every other column")
    parser.add_argument("--threshold", metavar="T", type=float, help="probability to accept a span at, 0 to 1")
    add_replacement(parser)
    parser.set_defaults(run=run_spark)


def run_spark(options: argparse.Namespace) -> int:
    """Write the table and the table of withheld notes, and say how many notes there were."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError("Spark needs an extra: pip install 'ensemble_deid[spark]', and Java 17") from None
    from ensemble_deid.integrations.spark import deidentify

    replacer = make_replacer(options)
    builder = SparkSession.builder.appName("ensemble-deid")
    session = (builder if options.master is None else builder.master(options.master)).getOrCreate()
    try:
        made = deidentify(
            session.read.parquet(options.input),
            options.model,
            text=options.text_column,
            id=options.id_column,
            patient=options.patient_column,
            dates=_several(options.date_columns),
            keep=_several(options.keep_columns),
            replacer=replacer,
            threshold=options.threshold,
            problem=PROBLEM,
        )
        return _write(made, options)
    except PySparkException as error:
        # Its message may quote a row; its class and condition do not.
        reason = error.getCondition() or type(error).__name__
        raise CorpusError(f"{options.input} to {options.output}: Spark failed ({reason})") from None
    finally:
        session.stop()


def _write(made: Any, options: argparse.Namespace) -> int:
    from pyspark import StorageLevel
    from pyspark.sql.functions import col, count, when

    text, problem = col(options.text_column), col(PROBLEM)
    failed = options.failed or f"{options.output.rstrip('/')}.failed"
    # Kept, so that the model runs once for both tables and the counts.
    made = made.persist(StorageLevel.DISK_ONLY)
    made.drop(PROBLEM).write.parquet(options.output)
    ids = [] if options.id_column is None else [col(options.id_column)]
    withheld = text.isNull().alias("withheld")
    made.where(problem.isNotNull()).select(*ids, problem.alias("reason"), withheld).write.parquet(failed)
    counts = made.agg(count(text), count(when(text.isNull(), problem)), count(when(text.isNotNull(), problem)))
    ((written, lost, remarks),) = counts.collect()
    say(f"{counted(written, 'note')} written to {options.output}, {lost} withheld")
    if lost or remarks:
        warn(f"{failed}: {lost} withheld, {remarks} with dates that could not be read, and were emptied")
    return NOTES_WITHHELD if lost else 0


def _several(names: str | None) -> tuple[str, ...]:
    return tuple(names.split(",")) if names else ()
