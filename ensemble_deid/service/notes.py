"""Notes on their way through the model: each is processed whole, or the request is refused without its text."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ensemble_deid.errors import ConfigError, DeidError
from ensemble_deid.pipeline.deidentifier import Deidentifier
from ensemble_deid.pipeline.redaction import check_style, redact
from ensemble_deid.service.metrics import Metrics
from ensemble_deid.service.processor import Processor
from ensemble_deid.service.refusal import Refused
from ensemble_deid.text.document import Document

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Options:
    """How a note is de-identified."""

    style: str = "tag"
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Notes:
    """The model of a worker, as the routes use it."""

    model: Deidentifier
    processor: Processor
    metrics: Metrics

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the model predicts."""
        return self.model.ensemble.scheme.labels

    async def run(self, function: Callable[[], Result]) -> Result:
        """Return what the function returns, from the model's thread. Raises Refused after the time limit."""
        return await self.processor.run(function)

    async def predict(self, text: str) -> Document:
        """Return the note with the spans found. Raises Refused, which does not quote it."""
        return await self.run(lambda: self._predicted(text, None))

    async def deidentify(self, text: str, options: Options) -> dict[str, Any]:
        """Return the text without PHI, and the spans with offsets of the text that came in. Raises Refused."""
        return await self.run(lambda: self._deidentified(text, options))

    def check(self, options: Options) -> Options:
        """Return the options. Raises Refused, without quoting them, where they name something that does not exist."""
        try:
            check_style(options.style)
        except ConfigError:
            raise Refused(422, "style: unknown; tag, mask and remove are known") from None
        return options

    def _predicted(self, text: str, threshold: float | None) -> Document:
        (note,) = self.model.predict_each([Document("the note", text)], threshold=threshold)
        if isinstance(note, DeidError):
            self.metrics.withheld()
            raise Refused(422, str(note))
        self.metrics.processed(len(text), [span.label for span in note.spans])
        return note

    def _deidentified(self, text: str, options: Options) -> dict[str, Any]:
        note = self._predicted(text, options.threshold)
        try:
            new_text = redact(note.text, note.spans, style=options.style)
        except ValueError as error:
            # The message is left out, since it might quote the note.
            self.metrics.withheld()
            raise Refused(422, f"the note: replacement failed ({type(error).__name__})") from None
        spans = [
            {"start": span.start, "end": span.end, "label": span.label, "score": round(span.score, 4)}
            for span in note.spans
        ]
        return {"text": new_text, "spans": spans}
