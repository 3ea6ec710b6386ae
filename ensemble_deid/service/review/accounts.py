"""Who may use a review: accounts by name, each with a token of which the store keeps a salted hash.

A store without accounts is open to everyone who reaches the page, under any name.
"""

import hashlib
import hmac
import secrets
import sqlite3
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from ensemble_deid.service.review.records import ADJUDICATION, ReviewError

Role = Literal["reviewer", "adjudicator", "owner"]
ROLES: tuple[Role, ...] = ("reviewer", "adjudicator", "owner")


@dataclass(frozen=True, slots=True)
class Account:
    """A person: a `reviewer` has a layer, an `adjudicator` settles differences, too, and an `owner` may do all."""

    name: str
    role: Role

    @property
    def adjudicates(self) -> bool:
        return self.role != "reviewer"


_acting: ContextVar[Account | None] = ContextVar("acting", default=None)


def acting() -> Account | None:
    """Return the account of the request at hand; None outside of requests, and in a store without accounts."""
    return _acting.get()


def act_as(account: Account | None) -> None:
    """Let the request at hand, and no other, act as an account."""
    _acting.set(account)


def owns() -> bool:
    """Whether the current request may use the owner's functions."""
    account = acting()
    return account is None or account.role == "owner"


def add_account(database: sqlite3.Connection, name: str, role: Role) -> str:
    """Store an account, in place of one of that name, and return its token, which is kept nowhere.

    Raises ReviewError for a name that a reviewer cannot have.
    """
    if not 0 < len(name) <= 40 or not name.isprintable() or name != name.strip() or name == ADJUDICATION:
        raise ReviewError(
            f"a name has 1 to 40 printable characters, no white space around it, and is not {ADJUDICATION}"
        )
    token, salt = secrets.token_urlsafe(24), secrets.token_bytes(16)
    row = (name, role, salt, _hash(token, salt))
    database.execute("INSERT OR REPLACE INTO accounts (name, role, salt, hash) VALUES (?, ?, ?, ?)", row)
    return token


def remove_account(database: sqlite3.Connection, name: str) -> None:
    """Remove an account; its decisions stay.

    Raises ReviewError where there is none, and for the last one: a store without accounts is open to everyone.
    """
    if [account.name for account in read_accounts(database)] == [name]:
        raise ReviewError(f"{name} is the last account, and without any the store is open to everyone")
    if not database.execute("DELETE FROM accounts WHERE name = ?", (name,)).rowcount:
        raise ReviewError(f"there is no account {name}")


def read_accounts(database: sqlite3.Connection) -> list[Account]:
    """Return all accounts in order of their names."""
    return [Account(*row) for row in database.execute("SELECT name, role FROM accounts ORDER BY name")]


def account_of(database: sqlite3.Connection, token: str) -> Account | None:
    """Return the account that has a token, None where none has."""
    found = None
    # All are compared, each in constant time: the time tells nothing of names or tokens.
    for name, role, salt, kept in database.execute("SELECT name, role, salt, hash FROM accounts"):
        if hmac.compare_digest(_hash(token, salt), kept):
            found = Account(name, role)
    return found


def _hash(token: str, salt: bytes) -> bytes:
    # A token has 192 random bits: no slow hash is needed to keep it from being guessed.
    return hashlib.sha256(salt + token.encode("utf-8", "surrogatepass")).digest()
