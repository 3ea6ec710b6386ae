"""What a service is started with, and what is refused before it starts."""

import ipaddress
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.deidentify.gate import LEAST_RECALL, check_least_recall
from ensemble_deid.deidentify.options import RunChoices
from ensemble_deid.deidentify.replacement import Key
from ensemble_deid.errors import ConfigError
from ensemble_deid.service.tokens import Tokens

TOKEN_VARIABLE = "ENSEMBLE_DEID_TOKEN"  # noqa: S105 (the name of the variable, not a token)
ENTITIES = ("presidio", "own")


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The options of `ensemble-deid serve`; worker processes receive a copy.

    `max_body` is in bytes, `time_limit` in seconds, `queue` the number of requests that one worker accepts at a time,
    `together` how many waiting notes it reads at once. `arrival_limit` is the seconds that a body has to arrive, and
    that the lines of a batch may keep the service waiting. `entities` says which names `/analyze` uses: Presidio's, or
    the model's own labels. `submodels` are those that are loaded, None for all. `choices` are the arguments of
    `RunOptions.choose`; without a `key` among them, all workers share a new one. Raises ConfigError.
    """

    model: Path
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    device: str | None = None
    submodels: tuple[str, ...] | None = None
    max_body: int = 1_000_000
    time_limit: float = 30.0
    arrival_limit: float = 10.0
    queue: int = 64
    together: int = 16
    entities: str = ENTITIES[0]
    tokens: Tokens = field(default_factory=Tokens)
    choices: RunChoices = field(default_factory=RunChoices, repr=False)

    def __post_init__(self) -> None:
        key = self.choices.get("key")
        key = key if isinstance(key, Key) else Key.find(key)
        object.__setattr__(self, "choices", {**self.choices, "key": key})
        check_least_recall(self.choices.get("least_recall", LEAST_RECALL))
        for name, least in (("workers", 1), ("max_body", 1), ("queue", 1), ("together", 1), ("port", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if self.port > 65535:
            raise ConfigError(f"port must be at most 65535, not {self.port}")
        for name in ("time_limit", "arrival_limit"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} must be a positive number of seconds, not {getattr(self, name)}")
        if self.entities not in ENTITIES:
            raise ConfigError(f"entities must be one of {', '.join(ENTITIES)}, not {self.entities}")
        if not self.tokens and not is_loopback(self.host):
            raise ConfigError(
                f"{self.host} can be reached from other machines: set {TOKEN_VARIABLE} to a secret that clients send"
            )


def tokens_from_environment(file: Path | None = None) -> Tokens:
    """Return the token of the environment, which may ask for everything, and those of a file. Raises ConfigError."""
    token = (os.environ.get(TOKEN_VARIABLE) or "").strip() or None
    try:
        return Tokens.of(token, file)
    except ConfigError as error:
        raise error if file is not None else ConfigError(f"{TOKEN_VARIABLE}: {error}") from None


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address leads to this machine alone. Raises ConfigError for an unknown name."""
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        raise ConfigError(f"--host {host}: unknown host") from None
    # A link-local address may carry its interface: fe80::1%eth0.
    return all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in found)
