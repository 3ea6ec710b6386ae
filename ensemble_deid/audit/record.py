"""The record of a release: one signed file that ties the run, its model, the audit and the decision together.

Everything but the decision, and the figures of attacks, is computed from the run, the audit and the model; `verify`
computes it again. The file is canonical JSON (sorted keys), signed with Ed25519. It holds no text of a note: of what
leaked its form, of patients the ids of the output.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ensemble_deid import __version__
from ensemble_deid.audit.figures import audit_figures
from ensemble_deid.audit.readings import Readings, read_readings
from ensemble_deid.audit.release import replaced_spans, styles_of
from ensemble_deid.audit.residual import residual_risk
from ensemble_deid.corpora.records import digest_of
from ensemble_deid.deidentify.manifest import VerifiedRun, verify_run
from ensemble_deid.errors import ConfigError
from ensemble_deid.keys import SigningKey, TrustedKeys
from ensemble_deid.model.installed import name_of_model
from ensemble_deid.model.manifest import Manifest, read_manifest
from ensemble_deid.model.measured import threshold_text
from ensemble_deid.model.package import ATTACKS as PACKAGED_ATTACKS
from ensemble_deid.note.digits import four_digits
from ensemble_deid.parsing import read_text, strict_json
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.taggers.tbed.tagger import RULES
from ensemble_deid.training.rule_approvals import rule_approvals

DecisionMade = Literal["approve", "refuse"]
RecordFacts = Mapping[str, Any]
_FORMAT = 2
_PURPOSE = "release record"
_COMPUTED = ("run", "model", "audit", "residual")
"""The parts that `verify` computes again."""


@dataclass(frozen=True, slots=True)
class ReleasePlaces:
    run: Path
    audit: Path
    model: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseDecision:
    """Who decided what, in which role, on which day, on which conditions."""

    by: str
    role: str
    day: str
    decision: DecisionMade
    conditions: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class VerifiedRecord:
    """What a record says, who signed it (name and fingerprint of a trusted key), and which documents are missing."""

    facts: RecordFacts
    signer: str
    missing: tuple[Path, ...]


def make_record(
    places: ReleasePlaces, decision: ReleaseDecision, *, adjudicator: str = "", attacks: Path | None = None
) -> dict[str, Any]:
    """Return the record to sign.

    `attacks` is a file of `research exposure` for this very model; default: the one in the model's package, if any.
    Raises an error where the run, the audit or the model is damaged, or one is not of the other.
    """
    facts = _computed(places, adjudicator=adjudicator)
    packaged = places.model.parent / PACKAGED_ATTACKS
    attacks = attacks or (packaged if packaged.is_file() else None)
    record: dict[str, Any] = _as_json(
        {
            **facts,
            "version": __version__,
            "decision": asdict(decision),
            "attacks": None if attacks is None else _attacks(attacks, facts["model"]["checksum"]),
        }
    )
    return record


def document_beside(record: Path, name: str) -> Path:
    """Return the place of a record's document, such as `expert.html`."""
    return record.with_name(f"{record.stem}-{name}")


def write_record(
    facts: RecordFacts, places: ReleasePlaces, out: Path, key: SigningKey, *, documents: Mapping[str, bytes]
) -> str:
    """Return the file: the record with places relative to it and hashes of its documents, and the signature."""
    record = {
        **facts,
        "places": {name: os.path.relpath(place, out.parent) for name, place in asdict(places).items()},
        "documents": {name: hashlib.sha256(content).hexdigest() for name, content in documents.items()},
    }
    content = {"format": _FORMAT, "record": record, "signature": key.sign(_PURPOSE, _canonical(record))}
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def verify_record(path: Path, trusted: TrustedKeys, moved: Mapping[str, Path | None]) -> VerifiedRecord:
    """Check signature, documents, model, and the run with every file that it wrote, and recompute all figures.

    `moved` has the folders that are no longer where the record says. Raises ConfigError where the record is forged,
    signed by an unknown key, or says something else than the folders; and what a damaged folder raises.
    """
    record, signature = _read(path)
    try:
        signer = trusted.check(signature, _PURPOSE, _canonical(record))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    missing = _check_documents(path, record["documents"])
    stored = {name: path.parent / place for name, place in record["places"].items()}
    places = ReleasePlaces(**{**stored, **{name: place for name, place in moved.items() if place is not None}})
    computed = _as_json(_computed(places, adjudicator=record["audit"]["figures"]["adjudicator"]))
    for name in _COMPUTED:
        if computed[name] != record[name]:
            raise ConfigError(
                f"{path}: of the {name} it says something else than the folders do now (it was made by ensemble_deid "
                f"{record['version']}; this is {__version__})"
            )
    if record["attacks"] is not None and record["attacks"]["model"] != record["model"]["checksum"]:
        raise ConfigError(f"{path}: its figures of attacks are another model's")
    return VerifiedRecord(record, signer, missing)


