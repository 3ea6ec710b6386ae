"""Where networks compute, with how many threads and which algorithms: torch is loaded only where it is needed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ensemble_deid.errors import ConfigError, needs_extra
from ensemble_deid.reproducible import INSTRUCTION_SET, is_pinned

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


@contextmanager
def torch_on_one_thread() -> Iterator[None]:
    """Keep torch to one thread: several processes each with several threads slow each other down.

    In a pinned process (`reproducible.py`) algorithms whose results vary are refused too; ConfigError where torch could
    not be pinned.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    if is_pinned():
        _pin_algorithms()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _pin_algorithms() -> None:
    import torch

    used = torch.backends.cpu.get_cpu_capability()
    if used != INSTRUCTION_SET:
        raise ConfigError(f"--reproducible: torch uses {used}, not {INSTRUCTION_SET}: the processor may not have it")
    torch.use_deterministic_algorithms(True)


def choose_device(name: str) -> "torch.device":
    """Return the device to train on for `auto`, `cpu` or `cuda`. Raises ConfigError when there is no GPU for `cuda`.

    A pinned process (`reproducible.py`) computes on the CPU: what a GPU computes depends on its kind.
    """
    with needs_extra("train", "training a network, or a GPU,"):
        import torch

    if is_pinned():
        if name == "cuda":
            raise ConfigError("--reproducible computes on the CPU; leave out the device cuda")
        return torch.device("cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device cuda was asked for, and torch sees no GPU here; use auto or cpu")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


def wants_gpu(name: str) -> bool:
    """Return whether to predict on a GPU: only for `cuda`, so that `auto` finds the same with and without torch.

    Raises ConfigError when there is no GPU, or no torch.
    """
    return name == "cuda" and choose_device(name).type == "cuda"


def bfloat16_helps(device: "torch.device") -> bool:
    """Return whether the hardware has bfloat16 matrix units: a GPU, AMX, or AVX-512.

    Not in a pinned process (`reproducible.py`): other processors would train another model.
    """
    import torch

    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return not is_pinned() and bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())


def network_in_bfloat16(device: "torch.device") -> bool:
    """Return whether the submodel `neural` trains in bfloat16: on a GPU alone, and not in recurrent layers."""
    return device.type == "cuda" and bfloat16_helps(device)


def to_device(array: "NDArray[Any]", device: "torch.device") -> "torch.Tensor":
    """Return an array on a device; copies to a GPU are asynchronous."""
    import torch

    tensor = torch.from_numpy(array)
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def described(kind: str, device: object) -> str:
    """Return a kind of arithmetic with the device, and the instruction set where the process is tied to one."""
    return f"{kind}, {device}{f', {INSTRUCTION_SET}' if is_pinned() else ''}"
