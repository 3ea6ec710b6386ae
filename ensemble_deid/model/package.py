"""A model as a Python package, which `pip` installs and a name then finds (as `spacy package` makes them)."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ensemble_deid import __version__
from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.config import make_config
from ensemble_deid.errors import ConfigError, ModelError, RuleError
from ensemble_deid.evaluation.operating_points import (
    CHOSEN,
    KnownNotes,
    chosen_threshold,
    threshold_to_record,
    without_digests,
)
from ensemble_deid.features.vocabulary import Vocabulary
from ensemble_deid.model.additions import INCLUSION, PATTERNS
from ensemble_deid.model.directory import (
    CARD,
    beside,
    refuse_foreign_files,
    refuse_foreign_folder,
    variant_name,
    write_manifest,
)
from ensemble_deid.model.installed import FOLDER, GROUP, NAME
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import FILE, SIGNATURE, Manifest, fingerprint, read_manifest
from ensemble_deid.model.measured import SHIPPED
from ensemble_deid.model.seen_notes import SeenNotes
from ensemble_deid.model.submodels import compact_submodel
from ensemble_deid.note.document import Document
from ensemble_deid.stacking.stacker import SITE, Stacker
from ensemble_deid.taggers.tbed.rule_text import parse_rule
from ensemble_deid.taggers.tbed.rulelist import REQUIRED_KEYS, RuleList
from ensemble_deid.taggers.tbed.tagger import RULES, TbedTagger, is_unused_head

FIGURES = "figures.json"
"""The file of the measurements, beside the model in the package."""
ATTACKS = "attacks.json"
"""What `research exposure` measured of the packaged model, beside it."""
NOTICE = "NOTICE"
"""The file beside a licence that says whom to credit."""
_VERSION = re.compile(r"\d+(?:\.\d+){1,3}(?:(?:a|b|rc|\.dev|\.post)\d+)?")
_PROJECT = """[build-system]
requires = ["setuptools>=68"]
build-backend = "setuptools.build_meta"

[project]
name = "{package}"
version = "{version}"
description = "A model of ensemble_deid: finds and removes PHI in clinical notes"
readme = "README.md"
{licence}requires-python = ">=3.11"
dependencies = ["ensemble_deid{extra}>={needs}"]

[project.entry-points."{group}"]
{name} = "{package}"

[tool.setuptools]
packages = ["{package}"]

[tool.setuptools.package-data]
{package} = ["*.json", "{folder}/*"]
"""
_MODULE = '"""A model of ensemble_deid, used by its name: `Deidentifier.load("{name}")`."""\n'


def write_package(
    model: Path,
    out: Path,
    *,
    name: str,
    version: str,
    licence: Path | None = None,
    compact: bool = False,
    public: Sequence[Sequence[Document]] = (),
) -> Path:
    """Write the project folder of a package of the model, without the model's private files; return it.

    `out` becomes the project: `pyproject.toml`, the model card as `README.md`, `LICENSE` if one is given (with the file
    `NOTICE` beside it), and the module `ensemble_deid_<name>` with the model in it. `compact` and `public` as in
    `export_model`. An existing project of the same package is replaced. Raises ConfigError for a name or version that
    packages cannot have, ModelError for a damaged model or where `out` holds other things.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(f"--name {name}: a name has small letters, digits and underscores, and begins with a letter")
    if not _VERSION.fullmatch(version):
        raise ConfigError(f"--version {version}: a version is like 1.0.0 or 1.2rc1")
    package = f"ensemble_deid_{name}"
    _refuse_other_content(out, package)
    read_manifest(model)
    project = _PROJECT.format(
        package=package,
        version=version,
        licence='license = {file = "LICENSE"}\n' if licence else "",
        extra="[train]" if _needs_torch(model) else "",
        needs=__version__,
        group=GROUP,
        name=name,
        folder=FOLDER,
    )
    with beside(out) as scratch:
        (scratch / package).mkdir()
        (scratch / "pyproject.toml").write_text(project, encoding="utf-8")
        (scratch / package / "__init__.py").write_text(_MODULE.format(name=name), encoding="utf-8")
        export_model(model, scratch / package / FOLDER, compact=compact, public=public)
        shutil.copyfile(scratch / package / FOLDER / CARD, scratch / "README.md")
        if licence:
            shutil.copyfile(licence, scratch / "LICENSE")
            notice = licence.with_name(NOTICE)
            if notice.is_file():
                shutil.copyfile(notice, scratch / NOTICE)
    return out


