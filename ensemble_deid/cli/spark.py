"""`spark`: a Parquet table in, one without PHI out, on as many machines as Spark has."""

import argparse
from pathlib import Path
from typing import Any

from ensemble_deid.cli.note_source import add_columns
from ensemble_deid.cli.options import add_command, add_model
from ensemble_deid.cli.output import refuse_output
from ensemble_deid.cli.replacement import add_replacement, make_replacer, policy_file
from ensemble_deid.cli.site_lists import add_lists, list_files, read_lists
from ensemble_deid.cli.terminal import NOTES_WITHHELD, counted, say, warn


def add_commands(commands: Any) -> None:
    """Add this module's command to the parser."""
    parser = add_command(
        commands,
        "spark",
        "de-identify a Parquet table on Spark (docs/integrations.md)",
        example="spark en notes.parquet clean.parquet --text-column note --patient-column mrn",
    )
    add_model(parser)
    parser.add_argument("input", metavar="IN.parquet", help="a file, a folder or a URL that Spark can read")
    parser.add_argument("output", metavar="OUT.parquet", help="a folder that does not exist yet")
    add_columns(parser)
    add_lists(parser, strict=True)
    add_replacement(parser)
    parser.add_argument("--threshold", metavar="T", type=float, help="probability to accept a span at, 0 to 1")
    rare = parser.rare()
    rare.add_argument("--failed", metavar="PATH", help="table of withheld notes; default: OUT.parquet.failed")
    rare.add_argument("--master", metavar="URL", help="such as local[8]; default: what Spark's own settings say")
    parser.set_defaults(run=run_spark)


def run_spark(options: argparse.Namespace) -> int:
    """Write the table and the table of withheld notes, and say how many notes there were."""
    failed = options.failed or f"{options.output.rstrip('/')}.failed"
    _refuse_outputs((options.output, failed), options)
    from ensemble_deid.corpora.tables.columns import Columns
    from ensemble_deid.integrations.spark_table import deidentify_parquet
    from ensemble_deid.model.manifest import read_manifest

    columns = Columns(
        options.text_column,
        options.id_column,
        options.patient_column,
        _several(options.date_columns),
        _several(options.keep_columns),
        options.date_order,
    )
    counts = deidentify_parquet(
        options.input,
        options.output,
        failed,
        options.model,
        columns=columns,
        replacer=make_replacer(options),
        threshold=options.threshold,
        lists=read_lists(options, read_manifest(options.model).labels),
        master=options.master,
    )
    say(f"{counted(counts.written, 'note')} written to {options.output}, {counts.withheld} withheld")
    if counts.withheld or counts.remarks:
        warn(f"{failed}: {counts.withheld} withheld, {counts.remarks} written with a remark")
    return NOTES_WITHHELD if counts.withheld else 0


def _refuse_outputs(outputs: tuple[str, str], options: argparse.Namespace) -> None:
    """Raise CorpusError where a folder to write would replace an input; Spark itself knows what stands behind a URL."""
    source = None if _is_url(options.input) else options.input
    for output in outputs:
        if not _is_url(output):
            refuse_output(
                Path(output), options.model, source, options.key_file, policy_file(options), *list_files(options)
            )


def _is_url(place: str) -> bool:
    return "://" in place


def _several(names: str | None) -> tuple[str, ...]:
    return tuple(names.split(",")) if names else ()