def _check_documents(path: Path, digests: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the documents missing beside the record. Raises ConfigError for one changed since signing."""
    missing = []
    for name, digest in digests.items():
        document = document_beside(path, name)
        if not document.is_file():
            missing.append(document)
        elif digest_of(document) != digest:
            raise ConfigError(f"{document}: not the document that was signed with {path.name}")
    return tuple(missing)


def _read(path: Path) -> tuple[dict[str, Any], str]:
    content = _object(path)
    if set(content) != {"format", "record", "signature"}:
        raise ConfigError(f"{path}: is no record of a release")
    if content["format"] != _FORMAT:
        raise ConfigError(f"{path}: was made by another version of ensemble-deid")
    if not isinstance(content["record"], dict) or not isinstance(content["signature"], str):
        raise ConfigError(f"{path}: is no record of a release")
    return content["record"], content["signature"]


def _object(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file, an empty one where it holds none."""
    try:
        content = strict_json(read_text(path, ConfigError))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _canonical(record: RecordFacts) -> bytes:
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _as_json(value: Any) -> Any:
    """Return a value as a file gives it back, tuples as lists."""
    return json.loads(json.dumps(value, allow_nan=False))


def _computed(places: ReleasePlaces, *, adjudicator: str) -> dict[str, Any]:
    readings = read_readings(places.audit)
    if adjudicator in readings.readers:
        raise ConfigError(f"{adjudicator} is one of the readers, and cannot settle their differences")
    run = verify_run(places.run, head=readings.plan.run)
    manifest = read_manifest(places.model)
    if run.settings["model"] != manifest.checksum:
        raise ConfigError(f"{places.model}: is not the model of {places.run}, or was changed since")
    replaced = replaced_spans(places.run, readings.plan.side)
    figures = audit_figures(readings, replaced, adjudicator=adjudicator, styles=styles_of(run.settings))
    residual = residual_risk(places.run, run)
    return {
        "run": asdict(run),
        "model": _model(places.model, manifest, run),
        "audit": {"design": _design(readings), "figures": asdict(figures)},
        "residual": None if residual is None else asdict(residual),
    }


def _model(model: Path, manifest: Manifest, run: VerifiedRun) -> dict[str, Any]:
    ruled = RULES in manifest.files
    approvals = rule_approvals(model) if ruled else None
    given = run.settings["threshold"]
    chosen = threshold_text(model, manifest) if given is None else f"{four_digits(given)}, given for this run"
    return {
        "name": name_of_model(model),
        "checksum": manifest.checksum,
        "rules": None if approvals is None else approvals.sha256,
        "rules_approved": None if approvals is None else approvals.summary(),
        "threshold": Stacker.load(model).threshold if given is None else given,
        "threshold_chosen": chosen,
        "trained_on": dict(manifest.training),
        "fingerprint": manifest.fingerprint,
    }


def _design(readings: Readings) -> dict[str, Any]:
    plan = readings.plan
    design = asdict(plan)
    del design["notes"]
    return {**design, "digest": plan.digest, "drawn_units": plan.units, "frame_units": plan.frame_units}


def _attacks(path: Path, checksum: str) -> dict[str, Any]:
    content = _object(path)
    if not isinstance(content.get("exposure"), dict):
        raise ConfigError(f"{path}: not a file of `python -m research exposure GOLD MODEL --out FILE.json`")
    if content.get("model") != checksum:
        raise ConfigError(f"{path}: its attacks were on another model, or on another version of this one")
    return {"model": checksum, "exposure": content["exposure"]}
