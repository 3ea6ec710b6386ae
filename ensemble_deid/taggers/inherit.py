"""What the networks share in training: a seed, an epoch, and a warm start from the weights of a trained network."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from ensemble_deid.seeds import derive_seed
from ensemble_deid.taggers.device import torch_on_one_thread
from ensemble_deid.taggers.layers import Weights, single

Names = Sequence[str]
Axis = tuple[Names, Names] | None
"""What the indexes along an axis stand for in the new network and in the old one; None: the same in both."""


@contextmanager
def seeded(device: torch.device, seed: int, purpose: str) -> Iterator[None]:
    """Seed torch's random numbers and use one thread until the block ends; then torch's own state is back."""
    with torch_on_one_thread(), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(derive_seed(seed, purpose))
        yield


def train_epoch(
    network: nn.Module,
    losses: Iterable[torch.Tensor],
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    *,
    clip: float,
) -> float:
    """Take one optimizer step for each loss, with gradients clipped to the norm `clip`; return the mean loss."""
    network.train()
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    # Summed on the device: reading it would synchronise at every step.
    total, steps = torch.zeros((), dtype=torch.float64, device=trained[0].device), 0
    for loss in losses:
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(trained, clip)
        optimizer.step()
        schedule.step()
        total += loss.detach()
        steps += 1
    return float(total) / max(1, steps)


def inherit_weights(network: nn.Module, start: Weights, *, axes: Mapping[str, tuple[Axis, ...]]) -> str:
    """Copy the weights of `start` into `network` in place; return how many of its arrays were taken over, as text.

    `axes` has the arrays whose rows or columns stand for tags or values, by name: entries are matched by what they
    stand for, and new ones keep what they were initialised with. Other arrays are copied where their shapes are equal.
    """
    # The tensors of a state are those of the network: writing into them changes it.
    new = network.state_dict()
    taken = 0
    with torch.no_grad():
        for name, target in new.items():
            if name not in start or start[name].ndim != target.dim():
                continue
            source = torch.from_numpy(single(start[name]).copy())
            places = _shared(axes.get(name, (None,) * target.dim()), target, source)
            if places is not None:
                target[_grid([a for a, _ in places])] = source.to(target)[_grid([b for _, b in places])]
                taken += 1
    return f"{taken} of {len(new)}"


def _shared(
    axes: Sequence[Axis], target: torch.Tensor, source: torch.Tensor
) -> list[tuple[list[int], list[int]]] | None:
    """Return the places of the shared entries along each axis in both arrays; None where the shapes do not fit."""
    places = []
    for axis, n_new, n_old in zip(axes, target.shape, source.shape, strict=True):
        if axis is None:
            if n_new != n_old:
                return None
            places.append((list(range(n_new)), list(range(n_new))))
            continue
        at = {name: index for index, name in enumerate(axis[1])}
        shared = [(index, at[name]) for index, name in enumerate(axis[0]) if name in at]
        places.append(([a for a, _ in shared], [b for _, b in shared]))
    return places


def _grid(places: Sequence[Sequence[int]]) -> tuple[torch.Tensor, ...]:
    """Return the index of a block of an array, one tensor an axis."""
    shapes = [[-1 if k == axis else 1 for k in range(len(places))] for axis in range(len(places))]
    indexes = (torch.tensor(part, dtype=torch.long) for part in places)
    return tuple(index.reshape(shape) for index, shape in zip(indexes, shapes, strict=True))
