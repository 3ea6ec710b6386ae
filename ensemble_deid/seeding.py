"""One seed for the run, one independent stream for each named use, whatever else is drawn before it."""

import hashlib

import numpy as np


def derive_seed(seed: int, name: str) -> int:
    """Return a 32-bit seed that depends on `seed` and `name` alone."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def generator(seed: int, name: str) -> np.random.Generator:
    """Return the numpy generator of the stream `name`."""
    return np.random.default_rng(derive_seed(seed, name))
