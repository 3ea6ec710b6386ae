"""Fine-tuning and scoring: windows of about one length together, loss on the first piece of each token."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ensemble_deid.arrays import Floats, Int32s, Int64s
from ensemble_deid.config import TransformerConfig
from ensemble_deid.reproducible import is_pinned
from ensemble_deid.seeds import generator
from ensemble_deid.taggers.transformer.network import EncoderClassifier, Windows
from ensemble_deid.taggers.transformer.pieces import Pieces

TextWindow = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SpecialPieces:
    """The ids that open, close and pad a window."""

    opening: int
    closing: int
    padding: int


@dataclass(frozen=True, slots=True, eq=False)
class WindowBatch:
    """Windows as tensors; `rows` (n,): their tokens; (`window`, `place`) (n,): where each token's first piece is."""

    windows: Windows
    rows: Int64s
    window: Int64s
    place: Int64s


def batches(
    found: Sequence[TextWindow],
    pieces: Pieces,
    special: SpecialPieces,
    *,
    batch_pieces: int,
    random: np.random.Generator | None = None,
) -> Iterator[WindowBatch]:
    """Yield windows in batches of about `batch_pieces` pieces, alike in length, so that little is padding.

    With `random` windows of about one length meet others in every call, and the batches come in random order.
    """
    sizes = np.array([pieces.first[after] - pieces.first[start] for start, after in found], dtype=np.int64)
    jitter = np.zeros(len(sizes)) if random is None else random.uniform(-8, 8, len(sizes))
    order = np.argsort(sizes + jitter, kind="stable")
    groups: list[Int64s] = []
    begin = 0
    for end in range(1, len(order) + 1):
        longest = int(sizes[order[begin : end + 1]].max())
        if end == len(order) or (end - begin + 1) * longest > batch_pieces:
            groups.append(order[begin:end])
            begin = end
    sequence = range(len(groups)) if random is None else random.permutation(len(groups)).tolist()
    for number in sequence:
        yield _stack([found[k] for k in groups[number].tolist()], pieces, special)


def _stack(chosen: Sequence[TextWindow], pieces: Pieces, special: SpecialPieces) -> WindowBatch:
    bounds = [(int(pieces.first[start]), int(pieces.first[after])) for start, after in chosen]
    width = max(high - low for low, high in bounds) + 2
    ids = np.full((len(chosen), width), special.padding, dtype=np.int64)
    case, gap = np.zeros_like(ids), np.zeros_like(ids)
    features = np.zeros((*ids.shape, pieces.features.shape[1]), dtype=np.int64)
    mask = np.zeros(ids.shape, dtype=bool)
    rows, window, place = [], [], []
    for k, ((start, after), (low, high)) in enumerate(zip(chosen, bounds, strict=True)):
        size = high - low
        ids[k, 0], ids[k, size + 1] = special.opening, special.closing
        ids[k, 1 : size + 1] = pieces.ids[low:high]
        case[k, 1 : size + 1] = pieces.case[low:high]
        gap[k, 1 : size + 1] = pieces.gap[low:high]
        features[k, 1 : size + 1] = pieces.features[low:high]
        mask[k, : size + 2] = True
        rows.append(np.arange(start, after))
        window.append(np.full(after - start, k))
        place.append(pieces.first[start:after] - low + 1)
    tensors = Windows(*(torch.from_numpy(part) for part in (ids, case, gap, features, mask)))
    return WindowBatch(tensors, np.concatenate(rows), np.concatenate(window), np.concatenate(place))


def fine_tune(
    network: EncoderClassifier,
    found: Sequence[TextWindow],
    pieces: Pieces,
    gold: Int32s,
    special: SpecialPieces,
    *,
    config: TransformerConfig,
    seed: int,
    device: torch.device,
    progress: Callable[[str], None],
) -> None:
    """Train all weights in place with AdamW, a linear warm-up and a linear descent to nothing (Johnson et al. 2020)."""
    network.to(device)
    random = generator(seed, "transformer batches")
    n_batches = sum(1 for _ in batches(found, pieces, special, batch_pieces=config.batch_pieces))
    # The shuffle can make a batch or two more in one epoch than in another; the schedule needs no more than this.
    total = max(1, config.epochs * n_batches)
    warm_up = max(1, round(config.warm_up * total))
    optimizer = torch.optim.AdamW(_groups(network, config), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm_up, max(0.0, (total - step) / max(1, total - warm_up)))
    )
    for epoch in range(1, config.epochs + 1):
        network.train()
        losses = []
        for batch in batches(found, pieces, special, batch_pieces=config.batch_pieces, random=random):
            loss = _loss(network, batch, gold, device)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), config.gradient_clip)
            optimizer.step()
            schedule.step()
            losses.append(float(loss.detach()))
        progress(f"transformer: epoch {epoch}/{config.epochs}, loss {sum(losses) / max(1, len(losses)):.4f}")
    network.eval()


def _groups(network: EncoderClassifier, config: TransformerConfig) -> list[dict[str, object]]:
    """Return the parameters in two groups: what training starts from nothing learns faster than the encoder."""
    pretrained = {id(parameter) for parameter in network.encoder.parameters()}
    fresh = [parameter for parameter in network.parameters() if id(parameter) not in pretrained]
    return [
        {"params": list(network.encoder.parameters()), "lr": config.learning_rate, "weight_decay": config.weight_decay},
        {"params": fresh, "lr": config.learning_rate * config.head_rate, "weight_decay": 0.0},
    ]


def _loss(network: EncoderClassifier, batch: WindowBatch, gold: Int32s, device: torch.device) -> Tensor:
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=bfloat16_helps(device)):
        scores = network(batch.windows.to(device))
    window, place = torch.from_numpy(batch.window).to(device), torch.from_numpy(batch.place).to(device)
    tags = torch.from_numpy(gold[batch.rows].astype(np.int64)).to(device)
    return nn.functional.cross_entropy(scores[window, place].float(), tags)


def bfloat16_helps(device: torch.device) -> bool:
    """Return whether matrix products in bfloat16 are done by units made for them: a GPU's, AMX, or AVX-512's.

    Not in a pinned process (`reproducible.py`): other processors would train another model.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return not is_pinned() and bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())


@torch.no_grad()
def score_pieces(
    network: EncoderClassifier,
    found: Sequence[TextWindow],
    pieces: Pieces,
    special: SpecialPieces,
    *,
    batch_pieces: int,
    device: torch.device,
) -> Floats:
    """Return the log probability of every tag at every token, (n_tokens, tags); overlapping windows are averaged.

    A window sees less around its ends: a token counts by how far it lies from the nearer end of its window.
    """
    network.eval()
    network.to(device)
    n_tokens = len(pieces.first) - 1
    total = np.zeros((n_tokens, network.scores.out_features))
    weight = np.zeros(n_tokens)
    for batch in batches(found, pieces, special, batch_pieces=batch_pieces):
        scores = network(batch.windows.to(device))
        window, place = torch.from_numpy(batch.window).to(device), torch.from_numpy(batch.place).to(device)
        chosen = nn.functional.log_softmax(scores[window, place].float(), dim=-1).cpu().double().numpy()
        size = batch.windows.mask.sum(dim=1).numpy()[batch.window]
        near = np.minimum(batch.place, size - 1 - batch.place).astype(np.float64)
        np.add.at(total, batch.rows, chosen * near[:, None])
        np.add.at(weight, batch.rows, near)
    return np.asarray(total / weight[:, None], dtype=np.float64)
