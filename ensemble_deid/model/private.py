"""What a model directory keeps for training's own use: the folder `private`, which an exported model lacks.

It has the stacker's training set, which `ablate` needs, and the rule lists that others replaced, which `rules restore`
brings back. Nothing in it is read when notes are processed. Its own manifest gives the SHA-256 of each file, and of the
final estimator that the files go with, so that the folder of another model is noticed.
"""

import hashlib
import json
import shutil
from pathlib import Path

from ensemble_deid.errors import ModelError
from ensemble_deid.parsing import strict_json

FOLDER, FILE = "private", "manifest.json"
_ANCHOR = "stacker.safetensors"


def write_private_manifest(model: Path) -> None:
    """Write the hashes of the private files as they are now; a model without any gets no folder."""
    folder = model / FOLDER
    names = sorted(path.name for path in folder.iterdir() if path.name != FILE) if folder.is_dir() else []
    if names:
        content = {"belongs_to": _sha256(model / _ANCHOR), "files": {name: _sha256(folder / name) for name in names}}
        (folder / FILE).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def private_files(model: Path, *names: str, purpose: str) -> Path:
    """Return the private folder of a model, the named files in it checked; `purpose` says what needs them.

    Raises ModelError where a file is missing, truncated or edited, or goes with another model.
    """
    folder = model / FOLDER
    known = _hashes(model)
    for name in names:
        if name not in known:
            raise ModelError(
                f"{model}: {purpose} needs {FOLDER}/{name}, which exported and shareable models lack; "
                "use the model as it was trained"
            )
        path = folder / name
        if not path.is_file():
            raise ModelError(f"{path}: missing; the model's private files are incomplete")
        if _sha256(path) != known[name]:
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
        (target / FOLDER).mkdir()
        for name in names:
            shutil.copyfile(folder / name, target / FOLDER / name)


def _hashes(model: Path) -> dict[str, str]:
    """Return the SHA-256 of each private file by name."""
    path = model / FOLDER / FILE
    if not path.is_file():
        return {}
    try:
        content = strict_json(path.read_text(encoding="utf-8"))
        owner, files = str(content["belongs_to"]), {str(name): str(sha) for name, sha in content["files"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelError(f"{path}: damaged ({type(error).__name__})") from None
    if any(Path(name).name != name or name == FILE for name in files):
        raise ModelError(f"{path}: damaged: a file outside the folder")
    if owner != _sha256(model / _ANCHOR):
        raise ModelError(f"{path.parent}: the private files of another model")
    return files


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
