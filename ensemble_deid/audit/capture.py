"""How much PHI all readers missed: capture and recapture of annotations by two people, and by the model as a third.

Two sources: Chapman 1951 (Univ Calif Publ Stat 1:131), unbiased where the sources are independent. Three: log-linear
models of the seven cells that are seen, with dependence of any pairs of sources (Fienberg 1972, Biometrika 59:591;
Bishop, Fienberg and Holland 1975, chapter 6), chosen by AIC.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ensemble_deid.arrays import Floats

Cell = tuple[bool, bool, bool]
"""Whether the first reader, the second and the model had marked an annotation."""
ASSUMPTIONS = (
    "Annotations are alike in how easily they are found; hard ones that everybody misses make the estimate too low.",
    "Nobody saw what the others marked, and adjudication removed every false mark.",
    "For Chapman's estimate the two readers are independent; the log-linear models allow any two sources to agree more "
    "or less often than by chance, but not all three together.",
)
_SOURCES = ("reader 1", "reader 2", "model")
_CELLS: tuple[Cell, ...] = tuple((bool(k & 4), bool(k & 2), bool(k & 1)) for k in range(1, 8))
_PAIRS = tuple(combinations(range(3), 2))
_WITHIN = 4.0
_STEPS = 100


@dataclass(frozen=True, slots=True)
class Hidden:
    """Annotations that nobody marked: by Chapman from two readers, and by log-linear models (None: no model fits).

    `highest` is the most that any model says whose AIC is within 4 of the best; `dependence` names the best one's.
    """

    marked: int
    chapman: float
    log_linear: float | None
    highest: float | None
    dependence: str


def estimate_hidden(cells: Mapping[Cell, int]) -> Hidden:
    """Estimate the PHI that all sources missed, from the number of annotations by combination of sources."""
    seen = Counter(cells)
    a, b = (sum(n for cell, n in seen.items() if cell[k]) for k in (0, 1))
    both = sum(n for cell, n in seen.items() if cell[0] and cell[1])
    readers = a + b - both
    chapman = (a + 1) * (b + 1) / (both + 1) - 1 - readers
    counts = np.array([seen[cell] for cell in _CELLS], dtype=np.float64)
    fits = [fit for size in range(4) for pairs in combinations(_PAIRS, size) if (fit := _fit(counts, pairs))]
    if not fits:
        return Hidden(sum(seen.values()), max(0.0, chapman), None, None, "")
    aic, hidden, pairs = min(fits)
    near = [fit[1] for fit in fits if fit[0] <= aic + _WITHIN]
    named = ", ".join(f"{_SOURCES[i]} and {_SOURCES[j]}" for i, j in pairs) or "none"
    return Hidden(sum(seen.values()), max(0.0, chapman), hidden, max(near), named)


def _fit(counts: Floats, pairs: Sequence[tuple[int, int]]) -> tuple[float, float, tuple[tuple[int, int], ...]] | None:
    """Return AIC, the expected count of the unseen cell, and the pairs; None where the cells do not determine it."""
    design = np.array([[1.0, *map(float, cell), *(float(cell[i] and cell[j]) for i, j in pairs)] for cell in _CELLS])
    # Poisson regression by reweighted least squares; an empty cell would let a pair's term run to infinity.
    observed = counts + 0.5 * (counts == 0)
    weights = np.log(observed)
    coefficients = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        mean = np.exp(weights)
        working = weights + (observed - mean) / mean
        root = np.sqrt(mean)[:, None]
        new = np.linalg.lstsq(root * design, root[:, 0] * working, rcond=None)[0]
        weights = np.clip(design @ new, -30.0, 30.0)
        if float(np.abs(new - coefficients).max()) < 1e-10:
            coefficients = new
            break
        coefficients = new
    else:
        return None
    mean = np.exp(weights)
    likelihood = float((observed * weights - mean).sum())
    hidden = float(np.exp(min(30.0, coefficients[0])))
    return -2 * likelihood + 2 * design.shape[1], hidden, tuple(pairs)