def _needs_torch(model: Path) -> bool:
    """Return whether a model has an encoder that only the library `transformers` computes."""
    # Here, not above: a package of other models needs no tokenizer.
    from ensemble_deid.taggers.transformer.arrays import is_plain_bert

    settings = (json.loads(path.read_text(encoding="utf-8")) for path in model.glob("*transformer.json"))
    # The pattern fits `stacker_without_transformer.json`, too.
    return not all(is_plain_bert(content["encoder"]) for content in settings if "encoder" in content)


def _refuse_other_content(out: Path, package: str) -> None:
    """Raise ModelError where replacing `out` would lose anything but an earlier project of the package."""
    own = {"pyproject.toml", "README.md", "LICENSE", NOTICE, package, "build", f"{package}.egg-info"}
    inside = {"__init__.py", "__pycache__", FIGURES, ATTACKS, FOLDER}
    entries = sorted(out.iterdir()) if out.is_dir() else []
    if (out.exists() and not out.is_dir()) or (entries and not (out / package / FOLDER).is_dir()):
        raise ModelError(f"{out}: exists and is not a project of {package}; nothing was overwritten")
    foreign = [path for path in entries if path.name not in own]
    if entries:
        foreign += [path for path in sorted((out / package).iterdir()) if path.name not in inside]
        refuse_foreign_files(out / package / FOLDER)
    if foreign:
        raise ModelError(f"{foreign[0]}: not part of the package, and would be lost: move it away first")


def packaged_model(project: Path, name: str) -> Path:
    return project / f"ensemble_deid_{name}" / FOLDER


