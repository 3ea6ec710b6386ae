"""Keys for tests: one for each name, the same in every run."""

import hashlib

from ensemble_deid.keys import Key


def made_key(name: str = "") -> Key:
    """Return the key of a name."""
    return Key(hashlib.sha256(f"a key for tests {name}".encode()).digest())


KEY = made_key()
