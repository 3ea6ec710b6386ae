"""The manifest of a model directory, and the check that its files are the ones that were written."""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ensemble_deid import __version__
from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.keys import SigningKey, TrustedKeys
from ensemble_deid.note.document import Document
from ensemble_deid.parsing import strict_json

FORMAT_VERSION = 6
FILE = "manifest.json"
SIGNATURE = "manifest.sig"
VARIABLE = "ENSEMBLE_DEID_TRUSTED_KEYS"
"""The environment variable that names the file of public keys, by one of which every model must be signed."""
REPLACED = ".ensemble-deid-replaced"
"""The end of the name under which a model stands beside its place while another one is moved there."""
MOST_LABELS = 200
_LONGEST_LABEL = 100
_CHECKSUM = "checksum"
_JUST_NOW = 2_000_000_000
_PURPOSE = "model"
_KINDS: Mapping[str, type] = {
    "labels": list,
    "config": dict,
    "fingerprint": str,
    "dev_fingerprint": str,
    "training": dict,
    "seen_notes": dict,
    "choices": dict,
    "figures": dict,
    "packages": dict,
    "rules_replaced": list,
    "files": dict,
    "format_version": int,
    "ensemble_deid": str,
}
_PACKAGES = ("numpy", "scipy", "scikit-learn", "sklearn-crfsuite", "python-crfsuite", "torch", "pytorch-crf")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a model directory, as JSON in `manifest.json`.

    `fingerprint` is a hash of the training notes, `dev_fingerprint` of the dev notes (empty if there were none);
    `seen_notes` has the digests by which each training note is known again (`model/seen_notes.py`); `choices` tells
    what training and `model threshold` decided beyond the configuration; `figures` holds what was measured on dev
    (strict entity F1 of the ensemble and of each submodel); `rules_replaced` records reviewed rule lists that
    replaced the learned one; `files` gives the SHA-256 of every other file.
    """

    labels: tuple[str, ...]
    config: Mapping[str, Any]
    fingerprint: str
    dev_fingerprint: str
    training: Mapping[str, int]
    seen_notes: Mapping[str, str] = field(default_factory=dict, repr=False)
    choices: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    rules_replaced: tuple[Mapping[str, str], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION
    ensemble_deid: str = __version__

    @property
    def checksum(self) -> str:
        """A SHA-256 over the whole manifest: it reveals an edited manifest, and tells one model from another."""
        return hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode()).hexdigest()

    def to_json(self) -> str:
        """Return the manifest as JSON text, its own checksum at the end."""
        return json.dumps({**self._content(), _CHECKSUM: self.checksum}, indent=1, ensure_ascii=False) + "\n"

    def _content(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}


def installed_packages() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        # Prediction needs fewer than training.
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def fingerprint(documents: Sequence[Document]) -> str:
    """Return a SHA-256 over ids, patients, texts and annotations, whatever the order of the notes."""
    digests = []
    for document in documents:
        keys = sorted(span.key for span in document.spans)
        content = json.dumps([document.id, document.patient_id, document.text, keys], ensure_ascii=True)
        digests.append(hashlib.sha256(content.encode()).hexdigest())
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()


def file_hashes(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a model directory but the manifest and its signature, by name."""
    others = (FILE, SIGNATURE)
    files = sorted(path for path in directory.iterdir() if path.is_file() and path.name not in others)
    return {path.name: _digest(path) for path in files}


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file; each process reads an unchanged file once."""
    status = path.stat()
    if time.time_ns() - status.st_ctime_ns < _JUST_NOW:
        # A later change could fall into the same tick of the file system's clock.
        return _digest_of.__wrapped__(path, ())
    return _digest_of(
        path.absolute(), (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    )


@lru_cache(maxsize=1000)
def _digest_of(path: Path, _identity: tuple[int, ...]) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_manifest(directory: Path, *, trust: str | Path | None = None) -> Manifest:
    """Read and check a model directory's manifest and the hashes of its files.

    With a file of public keys, in `trust` or in the environment (`VARIABLE`), one of them must have signed the model.
    Raises ModelError when the directory is no model, has another format, is incomplete, was edited, or has a file that
    the manifest does not name, and for a missing or wrong signature.
    """
    # An empty name is a mistake, not a choice: no file has it, so that no model is loaded.
    place = os.environ.get(VARIABLE) if trust is None else trust
    manifest = _checked(directory)
    if place is not None:
        signer_of(directory, manifest, place)
    return manifest


def signer_of(directory: Path, manifest: Manifest, trust: str | Path) -> str:
    """Return who signed a model, by name and fingerprint. Raises ModelError unless it is a key of the file `trust`."""
    try:
        trusted = TrustedKeys.from_file(trust)
    except ConfigError as error:
        raise ModelError(str(error)) from None
    path = directory / SIGNATURE
    if not path.is_file():
        raise ModelError(f"{directory}: is not signed, and trusted keys are configured; `model sign` signs it")
    try:
        return trusted.check(path.read_text(encoding="ascii"), _PURPOSE, manifest.checksum.encode("ascii"))
    except (OSError, ValueError):
        raise ModelError(f"{path}: damaged: not a signature") from None
    except ConfigError as error:
        raise ModelError(f"{path}: {error}") from None


def sign_model(directory: Path, key: str | Path) -> None:
    """Sign a model with the private key of a file; an earlier signature is replaced. Raises ConfigError, ModelError."""
    checksum = _checked(directory).checksum.encode("ascii")
    write_text_atomically(directory / SIGNATURE, f"{SigningKey.from_file(key).sign(_PURPOSE, checksum)}\n")


def _checked(directory: Path) -> Manifest:
    """Read and check a manifest and the files that it names."""
    path = directory / FILE
    kept = set_aside(directory)
    if kept.is_dir() and not directory.exists():
        raise ModelError(f"{directory}: the model is not here, since its replacement was interrupted; it is in {kept}")
    if not directory.is_dir():
        raise ModelError(f"{directory}: no such model directory")
    if not path.is_file():
        raise ModelError(f"{directory}: not a model directory (there is no {FILE})")
    content = _read_object(path)
    _check_version(content, path)
    checksum = content.pop(_CHECKSUM, None)
    _check_kinds(content, path)
    content["labels"] = tuple(content["labels"])
    content["rules_replaced"] = tuple(content["rules_replaced"])
    manifest = Manifest(**content)
    if manifest.checksum != checksum:
        raise ModelError(f"{path}: edited since the model was saved")
    _check_files(directory, manifest.files)
    # A file without a checksum must not be read.
    for other in files_not_named(directory, manifest.files):
        raise ModelError(f"{other}: not part of the model (its manifest does not name it): move it away")
    return manifest


def set_aside(directory: Path) -> Path:
    """Return the folder that holds a model while it is replaced."""
    # `.` and `..` have a name only when they are resolved.
    place = directory.resolve() if directory.name in ("", "..") else directory
    return place.parent / f".{place.name}{REPLACED}"


def listed_files(directory: Path) -> frozenset[str]:
    """Return the names of the files that a manifest lists, which may be damaged otherwise. Raises ModelError."""
    files = _read_object(directory / FILE).get("files")
    return frozenset(files if isinstance(files, dict) else ())


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = strict_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: damaged or truncated ({type(error).__name__})") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path}: damaged: not a JSON object")
    return content


def _check_version(content: Mapping[str, Any], path: Path) -> None:
    """Check the version before anything else: another format may have other keys."""
    found = content.get("format_version")
    if type(found) is not int or found < 1:
        raise ModelError(f"{path}: damaged: no format version")
    if found != FORMAT_VERSION:
        remedy = "train the model again" if found < FORMAT_VERSION else "a newer ensemble_deid is needed"
        raise ModelError(
            f"{path}: the model has format {found}, made by ensemble_deid {str(content.get('ensemble_deid'))[:20]}; "
            f"this is {__version__}, which reads format {FORMAT_VERSION}: {remedy}"
        )


def _check_kinds(content: Mapping[str, Any], path: Path) -> None:
    wrong = sorted(set(content) ^ set(_KINDS)) or [k for k, kind in _KINDS.items() if not isinstance(content[k], kind)]
    if wrong:
        raise ModelError(f"{path}: damaged: {wrong[0][:60]!r} is missing, unknown or of the wrong kind")
    labels = content["labels"]
    if not labels or not all(isinstance(label, str) and label for label in labels) or len(set(labels)) < len(labels):
        raise ModelError(f"{path}: damaged: the labels are not distinct names")
    # Time and memory grow with the square of the number of labels.
    if len(labels) > MOST_LABELS or max(map(len, labels)) > _LONGEST_LABEL:
        raise ModelError(
            f"{path}: {len(labels)} labels of up to {max(map(len, labels))} characters; "
            f"{MOST_LABELS} of up to {_LONGEST_LABEL} are possible"
        )


def _check_files(directory: Path, expected: Mapping[str, Any]) -> None:
    for name, digest in expected.items():
        path = directory / name
        if Path(name).name != name or not path.is_file():
            raise ModelError(f"{path}: missing; the model is incomplete")
        if _digest(path) != digest:
            hint = " (a reviewed rule list goes in with `rules replace`)" if path.suffix == ".rules" else ""
            raise ModelError(f"{path}: truncated or edited since the model was saved{hint}")


def files_not_named(directory: Path, named: Iterable[str]) -> list[Path]:
    """Return the files in a model's folder that are not named, in order.

    Hidden files, such as those of file managers, are ignored: no part of a model has such a name.
    """
    own = {FILE, SIGNATURE, PRIVATE, *named}
    return sorted(path for path in directory.iterdir() if path.name not in own and not path.name.startswith("."))


# The folder `private` of a model directory, only for training; an exported model lacks it.
#
# It has the stacker's training set, which `ablate` needs, and the rule lists that others replaced, which
# `rules restore` brings back. Nothing in it is read when notes are processed. Its own manifest gives the SHA-256 of
# each file, and of the final estimator that the files belong to, to detect the folder of another model.


PRIVATE = "private"
"""The folder of a model directory with what only training and ablations need."""
_ANCHOR = "stacker.safetensors"


def write_private_manifest(model: Path) -> None:
    """Write the hashes of the private files as they are now; a model without any gets no folder."""
    folder = model / PRIVATE
    names = sorted(path.name for path in folder.iterdir() if path.name != FILE) if folder.is_dir() else []
    if names:
        content = {"belongs_to": _digest(model / _ANCHOR), "files": {name: _digest(folder / name) for name in names}}
        (folder / FILE).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def private_files(model: Path, *names: str, purpose: str) -> Path:
    """Return the private folder of a model, the named files in it checked; `purpose` says what needs them.

    Raises ModelError where a file is missing, truncated or edited, or goes with another model.
    """
    folder = model / PRIVATE
    known = _hashes(model)
    for name in names:
        if name not in known:
            raise ModelError(
                f"{model}: {purpose} needs {PRIVATE}/{name}, which exported and shareable models lack; "
                "use the model as it was trained"
            )
        path = folder / name
        if not path.is_file():
            raise ModelError(f"{path}: missing; the model's private files are incomplete")
        if _digest(path) != known[name]:
            raise ModelError(f"{path}: truncated or edited since the model was saved")
    return folder


def has_private_file(model: Path, name: str) -> bool:
    """Whether a model has a private file. Raises ModelError for a damaged private manifest."""
    return name in _hashes(model)


def copy_private_files(model: Path, target: Path) -> None:
    """Copy the private files of a model, if it has any, into a copy of it. Raises ModelError for damaged ones."""
    names = _hashes(model)
    if names:
        folder = private_files(model, *names, purpose="a copy")
        (target / PRIVATE).mkdir()
        for name in names:
            shutil.copyfile(folder / name, target / PRIVATE / name)


def _hashes(model: Path) -> dict[str, str]:
    path = model / PRIVATE / FILE
    if not path.is_file():
        return {}
    try:
        content = strict_json(path.read_text(encoding="utf-8"))
        owner, files = str(content["belongs_to"]), {str(name): str(sha) for name, sha in content["files"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelError(f"{path}: damaged ({type(error).__name__})") from None
    if any(Path(name).name != name or name == FILE for name in files):
        raise ModelError(f"{path}: damaged: a file outside the folder")
    if owner != _digest(model / _ANCHOR):
        raise ModelError(f"{path.parent}: the private files of another model")
    return files
