"""`serve` and `spark`: the model as an HTTP service, and over a Parquet table on as many machines as Spark has."""

import argparse
from pathlib import Path
from typing import Any

from ensemble_deid.cli.options import add_on_model, add_port, add_shared, submodels_of
from ensemble_deid.cli.replacement import (
    add_columns,
    add_gate,
    add_key_file,
    add_lists,
    add_recognizers,
    add_replacement,
    columns_of,
    finding_choices,
    run_choices,
    tell_of_key,
)
from ensemble_deid.cli.terminal import NOTES_WITHHELD, counted, say, warn
from ensemble_deid.deidentify.outputs import refuse_output
from ensemble_deid.errors import needs_extra


def add_commands(commands: Any) -> None:
    parser = add_on_model(commands, "serve", run_serve, example="en --port 8000 --key-file site.key")
    parser.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="to listen on; default: this machine")
    add_port(parser, default=8000)
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="processes, which share the model on Linux")
    parser.add_argument("--queue", metavar="N", type=int, default=64, help="waiting requests a process")
    parser.add_argument(
        "--max-body", metavar="BYTES", type=int, default=1_000_000, help="longest request, or line of a batch"
    )
    parser.add_argument("--time-limit", metavar="SECONDS", type=float, default=30.0, help="time for one note")
    parser.add_argument(
        "--tokens", metavar="FILE", type=Path, help="lines of a token and its scopes: predict, replace, known"
    )
    parser.add_argument("--entities", choices=("presidio", "own"), default="presidio", help="entity names in /analyze")
    add_key_file(parser)
    add_lists(parser, strict=True)
    add_gate(parser)
    add_recognizers(parser)
    add_shared(parser, "submodels", "device")
    parser.rare().add_argument(
        "--arrival-limit", metavar="SECONDS", type=float, default=10.0, help="wait for a body; total wait for a batch"
    )
    parser.rare().add_argument("--together", metavar="N", type=int, default=16, help="largest batch of waiting notes")
    _add_spark(commands)


def run_serve(options: argparse.Namespace) -> None:
    """Answer HTTP requests, also Presidio's (docs/administrator.md)."""
    with needs_extra("service", "the service"):
        from ensemble_deid.service.server import serve
    from ensemble_deid.deidentify.options import RunChoices, RunOptions
    from ensemble_deid.deidentify.replacement import Key
    from ensemble_deid.model.additions import labels_of_model
    from ensemble_deid.model.manifest import read_manifest
    from ensemble_deid.service.settings import ServiceSettings, tokens_from_environment

    key = Key.find(options.key_file)
    choices: RunChoices = {**finding_choices(options), "key": key}
    # Each worker reads them again; a mistake in them is said before anything is served.
    RunOptions.choose(labels_of_model(options.model, read_manifest(options.model)), **choices)
    settings = ServiceSettings(
        model=options.model,
        host=options.host,
        port=options.port,
        workers=options.jobs,
        device=options.device,
        submodels=None if (named := submodels_of(options)) is None else tuple(named),
        max_body=options.max_body,
        time_limit=options.time_limit,
        arrival_limit=options.arrival_limit,
        queue=options.queue,
        together=options.together,
        entities=options.entities,
        tokens=tokens_from_environment(options.tokens),
        choices=choices,
    )
    if key.throwaway:
        say("no --key-file: surrogates and hashes are those of a key that ends with this service")
    serve(settings, started=lambda address: say(f"serving {options.model} at {address}; stop with Ctrl-C"))


def _add_spark(commands: Any) -> None:
    parser = add_on_model(
        commands, "spark", run_spark, example="en notes.parquet clean.parquet --text-column note --patient-column mrn"
    )
    parser.add_argument("input", metavar="IN.parquet", help="a file, a folder or a URL that Spark can read")
    parser.add_argument("output", metavar="OUT.parquet", help="a folder that does not exist yet")
    add_columns(parser)
    add_lists(parser, strict=True)
    add_replacement(parser)
    add_gate(parser)
    add_recognizers(parser)
    add_shared(parser, "threshold")
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
