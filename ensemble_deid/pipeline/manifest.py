"""What a model directory says of itself, and the check that its files are the ones that were written."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ensemble_deid import __version__
from ensemble_deid.errors import ModelError
from ensemble_deid.text.document import Document

FORMAT_VERSION = 1
FILE = "manifest.json"
_PACKAGES = ("numpy", "scipy", "scikit-learn", "sklearn-crfsuite", "python-crfsuite", "torch", "pytorch-crf")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a model directory, as JSON in `manifest.json`.

    `fingerprint` is a hash of the training notes; `figures` holds what was measured on dev (strict entity F1 of the
    ensemble and of each submodel); `rules_replaced` records reviewed rule lists put in by hand; `files` gives the
    SHA-256 of every other file.
    """

    labels: tuple[str, ...]
    config: Mapping[str, Any]
    fingerprint: str
    training: Mapping[str, int]
    figures: Mapping[str, Any] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    rules_replaced: tuple[Mapping[str, str], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION
    ensemble_deid: str = __version__

    def to_json(self) -> str:
        """Return the manifest as JSON text."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def installed_packages() -> dict[str, str]:
    """Return the versions of the libraries that shape a model."""
    return {name: version(name) for name in _PACKAGES}


def fingerprint(documents: Sequence[Document]) -> str:
    """Return a SHA-256 over ids, patients, texts and annotations, whatever the order of the notes."""
    digests = []
    for document in documents:
        keys = sorted(span.key for span in document.spans)
        content = json.dumps([document.id, document.patient_id, document.text, keys], ensure_ascii=True)
        digests.append(hashlib.sha256(content.encode()).hexdigest())
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()


def file_hashes(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a model directory but the manifest, by relative name."""
    files = sorted(p for p in directory.rglob("*") if p.is_file() and p.name != FILE)
    return {str(p.relative_to(directory)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def read_manifest(directory: Path) -> Manifest:
    """Read and check a model directory's manifest and the hashes of its files.

    Raises ModelError when the directory is no model, was made by a newer version, is incomplete, or was edited.
    """
    path = directory / FILE
    if not directory.is_dir():
        raise ModelError(f"{directory}: no such model directory")
    if not path.is_file():
        raise ModelError(f"{directory}: not a model directory (there is no {FILE})")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise TypeError
        found = content["format_version"]
        if not isinstance(found, int):
            raise TypeError
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path}: damaged ({type(error).__name__})") from None
    if found > FORMAT_VERSION:
        raise ModelError(
            f"{path}: the model has format {found}, made by ensemble_deid {content.get('ensemble_deid')}; "
            f"this is {__version__}, which reads formats up to {FORMAT_VERSION}"
        )
    try:
        content["labels"] = tuple(content["labels"])
        content["rules_replaced"] = tuple(content["rules_replaced"])
        manifest = Manifest(**content)
    except (KeyError, TypeError) as error:
        raise ModelError(f"{path}: damaged ({type(error).__name__})") from None
    _check_files(directory, manifest.files)
    return manifest


def _check_files(directory: Path, expected: Mapping[str, str]) -> None:
    for name, digest in expected.items():
        path = directory / name
        if not path.is_file():
            raise ModelError(f"{path}: missing; the model is incomplete")
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            hint = " (a reviewed rule list goes in with `rules replace`)" if path.suffix == ".rules" else ""
            raise ModelError(f"{path}: truncated or edited since the model was saved{hint}")
