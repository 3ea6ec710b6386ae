"""A model that is called as a token-classification pipeline of Hugging Face transformers is, and answers alike."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import ConfigError, DeidError
from ensemble_deid.note.document import Document

Entity = dict[str, str | int | float]
AGGREGATED = ("simple", "first", "average", "max")


@dataclass(frozen=True, slots=True)
class TokenClassifier:
    """Finds PHI; stands where `pipeline("token-classification", aggregation_strategy="simple")` stood.

    `threshold` overrides the model's: below 0.05 single words are found, too, at 0 a quarter of a note's or 12 (only
    for models with `stack.tokens`).

    >>> from ensemble_deid.integrations.huggingface import TokenClassifier
    >>> classify = TokenClassifier.load("model")
    >>> [(found["entity_group"], found["word"]) for found in classify("Date: 03/04/2019")]
    [('DATE', '03/04/2019')]
    """

    model: Deidentifier
    threshold: float | None = None

    @classmethod
    def load(cls, model: str | Path, *, device: str | None = None, threshold: float | None = None) -> "TokenClassifier":
        """Read a model: its folder, or the name of an installed one. Raises ModelError, ConfigError."""
        return cls(Deidentifier.load(model, device=device), threshold)

    def __call__(self, inputs: str | Iterable[str], *, aggregation_strategy: str = "simple") -> Any:
        """Return the entities of a text, a list of those of each for a list of texts, an iterator for other iterables.

        An entity has the keys `entity_group`, `score`, `word` (PHI), `start` and `end`. The model predicts spans, not
        pieces of words, so all aggregation strategies give the same; `none` raises ConfigError. Raises CorpusError
        for a text that cannot be processed whole.
        """
        if aggregation_strategy not in AGGREGATED:
            raise ConfigError(
                f"aggregation_strategy must be one of {', '.join(AGGREGATED)}, not {aggregation_strategy!r}"
            )
        found = self._entities([inputs] if isinstance(inputs, str) else inputs)
        if isinstance(inputs, str):
            return next(found)
        return list(found) if isinstance(inputs, list) else found

    def _entities(self, texts: Iterable[str]) -> Iterator[list[Entity]]:
        documents = (Document(f"inputs[{number}]", text) for number, text in enumerate(texts))
        for note in self.model.predict_each(documents, threshold=self.threshold):
            if isinstance(note, DeidError):
                raise note
            yield [span.to_dict(text=note.text) for span in note.spans]
