"""The best tagging by the Viterbi algorithm, as a reference for the search of the n best."""

import numpy as np

from ensemble_deid.arrays import Floats, Int32s
from ensemble_deid.taggers.chain import LinearChain


def viterbi(chain: LinearChain, emissions: Floats, lengths: Int32s) -> Int32s:
    """Return the best tags, (batch, time), 0 after a sequence's end.

    `emissions` is (batch, time, tags), `lengths` (batch,) says how many steps of each count, in descending order.
    """
    size, time, _ = emissions.shape
    running = [int(n) for n in (lengths[None, :] > np.arange(int(lengths[0]))[:, None]).sum(axis=1)]
    score = chain.start + emissions[:, 0]
    back = np.zeros((time, size, chain.n_tags), dtype=np.int32)
    for t in range(1, time):
        k = running[t]
        # (batch, from, to)
        through = score[:k, :, None] + chain.transitions
        back[t, :k] = through.argmax(axis=1)
        score[:k] = through.max(axis=1) + emissions[:k, t]
    tags = np.zeros((size, time), dtype=np.int32)
    tag = (score + chain.end).argmax(axis=1)
    rows = np.arange(size)
    for t in range(time - 1, -1, -1):
        k = running[t]
        tags[:k, t] = tag[:k]
        tag[:k] = back[t, rows[:k], tag[:k]]
    return tags
