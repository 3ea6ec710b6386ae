"""Where torch computes, and with how many threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ensemble_deid.errors import ConfigError


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch to one thread: several processes each with several threads slow each other down."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def choose_device(name: str) -> torch.device:
    """Return the device for `auto`, `cpu` or `cuda`. Raises ConfigError when there is no GPU for `cuda`."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device cuda was asked for, and torch sees no GPU here; use auto or cpu")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)
