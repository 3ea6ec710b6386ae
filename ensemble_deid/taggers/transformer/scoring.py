"""Windows of pieces in batches of about one length, and the scores of tokens from those of their windows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ensemble_deid.arrays import Flags, Floats, Int64s
from ensemble_deid.taggers.layers import Array, log_softmax
from ensemble_deid.taggers.transformer.pieces import Pieces

TextWindow = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SpecialPieces:
    """The ids that open, close and pad a window."""

    opening: int
    closing: int
    padding: int


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Windows of pieces, padded: `ids`, `case`, `gap` int64 and `mask` bool (batch, pieces).

    `features` is int64 (batch, pieces, features).
    The first and the last valid piece of each window are the encoder's special ones.
    """

    ids: Int64s
    case: Int64s
    gap: Int64s
    features: Int64s
    mask: Flags


@dataclass(frozen=True, slots=True, eq=False)
class WindowBatch:
    """Windows in a batch; `rows` (n,): their tokens; (`window`, `place`) (n,): where each token's first piece is."""

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
    return WindowBatch(
        Windows(ids, case, gap, features, mask), np.concatenate(rows), np.concatenate(window), np.concatenate(place)
    )


class WindowScorer(Protocol):
    """A network that scores the pieces of windows."""

    def score(self, windows: Windows) -> Array:
        """Return the score of every tag at every piece, (batch, pieces, tags)."""
        ...


def score_pieces(
    network: WindowScorer,
    found: Sequence[TextWindow],
    pieces: Pieces,
    special: SpecialPieces,
    *,
    batch_pieces: int,
    n_tags: int,
) -> Floats:
    """Return the log probability of every tag at every token, (n_tokens, tags); overlapping windows are averaged.

    A window sees less around its ends: a token counts by how far it lies from the nearer end of its window.
    """
    n_tokens = len(pieces.first) - 1
    total = np.zeros((n_tokens, n_tags))
    weight = np.zeros(n_tokens)
    for batch in batches(found, pieces, special, batch_pieces=batch_pieces):
        scores = network.score(batch.windows)[batch.window, batch.place]
        size = batch.windows.mask.sum(axis=1)[batch.window]
        near = np.minimum(batch.place, size - 1 - batch.place).astype(np.float64)
        np.add.at(total, batch.rows, log_softmax(scores).astype(np.float64) * near[:, None])
        np.add.at(weight, batch.rows, near)
    return np.asarray(total / weight[:, None], dtype=np.float64)
