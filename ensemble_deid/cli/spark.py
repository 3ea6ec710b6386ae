"""`spark`: a Parquet table in, one without PHI out, on as many machines as Spark has."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ensemble_deid.cli.replacement import add_replacement, run_options, several
from ensemble_deid.cli.site_lists import add_lists
from ensemble_deid.cli.status import NOTES_WITHHELD
from ensemble_deid.cli.terminal import counted, say, warn
from ensemble_deid.corpora.outputs import refuse_output
from ensemble_deid.corpora.tables.columns import Columns


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
    add_lists(parser, strict=True)
    add_replacement(parser)
    parser.set_defaults(run=run_spark)


def run_spark(options: argparse.Namespace) -> int:
    """Write the table and the table of withheld notes, and say how many notes there were."""
    from ensemble_deid.integrations.spark_table import deidentify_parquet
    from ensemble_deid.model.installed import find_model
    from ensemble_deid.model.manifest import read_manifest

    failed = options.failed or f"{options.output.rstrip('/')}.failed"
    chosen = run_options(options, read_manifest(find_model(options.model)).labels)
    _refuse_outputs((options.output, failed), options, chosen.files)
    columns = Columns(
        text=options.text_column,
        id=options.id_column,
        patient=options.patient_column,
        dates=several(options.date_columns),
        keep=several(options.keep_columns),
    )
    counts = deidentify_parquet(
        options.input,
        options.output,
        failed,
        options.model,
        columns=columns,
        options=chosen,
        master=options.master,
    )
    say(f"{counted(counts.written, 'note')} written to {options.output}, {counts.withheld} withheld")
    if counts.withheld or counts.remarks:
        warn(f"{failed}: {counts.withheld} withheld, {counts.remarks} written with a remark")
    return NOTES_WITHHELD if counts.withheld else 0


def _refuse_outputs(outputs: tuple[str, str], options: argparse.Namespace, files: Sequence[Path]) -> None:
    """Raise CorpusError where a folder to write would replace an input; Spark itself knows what stands behind a URL."""
    source = None if _is_url(options.input) else options.input
    for output in outputs:
        if not _is_url(output):
            refuse_output(Path(output), options.model, source, *files)


def _is_url(place: str) -> bool:
    return "://" in place
