"""Signing a model with a key of the site: who can load it then knows who made it, and that nobody changed it.

The signature is HMAC-SHA256 over the manifest's checksum, which covers the whole manifest, and with it the hash of
every file but the private ones. It stands in `manifest.hmac` beside the manifest. HMAC has one key for both sides:
whoever can verify can also sign, so the key is for machines of one site, not for the public.
"""

import hashlib
import hmac
import os
import re
from pathlib import Path

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.keys import Key

FILE = "manifest.hmac"
VARIABLE = "ENSEMBLE_DEID_MODEL_KEY_FILE"
"""The environment variable that names the key file with which every model must be signed."""

_DOMAIN = b"ensemble_deid model manifest\n"
_LINE = re.compile(r"hmac-sha256 ([0-9a-f]{64})\n")


def key_of(path: str | Path) -> bytes:
    """Return the key of a file (`ensemble_deid.keys`). Raises ModelError for anything else."""
    try:
        return Key.from_file(path).secret
    except ConfigError as error:
        raise ModelError(str(error)) from None


def configured_key() -> bytes | None:
    """Return the key of the file that the environment names, None where it names none. Raises as `key_of`."""
    path = os.environ.get(VARIABLE)
    # An empty name is a mistake, not a choice: no file has it, so that no model is loaded.
    return None if path is None else key_of(path)


def write_signature(model: Path, checksum: str, key: bytes) -> None:
    """Sign a manifest with this checksum."""
    write_text_atomically(model / FILE, f"hmac-sha256 {_digest(checksum, key)}\n")


def check_signature(model: Path, checksum: str, key: bytes) -> None:
    """Raise ModelError where a manifest with this checksum is unsigned, or was signed with another key."""
    path = model / FILE
    if not path.is_file():
        raise ModelError(f"{model}: is not signed, and a key is configured; `ensemble-deid model sign` signs it")
    try:
        match = _LINE.fullmatch(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        match = None
    if match is None:
        raise ModelError(f"{path}: damaged: not a signature")
    if not hmac.compare_digest(match[1], _digest(checksum, key)):
        raise ModelError(f"{path}: wrong: the model was signed with another key, or changed since")


def _digest(checksum: str, key: bytes) -> str:
    return hmac.new(key, _DOMAIN + checksum.encode("ascii"), hashlib.sha256).hexdigest()
