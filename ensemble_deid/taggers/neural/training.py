"""Training the network: AdamW, learning rate with warm-up and cosine decay to zero, best epoch by dev F1."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ensemble_deid.arrays import Int32s
from ensemble_deid.config import NeuralConfig
from ensemble_deid.seeds import generator
from ensemble_deid.taggers.device import network_in_bfloat16, to_device
from ensemble_deid.taggers.neural.encoding import UNKNOWN, Encoded, SequenceBatch, bucket
from ensemble_deid.taggers.neural.network import TaggingNetwork, inputs_to_tensors

_WARM_UP = 0.1


def _rate(step: int, total: int) -> float:
    """Return the factor of the learning rate at a step."""
    warm = max(1, int(total * _WARM_UP))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, total - warm)))


def train_network(
    network: TaggingNetwork,
    encoded: Encoded,
    gold: Int32s,
    starts: Int32s,
    *,
    config: NeuralConfig,
    seed: int,
    device: torch.device,
    dev_score: Callable[[], float | None] | None,
    progress: Callable[[str], None],
) -> int:
    """Train in place and return the epoch whose weights are kept.

    With `dev_score` the weights of the best epoch are kept (the earliest of equals), else those of the last. An epoch
    whose score is undefined (None: nothing to find, and nothing found) ranks with a score of 0.
    """
    network.to(device)
    n_batches = sum(1 for _ in bucket(starts, len(gold), batch_tokens=config.batch_tokens))
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = _optimizer(trained, config)
    total = config.epochs * n_batches
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, total))
    random = generator(seed, "network batches")
    mixed = network_in_bfloat16(device)
    best_score, best_epoch, best_state = -1.0, config.epochs, None
    for epoch in range(1, config.epochs + 1):
        network.train()
        # Summed on the device: reading it would synchronise at every step.
        loss_sum = torch.zeros((), dtype=torch.float64, device=device)
        batches = list(bucket(starts, len(gold), batch_tokens=config.batch_tokens, random=random))
        for number in random.permutation(n_batches).tolist():
            loss = _step(network, encoded, gold, batches[number], config, random=random, device=device, mixed=mixed)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(trained, config.gradient_clip)
            optimizer.step()
            schedule.step()
            loss_sum += loss.detach()
        message = f"network: epoch {epoch}/{config.epochs}, loss {float(loss_sum) / n_batches:.4f}"
        # The learning rate decays to the end, so the best epoch is never an early one: those are not evaluated.
        if dev_score is not None and epoch > config.epochs // 2:
            f1 = dev_score()
            message += ", dev F1 undefined" if f1 is None else f", dev F1 {100 * f1:.2f}"
            score = 0.0 if f1 is None else f1
            if score > best_score:
                best_score, best_epoch = score, epoch
                best_state = {name: value.detach().clone() for name, value in network.state_dict().items()}
        progress(message)
    if best_state is not None:
        network.load_state_dict(best_state)
    network.eval()
    return best_epoch


def _optimizer(trained: list[torch.nn.Parameter], config: NeuralConfig) -> torch.optim.Optimizer:
    rate, decay = config.learning_rate, config.weight_decay
    if config.optimizer == "adagrad":
        return torch.optim.Adagrad(trained, lr=rate, weight_decay=decay)
    # Fused: one pass over the parameters, most of which are word vectors.
    return torch.optim.AdamW(trained, lr=rate, weight_decay=decay, fused=True)


def _step(
    network: TaggingNetwork,
    encoded: Encoded,
    gold: Int32s,
    batch: SequenceBatch,
    config: NeuralConfig,
    *,
    random: np.random.Generator,
    device: torch.device,
    mixed: bool,
) -> Tensor:
    """Return the loss of one batch with word dropout: rare words are replaced by UNKNOWN half of the time."""
    rows, place = np.unique(batch.rows, return_inverse=True)
    draw = random.random(len(rows))
    hidden = draw < np.where(encoded.rare[rows], 0.5, config.word_dropout)
    words = np.where(hidden[place].reshape(batch.rows.shape), UNKNOWN, encoded.words[batch.rows])
    inputs = inputs_to_tensors(encoded.inputs(batch.rows, batch.lengths, words), device)
    tags = to_device(gold[batch.rows].astype(np.int64), device)
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=mixed):
        return network.loss(inputs, tags)
