"""The model as a user of the library holds it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.errors import CorpusError
from ensemble_deid.pipeline.directory import load_model
from ensemble_deid.pipeline.ensemble import Ensemble
from ensemble_deid.pipeline.redaction import redact
from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span


@dataclass(frozen=True, slots=True)
class DeidentificationResult:
    """A de-identified text, and the spans (in characters of the text that came in) that were taken out."""

    text: str = field(repr=False)
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Deidentifier:
    """Finds and removes PHI with a trained model."""

    ensemble: Ensemble

    @classmethod
    def load(cls, directory: str | Path, *, device: str | None = None, key: str | Path | None = None) -> "Deidentifier":
        """Read a model directory; `device` is `auto`, `cpu` or `cuda`. Raises ModelError.

        `key` is the file of the key that the model must be signed with; without it, the environment variable
        ENSEMBLE_DEID_MODEL_KEY_FILE may name one.
        """
        return cls(load_model(Path(directory), device=device, key=key)[0])

    def predict(
        self, documents: Sequence[Document], *, submodel: str | None = None, threshold: float | None = None
    ) -> list[Document]:
        """Return the documents with the spans that the model finds (and none of those they came with).

        `submodel` and `threshold` as in `Ensemble.predict`.
        """
        found = self.ensemble.predict(documents, submodel=submodel, threshold=threshold)
        return [document.with_spans(spans) for document, spans in zip(documents, found, strict=True)]

    def deidentify(self, text: str, *, style: str = "tag") -> DeidentificationResult:
        """Return the text without its PHI; `style` is one of `tag`, `mask`, `remove`.

        Raises CorpusError for a text with NUL or unpaired surrogates, which is no clinical note.
        """
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise CorpusError("the text holds NUL or unpaired surrogates: it was not decoded rightly")
        spans = self.ensemble.predict([Document("text", text)])[0]
        return DeidentificationResult(redact(text, spans, style=style), spans)
