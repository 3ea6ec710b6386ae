"""Where torch computes, with how many threads, with which algorithms, and whether weights are those of a network."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ensemble_deid.errors import ConfigError
from ensemble_deid.reproducible import INSTRUCTION_SET, is_pinned


@contextmanager
def torch_on_one_thread() -> Iterator[None]:
    """Keep torch to one thread: several processes each with several threads slow each other down.

    In a pinned process (`reproducible.py`) algorithms whose results vary are refused too; ConfigError where torch could
    not be pinned.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    if is_pinned():
        _pin_algorithms()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _pin_algorithms() -> None:
    used = torch.backends.cpu.get_cpu_capability()
    if used != INSTRUCTION_SET:
        raise ConfigError(f"--reproducible: torch uses {used}, not {INSTRUCTION_SET}: the processor may not have it")
    torch.use_deterministic_algorithms(True)


class _WithoutRandomValues(TorchFunctionMode):
    """Leave random values away where there is no memory for them: torch would load its compiler to draw them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        return given["tensor"] if func is torch.nn.init.normal_ else func(*args, **given)


def check_weights(make_network: Callable[[], torch.nn.Module], weights: Mapping[str, torch.Tensor]) -> None:
    """Raise ValueError unless the weights are finite, and have the names and shapes of the network's.

    The network is made without memory for this: the sizes in a forged model could ask for any amount of it, the
    weights are no larger than their file.
    """
    with torch.device("meta"), _WithoutRandomValues():
        expected = {name: value.shape for name, value in make_network().state_dict().items()}
    if expected != {name: value.shape for name, value in weights.items()}:
        raise ValueError("the weights are those of another network")
    if not all(bool(torch.isfinite(value).all()) for value in weights.values() if value.is_floating_point()):
        raise ValueError("a weight is not a number")


def choose_device(name: str) -> torch.device:
    """Return the device for `auto`, `cpu` or `cuda`. Raises ConfigError when there is no GPU for `cuda`.

    A pinned process (`reproducible.py`) computes on the CPU: what a GPU computes depends on its kind.
    """
    if is_pinned():
        if name == "cuda":
            raise ConfigError("--reproducible computes on the CPU; leave out the device cuda")
        return torch.device("cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device cuda was asked for, and torch sees no GPU here; use auto or cpu")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


def described(kind: str, device: torch.device) -> str:
    """Return a kind of arithmetic with the device, and the instruction set where the process is tied to one."""
    return f"{kind}, {device.type}{f', {INSTRUCTION_SET}' if is_pinned() else ''}"
