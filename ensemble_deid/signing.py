"""Ed25519 signatures of models and release records: only the private key signs, and its public half verifies.

`keygen --signing` writes the private key as PKCS 8 in PEM, for its owner alone, and beside it the public one as the
line `NAME: ed25519 HEX`. A file of trusted keys has such lines. A signature is the line `ed25519 HEX HEX`: the public
key and the signature. It is valid only under a key of the file: anyone can make a key.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ensemble_deid.atomic import write_new_private_file, write_text_atomically
from ensemble_deid.errors import ConfigError
from ensemble_deid.parsing import read_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PUBLIC_SUFFIX = ".pub"
"""What the name of the public key's file has at its end."""
_SIGNATURE = re.compile(r"ed25519 (?P<public>[0-9a-f]{64}) (?P<signature>[0-9a-f]{128})\n?")
_PUBLIC = re.compile(r"(?P<name>[\w.-]{1,40}):[ \t]+ed25519 (?P<public>[0-9a-f]{64})")
_HOW = "`ensemble-deid keygen FILE --signing` makes a pair"
_EXTRA = "signatures need an extra: pip install 'ensemble_deid[signing]'"


def key_fingerprint(public: str) -> str:
    """Return sixteen digits by which two people compare a public key."""
    return hashlib.sha256(bytes.fromhex(public)).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key, which is in no repr."""

    _key: "Ed25519PrivateKey" = field(repr=False)

    @classmethod
    def from_file(cls, path: str | Path) -> "SigningKey":
        """Read a private key. Raises ConfigError, without quoting the file."""
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError:
            raise ConfigError(_EXTRA) from None
        key: object
        try:
            key = load_pem_private_key(Path(path).read_bytes(), password=None)
        except OSError as error:
            raise ConfigError(f"{path}: the signing key cannot be read: {error.strerror}") from None
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigError(f"{path}: not a private key for signing; {_HOW}")
        return cls(key)

    @property
    def public(self) -> str:
        """The public key, in hexadecimal digits."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, purpose: str, content: bytes) -> str:
        """Return the signature of some content, which is valid for this purpose only."""
        return f"ed25519 {self.public} {self._key.sign(_message(purpose, content)).hex()}"


def make_signing_key(path: Path) -> SigningKey:
    """Write a new pair: the private key to `path`, the public one beside it. Raises ConfigError where either exists."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        raise ConfigError(_EXTRA) from None
    beside = path.with_name(path.name + PUBLIC_SUFFIX)
    made = Ed25519PrivateKey.generate()
    pem = made.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for place in (beside, path):
        if place.exists():
            raise ConfigError(f"{place}: there is such a file already, and no key is ever overwritten")
    write_new_private_file(path, pem)
    key = SigningKey(made)
    name = re.sub(r"[^\w.-]", "-", path.stem)[:40]
    write_text_atomically(beside, f"{name}: ed25519 {key.public}\n")
    return key


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """The public keys that a site trusts, with their names."""

    place: str
    names: Mapping[str, str]

    @classmethod
    def from_file(cls, path: str | Path) -> "TrustedKeys":
        """Read a file of public keys, one a line; `#` begins a comment line. Raises ConfigError for any other line."""
        names: dict[str, str] = {}
        for number, line in enumerate(read_text(Path(path), ConfigError).splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            match = _PUBLIC.fullmatch(line.strip())
            if match is None:
                raise ConfigError(f"{path}, line {number}: not a public key, `NAME: ed25519 HEX`; {_HOW}")
            names[match["public"]] = match["name"]
        if not names:
            raise ConfigError(f"{path}: holds no public key; {_HOW}")
        return cls(str(path), names)

    def check(self, signature: str, purpose: str, content: bytes) -> str:
        """Return the signer's name and fingerprint. Raises ConfigError for anything but a trusted, valid signature."""
        try:
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        except ImportError:
            raise ConfigError(_EXTRA) from None
        match = _SIGNATURE.fullmatch(signature)
        if match is None:
            raise ConfigError("damaged: not a signature")
        public = match["public"]
        # First, since a signature by a weak key (all zeros) is valid for one message in four.
        if public not in self.names:
            raise ConfigError(f"signed with the key {key_fingerprint(public)}, which {self.place} does not list")
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
            key.verify(bytes.fromhex(match["signature"]), _message(purpose, content))
        except (InvalidSignature, ValueError):
            raise ConfigError("the signature is not valid: it was forged, or what it signs was changed since") from None
        return f"{self.names[public]} ({key_fingerprint(public)})"


def _message(purpose: str, content: bytes) -> bytes:
    return f"ensemble_deid {purpose}\n".encode("ascii") + content
