"""`export`, `package`, `models`, `scan`, `sign`, `verify`: handing models on, what they give away; checking a run."""

import argparse
import json
from pathlib import Path
from typing import Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.sources import read_gold
from ensemble_deid.cli.terminal import counted, say
from ensemble_deid.corpora.outputs import refuse_output_files, refuse_output_model
from ensemble_deid.errors import ConfigError


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    export = commands.add_parser("export", help="copy a model without its private files (docs/models.md)")
    export.add_argument("model", metavar="MODEL", type=Path)
    export.add_argument("--out", metavar="MODEL", type=Path, required=True, help="folder to write the copy to")
    export.add_argument("--shareable", action="store_true", help="refuse a model that was not trained with --shareable")
    export.add_argument("--compact", action="store_true", help="round weights and compress files: half the size")
    export.set_defaults(run=run_export)

    scan = commands.add_parser("scan", help="search a model's files for the PHI of a corpus; prints counts only")
    scan.add_argument("model", metavar="MODEL", type=Path)
    scan.add_argument("corpus", metavar="CORPUS", help="annotated notes, such as those that the model was trained on")
    scan.add_argument("--control", metavar="CORPUS", help="other notes, for chance; default: surrogates of CORPUS")
    scan.add_argument("--json", metavar="FILE", type=Path, help="all counts, by file and label")
    scan.set_defaults(run=run_scan)

    sign = commands.add_parser("sign", help="sign a model with a key, so that no other model passes for it")
    sign.add_argument("model", metavar="MODEL", type=Path)
    sign.add_argument("--key-file", metavar="FILE", type=Path, required=True, help="a secret of 16 bytes or more")
    sign.set_defaults(run=run_sign)

    verify = commands.add_parser("verify", help="check a model and its signature, or a run of deidentify")
    verify.add_argument("model", metavar="MODEL|RUN", type=Path)
    verify.add_argument("--key-file", metavar="FILE", type=Path, help="of a model: the key it must be signed with")
    verify.add_argument("--head", metavar="HASH", help="of a run: the last hash of its manifest, as it was printed")
    verify.set_defaults(run=run_verify)

    package = commands.add_parser("package", help="make a Python package of a model, to be installed and used by name")
    package.add_argument("model", metavar="MODEL", type=Path)
    package.add_argument("--name", required=True, help="the name that the installed model is used by")
    package.add_argument("--version", required=True, dest="package_version", help="such as 1.0.0")
    package.add_argument("--out", metavar="DIR", type=Path, required=True, help="folder of the package's project")
    package.add_argument("--licence", metavar="FILE", type=Path, help="the licence's text")
    package.add_argument("--compact", action="store_true", help="round weights and compress files: half the size")
    package.add_argument(
        "--score", metavar="CORPUS", action="append", default=[], help="score the model on it for the card; repeatable"
    )
    package.add_argument("--wheel", metavar="DIR", type=Path, help="also build the wheel into this folder")
    package.set_defaults(run=run_package)

    models = commands.add_parser("models", help="list the installed models")
    models.add_argument("action", choices=("list",))
    models.set_defaults(run=run_models)


def run_package(options: argparse.Namespace) -> int:
    """Write the project, and build its wheel."""
    from ensemble_deid.deidentify.deidentifier import Deidentifier
    from ensemble_deid.model.manifest import read_manifest
    from ensemble_deid.model.package import add_figures, build_wheel, packaged_model, write_package
    from ensemble_deid.training.model_figures import figures_record, figures_table, measure_model

    refuse_output_model(options.out, options.model, options.licence, *options.score)
    corpora = {name: read_gold(name).documents for name in options.score}
    project = write_package(
        options.model,
        options.out,
        name=options.name,
        version=options.package_version,
        licence=options.licence,
        compact=options.compact,
    )
    if corpora:
        folder = packaged_model(project, options.name)
        model, manifest = Deidentifier.load(folder), read_manifest(folder)
        rows = {name: measure_model(model, notes, manifest=manifest) for name, notes in corpora.items()}
        figures = [
            (figures_table(name, notes, rows[name]), figures_record(name, notes, rows[name]))
            for name, notes in corpora.items()
        ]
        add_figures(project, options.name, figures)
    say(f"the package is in {project}: pip install {project}, then use the model as {options.name}")
    if options.wheel is not None:
        say(f"its wheel is {build_wheel(project, options.wheel)}")
    return 0


