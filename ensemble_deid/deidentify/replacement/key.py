"""The secret that decides every surrogate, hash and pseudonym, so that no table of real names has to be kept.

A key file is text. Each line is one key, `ID: SECRET` or, without a colon, `SECRET` alone; empty lines and lines that
begin with `#` do not count. An ID has up to 40 letters, digits and `_.-`, and a blank after its colon. The first
key is used. To rotate, put the new key above the old ones: they stay, by id, for redoing old runs.
"""

import hashlib
import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.errors import ConfigError

VARIABLE = "ENSEMBLE_DEID_KEY"
"""The environment variable that holds the secret (not the name of a file)."""

_LEAST_BYTES = 16
_NAMED = re.compile(r"(?P<id>[\w.-]{1,40}):[ \t]+(?P<secret>.+)")
_ID_DOMAIN = b"ensemble_deid key id\n"


@dataclass(frozen=True, slots=True)
class Key:
    """A secret of at least 16 bytes, which is in no repr.

    `throwaway` is true for a key that nobody kept: what it made cannot be made again.
    """

    secret: bytes = field(repr=False)
    throwaway: bool = False

    def __post_init__(self) -> None:
        if len(self.secret) < _LEAST_BYTES:
            raise ConfigError(f"the key has {len(self.secret)} bytes; at least {_LEAST_BYTES} are needed")

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits that tell keys apart and reveal nothing else: for manifests."""
        return hashlib.sha256(_ID_DOMAIN + self.secret).hexdigest()[:12]

    @classmethod
    def from_file(cls, path: str | Path, *, name: str | None = None) -> "Key":
        """Return the first key of a file, or the one called `name`. Raises ConfigError, without quoting the file."""
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: the key file cannot be read ({type(error).__name__})") from None
        for number, line in enumerate(lines, start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            named = _NAMED.fullmatch(line.strip())
            if named is None and ":" in line:
                # It could be read as a secret with a colon in it, or as a name and a secret.
                raise ConfigError(f"{path}, line {number}: a key with a colon in it must be written `ID: SECRET`")
            if name is not None and (named is None or named["id"] != name):
                continue
            try:
                return cls((named["secret"] if named else line.strip()).encode())
            except ConfigError as error:
                raise ConfigError(f"{path}, line {number}: {error}") from None
        wanted = "it holds no key" if name is None else f"it holds no key called {name!r}"
        raise ConfigError(f"{path}: {wanted}")

    @classmethod
    def fresh(cls) -> "Key":
        """Return a new random key, which exists in this process only."""
        return cls(secrets.token_bytes(32), throwaway=True)

    @classmethod
    def find(cls, path: str | Path | None = None) -> "Key":
        """Return the key of the file, else that of the environment, else a fresh one. Raises as `from_file`."""
        if path is not None:
            return cls.from_file(path)
        given = os.environ.get(VARIABLE)
        if given is None:
            return cls.fresh()
        try:
            return cls(given.strip().encode())
        except ConfigError as error:
            raise ConfigError(f"{VARIABLE}: {error}") from None
