"""What every submodel can do: learn from a batch, propose spans with confidences, and live on disk as safe files."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from ensemble_deid.config import Config
from ensemble_deid.features.batch import Batch
from ensemble_deid.text.span import Span
from ensemble_deid.text.tags import TagScheme

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Proposals:
    """What a tagger says of a batch, a tuple of spans for each document.

    `best` is its answer, spans that do not overlap; `candidates` holds these and whatever else it holds possible
    (of the n best sequences). Scores are confidences in [0, 1].
    """

    best: tuple[tuple[Span, ...], ...]
    candidates: tuple[tuple[Span, ...], ...]


class Tagger(Protocol):
    """A submodel, fitted. The table of a batch is computed once and read by all of them."""

    def propose(self, batch: Batch, *, n_best: int) -> Proposals:
        """Return spans with confidences for every document of the batch."""
        ...

    def save(self, directory: Path) -> None:
        """Write safe files (text, JSON, safetensors, the library's own format) into an existing directory."""
        ...


class TrainableTagger(Tagger, Protocol):
    """A submodel as the pipeline makes it."""

    @classmethod
    def fit(cls, train: Batch, dev: Batch | None, *, scheme: TagScheme, config: Config, progress: Progress) -> Self:
        """Learn from the annotations of `train`; `dev` is for choosing when to stop, never for learning."""
        ...

    @classmethod
    def load(cls, directory: Path, *, scheme: TagScheme, config: Config) -> Self:
        """Read what `save` wrote; runs no code from it. Raises ModelError when it is damaged."""
        ...
