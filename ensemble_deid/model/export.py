"""Exporting a model: everything that processing notes needs, and nothing else."""

import shutil
from dataclasses import replace
from pathlib import Path

from ensemble_deid.config import make_config
from ensemble_deid.errors import ModelError, RuleError
from ensemble_deid.evaluation.operating_points import CHOSEN, without_digests
from ensemble_deid.features.vocabulary import Vocabulary
from ensemble_deid.model.additions import INCLUSION, PATTERNS
from ensemble_deid.model.directory import beside, refuse_foreign_folder, write_manifest
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import FILE, SIGNATURE, Manifest, read_manifest
from ensemble_deid.model.measured import SHIPPED
from ensemble_deid.model.submodels import compact_submodel
from ensemble_deid.stacking.stacker import SITE
from ensemble_deid.taggers.tbed.rule_text import parse_rule
from ensemble_deid.taggers.tbed.rulelist import REQUIRED_KEYS, RuleList
from ensemble_deid.taggers.tbed.tagger import RULES, TbedTagger, is_unused_head


def export_model(model: Path, out: Path, *, shareable: bool = False, compact: bool = False) -> tuple[str, ...]:
    """Copy a model without its private files, and return the names of the files that were copied.

    The digests of notes leave the manifest, too: by trying all numbers, or notes of few words, somebody could read them
    out of it. With `shareable` the model must have been trained shareable, and its rules must be within its
    vocabulary; what reviewers remarked on changes of the rules is then deleted from the manifest. With `compact`
    weights are rounded and files compressed (`_compact`). A signature is copied if nothing was changed. Raises
    ModelError for a model that is damaged or not shareable, and where `out` is a folder that holds anything but a
    model.
    """
    manifest = read_manifest(model)
    # The copy comes with these.
    figures = {name: figure for name, figure in manifest.figures.items() if name != SHIPPED}
    if CHOSEN in figures:
        figures[CHOSEN] = without_digests(figures[CHOSEN])
    exported = replace(_without_remarks(model, manifest) if shareable else manifest, seen_notes={}, figures=figures)
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


def _compact(directory: Path, manifest: Manifest) -> None:
    """Store an encoder's weights in eight bits, the network's in half precision, the CRF's in single precision."""
    config = make_config(manifest.config, place=str(directory / FILE))
    for name in config.submodels:
        compact_submodel(name, directory, labels=manifest.labels, config=config)


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
    # Names of patterns that were removed again are words of somebody's choice, too.
    choices = {key: value for key, value in manifest.choices.items() if key not in ("added_patterns", "inclusion_list")}
    return replace(manifest, rules_replaced=records, choices=choices)


def _check_rules(rules: RuleList, vocabulary: Vocabulary, path: Path) -> None:
    """Raise ModelError where reviewers put something into a rule list that training could not have put there."""
    # Training leaves rules that it does not use in the list as remarks.
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