def add_figures(project: Path, name: str, figures: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Add what was measured to a project: a Markdown section of each to the README, the records to `figures.json`."""
    model = packaged_model(project, name)
    card = (model / CARD).read_text(encoding="utf-8")
    records = json.dumps([record for _, record in figures], indent=1, ensure_ascii=False)
    write_text_atomically(model.parent / FIGURES, records + "\n")
    write_text_atomically(project / "README.md", "\n".join([card, *(section for section, _ in figures)]))


def build_wheel(project: Path, out: Path) -> Path:
    """Build the wheel of a project folder into the folder `out` and return it; nothing is downloaded.

    Raises ConfigError where setuptools is not installed, or the build fails.
    """
    if find_spec("setuptools") is None:
        raise ConfigError("a wheel is built with setuptools: pip install setuptools")
    before = set(out.glob("*.whl")) if out.is_dir() else set()
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    # The same interpreter's pip, without a shell.
    done = subprocess.run(  # noqa: S603
        [*command, "--disable-pip-version-check", "--wheel-dir", str(out), str(project.resolve())], check=False
    )
    made = set(out.glob("*.whl")) - before if out.is_dir() else set()
    wheels = sorted(made) or sorted(before)
    if done.returncode or not wheels:
        raise ConfigError(f"{project}: pip could not build the wheel (exit status {done.returncode})")
    return wheels[-1]


# Exporting a model: everything that processing notes needs, and nothing else.


def export_model(
    model: Path, out: Path, *, shareable: bool = False, compact: bool = False, public: Sequence[Sequence[Document]] = ()
) -> tuple[str, ...]:
    """Copy a model without its private files, and return the names of the files that were copied.

    The manifest loses its digests of notes, too: someone could try all numbers or short notes against them. It keeps
    those of `public`, corpora that anyone may read: its training or dev notes, or those of its threshold. With
    `shareable` the model must have been trained shareable, and its rules must be within its vocabulary; reviewers'
    remarks on changed rules are then deleted from the manifest. With `compact` weights are rounded and files compressed
    (`_compact`). A signature is copied if nothing changed. Raises ModelError for a model that is damaged or not
    shareable, and where `out` is a folder that holds anything but a model.
    """
    manifest = read_manifest(model)
    # The copy comes with these.
    figures = {name: figure for name, figure in manifest.figures.items() if name != SHIPPED}
    if CHOSEN in figures:
        figures[CHOSEN] = without_digests(figures[CHOSEN])
    exported = replace(_without_remarks(model, manifest) if shareable else manifest, seen_notes={}, figures=figures)
    for notes in public:
        exported = _knowing(notes, exported)
    if model.resolve() in (out.resolve(), *out.resolve().parents):
        raise ModelError(f"{out}: is the model itself or lies in its folder")
    refuse_foreign_folder(out)
    names = tuple(sorted((FILE, *manifest.files)))
    with beside(out) as scratch:
        for name in names:
            shutil.copyfile(model / name, scratch / name)
        if compact:
            _compact(scratch, manifest)
        if compact or exported != manifest:
            write_manifest(scratch, exported)
        elif (model / SIGNATURE).is_file():
            shutil.copyfile(model / SIGNATURE, scratch / SIGNATURE)
    return names


def _knowing(notes: Sequence[Document], manifest: Manifest) -> Manifest:
    """Return a manifest with digests of the notes' texts; raise ConfigError for notes that the model did not use.

    Patients get none: those of other sites may have the same numbers.
    """
    texts, of = [replace(note, patient_id=None) for note in notes], fingerprint(notes)
    seen = SeenNotes.from_record(manifest.seen_notes)
    if not seen.salt:
        seen = SeenNotes.of([], seed=manifest.config["seed"])
    figures = dict(manifest.figures)
    chosen = chosen_threshold(figures)
    of_threshold = chosen is not None and chosen.notes.count == len(notes)
    if of == manifest.fingerprint:
        seen = seen.and_also(texts, seed=manifest.config["seed"])
    elif of == manifest.dev_fingerprint:
        seen = seen.with_dev(texts)
    elif not of_threshold:
        raise ConfigError("--public-notes: are neither the model's training or dev notes nor those of its threshold")
    if chosen is not None and of_threshold:
        figures[CHOSEN] = threshold_to_record(replace(chosen, notes=KnownNotes.of(notes)))
    return replace(manifest, seen_notes=seen.to_record(), figures=figures)


def _compact(directory: Path, manifest: Manifest) -> None:
    """Store an encoder's matrices and the network's word vectors in eight bits, and round all other weights.

    Those of the network and the support vectors are in half precision, the CRF's in single, without those near 0.
    """
    config = make_config(manifest.config, place=str(directory / FILE))
    for name in config.submodels:
        compact_submodel(name, directory, labels=manifest.labels, config=config)
    for kept in (config.submodels, *config.smaller_stacks):
        Stacker.compact_saved(directory, variant=variant_name(config.submodels, kept))


def _without_remarks(model: Path, manifest: Manifest) -> Manifest:
    """Return the manifest of a shareable model without remarks. Raises ModelError where the model is not shareable."""
    for name in (PATTERNS, INCLUSION, SITE):
        if name in manifest.files:
            raise ModelError(f"{model / name}: was added after training, and may hold words of notes: remove it first")
    ensemble, _ = load_model(model)
    vocabulary = ensemble.feature_extractor.lexicon.vocabulary
    if vocabulary is None or not ensemble.config.shareable:
        raise ModelError(
            f"{model}: was trained on all words, and its weights cannot be made to forget them: "
            "train it again with --shareable"
        )
    for tagger in ensemble.taggers.values():
        if isinstance(tagger, TbedTagger):
            _check_rules(tagger.rules, vocabulary, model / RULES)
    records = tuple({**record, "remark": ""} for record in manifest.rules_replaced)
    # The names of removed patterns are free text, too.
    choices = {key: value for key, value in manifest.choices.items() if key not in ("added_patterns", "inclusion_list")}
    return replace(manifest, rules_replaced=records, choices=choices)


def _check_rules(rules: RuleList, vocabulary: Vocabulary, path: Path) -> None:
    """Raise ModelError if a rule list has content from reviewers that training could not have produced."""
    # Training keeps unused rules in the list as remarks.
    remarks = [line for lines in rules.remarks.values() for line in lines if line.strip() and not is_unused_head(line)]
    try:
        unused = [parse_rule(line.lstrip("# "), place="remark") for line in remarks]
    except RuleError:
        unused = None
    if unused is None or set(rules.header) - {*REQUIRED_KEYS}:
        raise ModelError(
            f"{path}: has remarks, which may quote notes: delete them from the list, and `rules replace` it"
        )
    for number, rule in enumerate((*rules, *unused), 1):
        if not all(vocabulary.allows(part.window.column, part.value) for part in rule.conditions):
            raise ModelError(f"{path}: rule {number} has a value outside the model's vocabulary: not shareable")
