"""`model list`, `export`, `package`, `scan`, `sign`: sharing models; `keygen`: keys."""

import argparse
import json
from pathlib import Path
from typing import Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.options import add_command, add_files, add_on_model, add_repeatable, add_signing_key
from ensemble_deid.cli.sources import check_out_files, read_gold
from ensemble_deid.cli.terminal import say
from ensemble_deid.deidentify.outputs import refuse_output_files, refuse_output_model
from ensemble_deid.keys import PUBLIC_SUFFIX, key_fingerprint, make_key_file, make_signing_key
from ensemble_deid.model.installed import installed_models
from ensemble_deid.model.manifest import SIGNATURE, read_manifest, sign_model

_SCAN_FORMS = (".json",)


def add_commands(commands: Any) -> None:
    keygen = add_command(commands, "keygen", run_keygen, example="site.key")
    keygen.add_argument("file", metavar="FILE", type=Path, help="a new file, readable by you alone")
    keygen.add_argument("--signing", action="store_true", help="a pair for signatures; the public key is FILE.pub")


def add_model_commands(commands: Any) -> None:
    add_command(commands, "list", run_models)

    export = add_on_model(commands, "export", run_export, example="model --out shared --require-shareable")
    export.add_argument("--out", metavar="MODEL", type=Path, required=True, help="folder to write the copy to")
    export.add_argument("--require-shareable", action="store_true", help="only a model trained with --shareable")
    _add_compact(export)

    package = add_on_model(
        commands, "package", run_package, example="model --name ours --version 1.0.0 --out ours --wheel dist"
    )
    package.add_argument("--name", metavar="NAME", required=True, help="the installed model's name")
    package.add_argument("--version", metavar="V", required=True, dest="package_version", help="such as 1.0.0")
    package.add_argument("--out", metavar="DIR", type=Path, required=True, help="folder of the package's project")
    package.add_argument("--licence", metavar="FILE", type=Path, help="the licence's text, with the NOTICE beside it")
    _add_compact(package)
    add_repeatable(package, "--score", "CORPUS", "score the model on it for the card; repeatable")
    meaning = "training, dev or threshold notes that anyone may read, to know them again; repeatable"
    add_repeatable(package, "--public-notes", "CORPUS", meaning)
    package.add_argument("--wheel", metavar="DIR", type=Path, help="also build the wheel into this folder")

    scan = add_on_model(commands, "scan", run_scan, example="model my/train --out scan.json")
    scan.add_argument("corpus", metavar="CORPUS", help="annotated notes, such as those that the model was trained on")
    scan.add_argument("--control", metavar="CORPUS", help="other notes, for chance; default: surrogates of CORPUS")
    add_files(scan, _SCAN_FORMS)

    sign = add_on_model(commands, "sign", run_sign, example="model --key officer.pem")
    add_signing_key(sign, "--key")


def _add_compact(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--compact", action="store_true", help="round weights: smaller")


def run_package(options: argparse.Namespace) -> None:
    """Make a Python package of a model."""
    from ensemble_deid.deidentify.deidentifier import Deidentifier
    from ensemble_deid.model.package import add_figures, build_wheel, packaged_model, write_package
    from ensemble_deid.training.reports import figures_record, figures_table, measure_model

    refuse_output_model(options.out, options.model, options.licence, *options.score, *options.public_notes)
    corpora = {name: read_gold(name).documents for name in options.score}
    project = write_package(
        options.model,
        options.out,
        name=options.name,
        version=options.package_version,
        licence=options.licence,
        compact=options.compact,
        public=[read_gold(name).documents for name in options.public_notes],
    )
    if corpora:
        folder = packaged_model(project, options.name)
        # The package's own manifest no longer knows the notes that its threshold was chosen on.
        model, manifest = Deidentifier.load(folder), read_manifest(options.model)
        rows = {name: measure_model(model, notes, manifest=manifest) for name, notes in corpora.items()}
        figures = [
            (figures_table(name, notes, rows[name]), figures_record(name, notes, rows[name]))
            for name, notes in corpora.items()
        ]
        add_figures(project, options.name, figures)
    say(f"the package is in {project}: pip install {project}, then use the model as {options.name}")
    if options.wheel is not None:
        say(f"its wheel is {build_wheel(project, options.wheel)}")


def run_models(options: argparse.Namespace) -> None:
    """List the installed models."""
    for model in installed_models().values():
        say(f"{model.name:<16} {model.package} {model.version}  {model.directory}")


def run_export(options: argparse.Namespace) -> None:
    """Copy a model without its private files (docs/models.md)."""
    from ensemble_deid.model.package import export_model

    if options.out.resolve() != options.model.resolve():
        refuse_output_model(options.out, options.model)
    names = export_model(options.model, options.out, shareable=options.require_shareable, compact=options.compact)
    say(f"{len(names)} files copied to {options.out}; its private files stay in {options.model}")


def run_scan(options: argparse.Namespace) -> None:
    """Search a model's files for the PHI of a corpus; prints counts only."""
    from ensemble_deid.model.scan import ALL_FILES, ALL_LABELS, ScanRow, scan_model

    check_out_files(options.out, _SCAN_FORMS, options.model, options.corpus, options.control)
    control = None if options.control is None else read_gold(options.control).documents
    rows = scan_model(options.model, read_gold(options.corpus).documents, control)
    content = {"rows": [row.to_json() for row in rows]}
    for file in options.out:
        write_text_atomically(file, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def line(name: str, row: ScanRow) -> str:
        own, chance = f"{row.found} of {row.strings}", f"{row.control_found} of {row.control_strings}"
        strings, found, others, by_chance = row.single
        single, its_chance = f"{found} of {strings}", f"{by_chance} of {others}"
        return f"{name:<34} {row.unit:<6} {own:>16} {chance:>16} {single:>16} {its_chance:>16} {row.p:>9.2g}"

    of_one = f"{'of one patient':>16} {'by chance':>16}"
    head = f"{'':<34} {'':<6} {'found':>16} {'by chance':>16} {of_one} {'p':>9}"
    say("\n".join([f"{head}\nby file", *(line(row.file, row) for row in rows if row.label == ALL_LABELS)]))
    say("\n".join(["by label, in any file", *(line(row.label, row) for row in rows if row.file == ALL_FILES)]))


def run_sign(options: argparse.Namespace) -> None:
    """Sign a model with a private key."""
    refuse_output_files([options.model / SIGNATURE], options.signing_key)
    sign_model(options.model, options.signing_key)
    say(f"{options.model} is signed; any change invalidates the signature")


def run_keygen(options: argparse.Namespace) -> None:
    """Make a secret key, for surrogates, hashes and pseudonyms, or a pair for signatures."""
    if options.signing:
        public = key_fingerprint(make_signing_key(options.file).public)
        say(f"{options.file}: a new private key, which only you can read: whoever has it signs in your name")
        say(f"{options.file}{PUBLIC_SUFFIX}: its public key, {public}; give it to those who verify")
        return
    key = make_key_file(options.file)
    say(f"{options.file}: a new key, with the id {key.id}; guard it like the notes, and keep a copy")
