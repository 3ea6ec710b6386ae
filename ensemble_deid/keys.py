"""The secret key of a site: it decides every surrogate, hash and pseudonym.

A key is 256 random bits, written `ensemble-deid-key-` with 64 hexadecimal digits, `-` and a checksum of eight. A key
file holds one in each line, as `KEY` or `ID: KEY`; empty lines and lines that begin with `#` do not count. An ID has up
to 40 letters, digits and `_.-`. The first key is used. To rotate, put the new key above the old ones: they stay, by id,
for redoing old runs.

No error quotes a key, or what was given in its place: a file is named only where there is such a file.
"""

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ensemble_deid.atomic import write_new_private_file, write_text_atomically
from ensemble_deid.errors import ConfigError, needs_extra
from ensemble_deid.parsing import read_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


VARIABLE = "ENSEMBLE_DEID_KEY"
"""The environment variable that holds a key (not the name of a file)."""

_BYTES = 32
_LEAST_DISTINCT = 16
_PRINTABLE = range(0x20, 0x7F)
_LARGEST_FILE = 1 << 16
_MARK = "ensemble-deid-key-"
_KEY = re.compile(rf"{_MARK}(?P<secret>[0-9a-f]{{64}})-(?P<checksum>[0-9a-f]{{8}})")
_NAME = re.compile(r"(?P<name>[\w.-]{1,40}):[ \t]+")
_HOW = "`ensemble-deid keygen FILE` makes one"