def run_models(options: argparse.Namespace) -> int:
    """Print a line for each installed model."""
    from ensemble_deid.model.installed import installed_models

    for model in installed_models().values():
        say(f"{model.name:<16} {model.package} {model.version}  {model.directory}")
    return 0


def run_export(options: argparse.Namespace) -> int:
    """Write the copy."""
    from ensemble_deid.model.export import export_model

    if options.out.resolve() != options.model.resolve():
        refuse_output_model(options.out, options.model)
    names = export_model(options.model, options.out, shareable=options.shareable, compact=options.compact)
    say(f"{len(names)} files copied to {options.out}; its private files stay in {options.model}")
    return 0


def run_scan(options: argparse.Namespace) -> int:
    """Search, and print the sums by file and by label."""
    from ensemble_deid.model.scan import ALL_FILES, ALL_LABELS, ScanRow, scan_model

    refuse_output_files([options.json], options.model, options.corpus, options.control)
    control = None if options.control is None else read_gold(options.control).documents
    rows = scan_model(options.model, read_gold(options.corpus).documents, control)
    if options.json is not None:
        content = {"rows": [row.to_json() for row in rows]}
        write_text_atomically(options.json, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def line(name: str, row: ScanRow) -> str:
        own, chance = f"{row.found} of {row.strings}", f"{row.control_found} of {row.control_strings}"
        strings, found, others, by_chance = row.single
        single, its_chance = f"{found} of {strings}", f"{by_chance} of {others}"
        return f"{name:<34} {row.unit:<6} {own:>16} {chance:>16} {single:>16} {its_chance:>16} {row.p:>9.2g}"

    of_one = f"{'of one patient':>16} {'by chance':>16}"
    head = f"{'':<34} {'':<6} {'found':>16} {'by chance':>16} {of_one} {'p':>9}"
    say("\n".join([f"{head}\nby file", *(line(row.file, row) for row in rows if row.label == ALL_LABELS)]))
    say("\n".join(["by label, in any file", *(line(row.label, row) for row in rows if row.file == ALL_FILES)]))
    return 0


def run_sign(options: argparse.Namespace) -> int:
    """Write the signature."""
    from ensemble_deid.model.manifest import sign_model
    from ensemble_deid.model.signature import FILE as SIGNATURE

    refuse_output_files([options.model / SIGNATURE], options.key_file)
    sign_model(options.model, options.key_file)
    say(f"{options.model} is signed; any change to it ends that")
    return 0


def run_verify(options: argparse.Namespace) -> int:
    """Check; a ModelError, or of a run a CorpusError, says what is wrong."""
    from ensemble_deid.deidentify.manifest import is_run
    from ensemble_deid.model.manifest import read_manifest

    if is_run(options.model):
        return _verify_run(options.model, options.head)
    if options.key_file is None:
        raise ConfigError(f"{options.model}: is no run; to verify a model, name the key with --key-file")
    manifest = read_manifest(options.model, key=options.key_file)
    say(f"{options.model} is whole and signed with this key; checksum {manifest.checksum}")
    return 0


def _verify_run(folder: Path, head: str | None) -> int:
    from ensemble_deid.deidentify.manifest import verify_run

    run = verify_run(folder, head=head)
    counts = ", ".join(f"{number} {name}" for name, number in run.counts.items())
    say(f"{folder} is whole; {counted(run.files, 'file')} as written ({counts}); model {run.settings['model']}")
    for digest in run.printed:
        say(f"its output went to standard output, and had the SHA-256 {digest}")
    for name, digest in run.tables.items():
        say(f"the table {name} had rows with the digest {digest}: the run's command with --resume compares them")
    say(f"the manifest ends in {run.head}")
    return 0
