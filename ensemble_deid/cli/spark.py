"""`spark`: a Parquet table in, one without PHI out, on as many machines as Spark has."""

import argparse
from pathlib import Path
from typing import Any

from ensemble_deid.cli.options import add_command, add_model
from ensemble_deid.cli.replacement import (
    add_columns,
    add_gate,
    add_lists,
    add_recognizers,
    add_replacement,
    columns_of,
    run_choices,
    tell_of_key,
)
from ensemble_deid.cli.terminal import NOTES_WITHHELD, counted, say, warn
from ensemble_deid.deidentify.outputs import refuse_output


def add_commands(commands: Any) -> None:
    """Add this module's command to the parser."""
    parser = add_command(
        commands,
        "spark",
        run_spark,
        example="spark en notes.parquet clean.parquet --text-column note --patient-column mrn",
    )
    add_model(parser)
    parser.add_argument("input", metavar="IN.parquet", help="a file, a folder or a URL that Spark can read")
    parser.add_argument("output", metavar="OUT.parquet", help="a folder that does not exist yet")
    add_columns(parser)
    add_lists(parser, strict=True)
    add_replacement(parser)
    add_gate(parser)
    add_recognizers(parser)
    parser.add_argument("--threshold", metavar="T", type=float, help="least probability of an accepted span, 0 to 1")
    rare = parser.rare()
    rare.add_argument("--failed", metavar="PATH", help="table of withheld notes; default: OUT.parquet.failed")
    rare.add_argument("--master", metavar="URL", help="such as local[8]; default: what Spark's own settings say")
    rare.add_argument("--partitions", metavar="N", type=int, help="tasks for the notes; default: by size and cores")


def run_spark(options: argparse.Namespace) -> int:
    """De-identify a Parquet table on Spark (docs/data-engineer.md)."""
    from ensemble_deid.deidentify.options import RunOptions, files_of
    from ensemble_deid.integrations.spark import deidentify_parquet
    from ensemble_deid.model.additions import labels_of_model
    from ensemble_deid.model.manifest import read_manifest

    failed = options.failed or f"{options.output.rstrip('/')}.failed"
    choices = run_choices(options)
    # Spark itself checks URLs.
    source = None if "://" in options.input else options.input
    for output in (options.output, failed):
        if "://" not in output:
            refuse_output(Path(output), options.model, source, *files_of(choices))
    chosen = RunOptions.choose(labels_of_model(options.model, read_manifest(options.model)), **choices)
    tell_of_key(chosen.replacer)
    counts = deidentify_parquet(
        options.input,
        options.output,
        failed,
        options.model,
        columns=columns_of(options),
        options=chosen,
        master=options.master,
        partitions=options.partitions,
    )
    say(f"{counted(counts.written, 'note')} written to {options.output}, {counts.withheld} withheld")
    if counts.withheld or counts.remarks:
        warn(f"{failed}: {counts.withheld} withheld, {counts.remarks} written with a remark")
    return NOTES_WITHHELD if counts.withheld else 0
