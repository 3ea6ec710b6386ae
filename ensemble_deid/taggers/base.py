"""The interface of the submodels: learn from a batch, propose spans with confidences, live on disk as safe files."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.features.batch import Batch
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
class TokenScores:
    """What a sequence model thinks of every token of a document, however improbable PHI is there.

    `phi` float32 (n_tokens,) is the marginal probability of any tag but `O`; `label` int16 (n_tokens,) indexes the most
    probable label.
    """

    phi: NDArray[np.float32]
    label: NDArray[np.int16]

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TokenScores):
            return NotImplemented
        return np.array_equal(self.phi, other.phi) and np.array_equal(self.label, other.label)


@dataclass(frozen=True, slots=True)
class Proposals:
    """A tagger's output for a batch: a tuple of spans for each document.

    `best` is its prediction, spans that do not overlap; `candidates` holds these and the alternatives (from the n
    best sequences). Scores are confidences in [0, 1]. `tokens` has the scores of every document's tokens; it is empty
    for a tagger without marginals.
    """

    best: tuple[tuple[Span, ...], ...]
    candidates: tuple[tuple[Span, ...], ...]
    tokens: tuple[TokenScores, ...] = ()


class Tagger(Protocol):
    """A fitted submodel. The feature table of a batch is computed once and shared by all submodels."""

    def propose(self, batch: Batch, *, n_best: int) -> Proposals:
        """Return spans with confidences for every document of the batch."""
        ...

    def save(self, directory: Path) -> None:
        """Write safe files (text, JSON, safetensors, the library's own format) into an existing directory."""
        ...


@runtime_checkable
class Computing(Protocol):
    """A submodel whose results depend on what the processor computes with."""

    @property
    def arithmetic(self) -> str:
        """What its network computes with, and where, such as `single precision, cpu`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FitOptions:
    """What a submodel is fitted with; a submodel ignores what it does not need.

    `config` is the submodel's own section of the configuration; `device` is `auto`, `cpu` or `cuda`. A submodel that
    can continue (`starts_from_model` in the table of submodels) begins with what `start` learned; labels may differ.
    """

    scheme: TagScheme
    config: Any
    seed: int
    device: str = "cpu"
    progress: Progress = lambda said: None
    start: Any = None


class TrainableTagger(Tagger, Protocol):
    """A submodel as the pipeline fits and loads it."""

    @classmethod
    def fit(cls, train: Batch, dev: Batch | None, options: FitOptions) -> Self:
        """Learn from the annotations of `train`; `dev` may only be used to choose when to stop.

        The same arguments give a tagger that saves the same bytes; `start` is not changed. Raises ConfigError for
        settings that do not fit each other, or not those of `start`.
        """
        ...

    @classmethod
    def load(cls, directory: Path, *, scheme: TagScheme, config: Any, device: str) -> Self:
        """Read what `save` wrote, running no code from it. Raises ModelError when it is damaged."""
        ...


class CompactableTagger(TrainableTagger, Protocol):
    """A submodel whose files can be made smaller (`has_compact_form` in the table of submodels)."""

    @staticmethod
    def compact_saved(directory: Path) -> None:
        """Make the files smaller that `save` wrote, for `load` to read as they are; a second time changes nothing.

        Weights may be rounded. The same files give the same bytes.
        """
        ...
