"""The final estimator: an RBF-kernel support vector machine, trained by LIBSVM and kept as plain arrays."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Flags, Floats, row_products
from ensemble_deid.errors import ModelError, needs_extra
from ensemble_deid.mapped import MappedArrays, to_file_bytes
from ensemble_deid.parsing import strict_json

_ROWS, _VECTORS = 96, 1024
"""Few enough rows and support vectors that the distances between them stay in the processor's cache."""
_BOUND = 3.0
"""Standardised features are clipped to this many standard deviations."""
_LEAST_SLOPE = 1e-3


@dataclass(frozen=True, slots=True)
class SvmSettings:
    """The costs of misclassifying a correct and an incorrect candidate, and the kernel's gamma."""

    c_positive: float
    c_negative: float
    gamma: float


ZHAO2020 = SvmSettings(5.2, 12.48, 0.009)
"""Zhao et al. 2020, table 3."""


@dataclass(frozen=True, slots=True, eq=False)
class Svm:
    """Decision function of an RBF SVM over standardised features.

    `mean`, `scale` (features,); `vectors` (support vectors, features); `weights` (support vectors,).
    """

    settings: SvmSettings
    mean: Floats = field(repr=False)
    scale: Floats = field(repr=False)
    vectors: NDArray[np.floating] = field(repr=False)
    weights: Floats = field(repr=False)
    intercept: float
    _norms: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        norms = [(vectors**2).sum(axis=1) for _, vectors in self._in_blocks()]
        object.__setattr__(self, "_norms", np.concatenate([np.zeros(0), *norms]))

    def _in_blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield the support vectors in double precision: those of a file stay mapped, in its precision."""
        for low in range(0, len(self.vectors), _VECTORS):
            part = slice(low, low + _VECTORS)
            yield part, self.vectors[part].astype(np.float64, copy=False)

    @classmethod
    def fit(cls, features: Floats, correct: Flags, settings: SvmSettings) -> "Svm":
        """Train on candidates (n, features). With one class only, every decision is that class."""
        mean = features.mean(axis=0) if len(features) else np.zeros(features.shape[1])
        scale = features.std(axis=0) if len(features) else np.ones(features.shape[1])
        # The deviation of a constant column may be a rounding error instead of 0.
        scale = np.where(np.ptp(features, axis=0) > 1e-9, scale, 1.0) if len(features) else scale
        if correct.all() or not correct.any():
            empty = np.zeros((0, features.shape[1]))
            return cls(
                settings,
                mean,
                scale,
                vectors=empty,
                weights=np.zeros(0),
                intercept=1.0 if len(correct) and correct.all() else -1.0,
            )
        # Here, not above: only training needs scikit-learn, and it takes a second to load.
        with needs_extra("train", "fitting the final estimator"):
            from sklearn.svm import SVC

        costs = {1: settings.c_positive, 0: settings.c_negative}
        svc = SVC(C=1.0, kernel="rbf", gamma=settings.gamma, class_weight=costs, cache_size=500)
        svc.fit(_standardised(features, mean, scale), correct.astype(np.int64))
        return cls(
            settings,
            mean,
            scale,
            vectors=svc.support_vectors_,
            weights=svc.dual_coef_[0],
            intercept=float(svc.intercept_[0]),
        )

    def decision_function(self, features: Floats) -> Floats:
        """Return the decision function of each row, (n,): positive means correct."""
        out = np.full(len(features), self.intercept)
        rows = self.standardised(features)
        # Rows are multiplied by -2 once, before the products: a power of two causes no rounding.
        squares, doubled = (rows**2).sum(axis=1)[:, None], -2 * rows
        for part, vectors in self._in_blocks():
            norms, weights = self._norms[part], self.weights[part]
            for low in range(0, len(rows), _ROWS):
                kernel = row_products(doubled[low : low + _ROWS], vectors.T)
                kernel += squares[low : low + _ROWS] + norms
                np.maximum(kernel, 0.0, out=kernel)
                kernel *= -self.settings.gamma
                np.exp(kernel, out=kernel)
                out[low : low + _ROWS] += np.einsum("nv,v->n", kernel, weights)
        return out

    def standardised(self, features: Floats) -> Floats:
        """Return the features as the kernel sees them, (n, features)."""
        return _standardised(features, self.mean, self.scale)

    def to_bytes(self, *, compact: bool = False) -> bytes:
        """Return the arrays as safetensors, the settings in their metadata.

        `compact` keeps the support vectors in half precision: they are between -3 and 3.
        """
        vectors = self.vectors.astype(np.float16 if compact else np.float64)
        arrays = {"mean": self.mean, "scale": self.scale, "vectors": vectors, "weights": self.weights}
        return to_file_bytes(arrays, {"svm": json.dumps({"intercept": self.intercept, **asdict(self.settings)})})

    @classmethod
    def of_file(cls, path: Path) -> "Svm":
        """Map what `to_bytes` gave. Raises ModelError."""
        try:
            mapped = MappedArrays.of_file(path)
            arrays, content = mapped.arrays, strict_json(mapped.metadata["svm"])
            settings = SvmSettings(*(float(content[name]) for name in ("c_positive", "c_negative", "gamma")))
            mean, scale, vectors, weights = (arrays[name] for name in ("mean", "scale", "vectors", "weights"))
            svm = cls(settings, mean, scale, vectors, weights=weights, intercept=float(content["intercept"]))
        except (KeyError, ValueError, TypeError) as error:
            raise ModelError(f"the stacker's file is damaged ({type(error).__name__})") from None
        if svm.vectors.shape != (*svm.weights.shape, *svm.mean.shape) or svm.scale.shape != svm.mean.shape:
            raise ModelError("the stacker's file is damaged: its arrays do not fit each other")
        numbers = (svm.mean, svm.scale, svm.vectors, svm.weights, [svm.intercept, settings.gamma])
        if not all(np.isfinite(values).all() for values in numbers) or not (svm.scale > 0).all():
            raise ModelError("the stacker's file is damaged: a number in it is none")
        return svm


def _standardised(features: Floats, mean: Floats, scale: Floats) -> Floats:
    """Return the features standardised to mean 0 and deviation 1, then clipped.

    Otherwise a rare value (a label with ten spans, a span that opens its line) would put a candidate so far from all
    others that none of them could support it.
    """
    return np.asarray(np.clip((features - mean) / scale, -_BOUND, _BOUND), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Sigmoid:
    """Decision -> probability: 1 / (1 + exp(-(slope * decision + offset))) (Platt 1999)."""

    slope: float
    offset: float

    @classmethod
    def fit(cls, decisions: Floats, correct: Flags) -> "Sigmoid":
        """Fit to decisions about candidates that the SVM was not trained on."""
        if correct.all() or not correct.any():
            return cls(1.0, 0.0)
        with needs_extra("train", "fitting the final estimator"):
            from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=1e6).fit(decisions[:, None], correct.astype(np.int64))
        slope = float(model.coef_[0, 0])
        if slope < _LEAST_SLOPE:
            # Probability must not fall as the decision rises: with few candidates the fitted slope can be negative.
            share = float(correct.mean())
            return cls(_LEAST_SLOPE, float(np.log(share / (1 - share))))
        return cls(slope, float(model.intercept_[0]))

    def probability(self, decisions: Floats) -> Floats:
        # Bounded so that exp does not overflow: a few perfectly separated candidates make the slope very steep.
        exponent = np.minimum(-(self.slope * decisions + self.offset), 700.0)
        return np.asarray(1 / (1 + np.exp(exponent)), dtype=np.float64)