@dataclass(frozen=True, slots=True)
class Key:
    """A secret of 32 random bytes, which is in no repr.

    `throwaway` is true for a key that nobody kept: what it made cannot be made again. Raises ConfigError for anything
    that is not random: another length, text, few distinct bytes.
    """

    secret: bytes = field(repr=False)
    throwaway: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.secret, bytes):
            raise ConfigError(f"a key is made of bytes, not of {type(self.secret).__name__}; Key.from_text reads text")
        if len(self.secret) != _BYTES:
            raise ConfigError(f"a key has {_BYTES} random bytes, not {len(self.secret)}; {_HOW}")
        # Of random bytes fewer than one in 10**13 would be refused.
        if len(set(self.secret)) < _LEAST_DISTINCT or all(byte in _PRINTABLE for byte in self.secret):
            raise ConfigError(f"the key is not random; {_HOW}")

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits that tell keys apart and reveal nothing else: for manifests."""
        return self.fingerprint("key id", b"")[:12]

    @property
    def text(self) -> str:
        """The key as a key file has it: keep it secret."""
        return f"{_MARK}{self.secret.hex()}-{_checksum(self.secret)}"

    def fingerprint(self, purpose: str, content: bytes) -> str:
        """Return an HMAC-SHA256 by which content is known again, and which tells nothing of it without the key."""
        return hmac.new(self.secret, f"ensemble_deid {purpose}\n".encode() + content, hashlib.sha256).hexdigest()

    @classmethod
    def from_text(cls, text: str) -> "Key":
        """Return the key written in a text. Raises ConfigError, without quoting it."""
        match = _KEY.fullmatch(text.strip())
        if match is None:
            raise ConfigError(f"not a key; {_HOW}")
        secret = bytes.fromhex(match["secret"])
        if not hmac.compare_digest(match["checksum"], _checksum(secret)):
            raise ConfigError("the key is damaged: its checksum is another one")
        return cls(secret)

    @classmethod
    def from_file(cls, path: str | Path, *, name: str | None = None) -> "Key":
        """Return the first key of a file, or the one called `name`. Raises ConfigError, without quoting the file."""
        named = [key for known, key in _read_keys(path) if name in (None, known)]
        if not named:
            raise ConfigError(f"{path}: holds no key called {name!r}")
        return named[0]

    @classmethod
    def fresh(cls) -> "Key":
        """Return a new random key, which exists in this process only."""
        return cls(secrets.token_bytes(_BYTES), throwaway=True)

    @classmethod
    def find(cls, given: str | Path | None = None) -> "Key":
        """Return the key that is given as text or in a file, else that of the environment, else a fresh one.

        Raises ConfigError, which quotes none of them.
        """
        if given is not None:
            return cls.from_text(str(given)) if _KEY.fullmatch(str(given)) else cls.from_file(given)
        text = os.environ.get(VARIABLE)
        if text is None:
            return cls.fresh()
        try:
            return cls.from_text(text)
        except ConfigError as error:
            raise ConfigError(f"{VARIABLE}: {error}; the variable holds the key itself, not a file's name") from None


def make_key_file(path: Path) -> Key:
    """Write a new key to a new file that only its owner may read. Raises ConfigError where there is a file already."""
    key = Key.fresh()
    try:
        write_new_private_file(path, f"{key.text}\n".encode("ascii"))
    except FileExistsError:
        raise ConfigError(f"{path}: there is such a file already, and no key is ever overwritten") from None
    return key


def salted_digest(salt: str, kind: str, content: str) -> str:
    """Return sixteen digits by which content is known again; a table of digests made without the salt is of no use."""
    return hashlib.sha256(f"{salt}:{kind}:".encode() + content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _checksum(secret: bytes) -> str:
    return hashlib.sha256(b"ensemble_deid key checksum\n" + secret).hexdigest()[:8]


def _read_keys(path: str | Path) -> list[tuple[str | None, Key]]:
    """Return the keys of a file with their names. Raises ConfigError where any line holds something else."""
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        # It may be a key, or a pass phrase, that was taken for the name of a file.
        place = f"{path}: " if isinstance(error, IsADirectoryError | PermissionError) else ""
        raise ConfigError(f"{place}the key file cannot be read ({type(error).__name__}); {_HOW}") from None
    if len(data) > _LARGEST_FILE or not data.isascii():
        raise ConfigError(f"{path}: not a key file; {_HOW}")
    keys: list[tuple[str | None, Key]] = []
    for number, line in enumerate(data.decode("ascii").splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name = _NAME.match(text)
        try:
            keys.append((name["name"] if name else None, Key.from_text(text[name.end() :] if name else text)))
        except ConfigError as error:
            raise ConfigError(f"{path}, line {number}: {error}") from None
    if not keys:
        raise ConfigError(f"{path}: holds no key; {_HOW}")
    return keys


# Ed25519 signatures of models and release records: only the private key signs, and its public half verifies.
#
# `keygen --signing` writes the private key as PKCS 8 in PEM, for its owner alone, and beside it the public one as the
# line `NAME: ed25519 HEX`. A file of trusted keys has such lines. A signature is the line `ed25519 HEX HEX`: the public
# key and the signature. It is valid only under a key of the file: anyone can make a key.

PUBLIC_SUFFIX = ".pub"
"""What the name of the public key's file has at its end."""
_SIGNATURE = re.compile(r"ed25519 (?P<public>[0-9a-f]{64}) (?P<signature>[0-9a-f]{128})\n?")
_PUBLIC = re.compile(r"(?P<name>[\w.-]{1,40}):[ \t]+ed25519 (?P<public>[0-9a-f]{64})")
_HOW_TO_SIGN = "`ensemble-deid keygen FILE --signing` makes a pair"


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
        with needs_extra("signing", "a signature"):
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        key: object
        try:
            key = load_pem_private_key(Path(path).read_bytes(), password=None)
        except OSError as error:
            raise ConfigError(f"{path}: the signing key cannot be read: {error.strerror}") from None
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigError(f"{path}: not a private key for signing; {_HOW_TO_SIGN}")
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
    with needs_extra("signing", "a signature"):
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
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
                raise ConfigError(f"{path}, line {number}: not a public key, `NAME: ed25519 HEX`; {_HOW_TO_SIGN}")
            names[match["public"]] = match["name"]
        if not names:
            raise ConfigError(f"{path}: holds no public key; {_HOW_TO_SIGN}")
        return cls(str(path), names)

    def check(self, signature: str, purpose: str, content: bytes) -> str:
        """Return the signer's name and fingerprint. Raises ConfigError for anything but a trusted, valid signature."""
        with needs_extra("signing", "a signature"):
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
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
