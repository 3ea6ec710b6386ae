"""A model that is called as a token-classification pipeline of Hugging Face transformers is, and answers alike."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.one_pass import log_remark
from ensemble_deid.deidentify.options import RunChoices, RunOptions
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document

Entity = dict[str, str | int | float]
AGGREGATED = ("simple", "first", "average", "max")


@dataclass(frozen=True, slots=True)
class TokenClassifier:
    """Finds PHI; takes the place of `pipeline("token-classification", aggregation_strategy="simple")`.

    Each text is processed alone: what is found in it is searched in the whole text, and not in others.

    >>> from ensemble_deid.integrations.huggingface import TokenClassifier
    >>> classify = TokenClassifier.load("model")
    >>> [(found["entity_group"], found["word"]) for found in classify("Date: 03/04/2019")]
    [('DATE', '03/04/2019')]
    """

    model: Deidentifier
    options: RunOptions

    @classmethod
    def load(cls, model: str | Path, *, device: str | None = None, **choices: Unpack[RunChoices]) -> "TokenClassifier":
        """Read a model: its folder, or the name of an installed one; `choices` are those of `RunOptions.choose`.

        Raises ModelError, ConfigError, CorpusError.
        """
        loaded = Deidentifier.load(model, device=device)
        return cls(loaded, RunOptions.choose(loaded.labels, **choices))

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
        waiting: list[str] = []

        def documents() -> Iterator[Document]:
            for number, text in enumerate(texts):
                waiting.append(text)
                yield Document(f"inputs[{number}]", text)

        for result in self.model.process(documents(), self.options):
            text = waiting.pop(0)
            if result.error is not None:
                raise CorpusError(result.error)
            log_remark(result)
            yield [span.to_dict(text=text) for span in result.spans]
