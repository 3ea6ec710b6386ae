"""Tokens and what each may ask for.

`predict` finds PHI and replaces it by tags and the like, which depend on the text alone. `replace` also asks for
surrogates and hashes, which depend on the service's key: with them a client learns by how much a patient's dates are
shifted. `known` also has the site's lists applied: with them a client learns whose name they hold.
"""

import hmac
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.corpora.checks import read_utf8
from ensemble_deid.errors import ConfigError
from ensemble_deid.service.refusal import Refused

PREDICT, REPLACE, KNOWN = SCOPES = ("predict", "replace", "known")
_SHORTEST = 16
_granted: ContextVar[frozenset[str]] = ContextVar("granted", default=frozenset(SCOPES))


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens with their scopes; without any, every request has all scopes. Raises ConfigError for a token too short."""

    scopes: Mapping[str, frozenset[str]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not all(len(token) >= _SHORTEST and token.isascii() for token in self.scopes):
            raise ConfigError(f"a token needs at least {_SHORTEST} ASCII characters")

    def __bool__(self) -> bool:
        return bool(self.scopes)

    @classmethod
    def of(cls, token: str | None, file: Path | None = None) -> "Tokens":
        """Return a token that may ask for everything, and those of a file: on each line a token and its scopes.

        Raises ConfigError, which quotes no token, and CorpusError where the file cannot be read.
        """
        found = {} if token is None else {token: frozenset(SCOPES)}
        for number, line in enumerate(read_utf8(file).splitlines() if file is not None else (), start=1):
            secret, *scopes = line.split()[:10] or [""]
            if not secret or secret.startswith("#"):
                continue
            if PREDICT not in scopes or not set(scopes) <= set(SCOPES):
                raise ConfigError(f"{file}:{number}: expected TOKEN predict [replace] [known]")
            if secret in found:
                raise ConfigError(f"{file}:{number}: the token occurs twice")
            found[secret] = frozenset(scopes)
        if file is not None and len(found) == (token is not None):
            raise ConfigError(f"{file}: has no token")
        try:
            return cls(found)
        except ConfigError as error:
            raise ConfigError(f"{file}: {error}" if file is not None else str(error)) from None

    def check(self, header: bytes) -> None:
        """Grant the request the scopes of its token. Raises Refused (401) where it has no valid one."""
        if not self.scopes:
            return
        scheme, _, secret = header.partition(b" ")
        # The time of these comparisons tells neither how much of a wrong token is right nor which token it resembles.
        fits = [scopes for token, scopes in self.scopes.items() if hmac.compare_digest(secret.strip(), token.encode())]
        if not fits or scheme.lower() != b"bearer":
            raise Refused(401, "a valid token is needed: Authorization: Bearer TOKEN", close=True)
        _granted.set(fits[0])


def may(scope: str) -> bool:
    """Tell whether the request at hand has a scope."""
    return scope in _granted.get()


def require(scope: str, what: str) -> None:
    """Raise Refused (403) where the request at hand lacks a scope."""
    if not may(scope):
        raise Refused(403, f"{what}: the token lacks the scope {scope}")
