"""Notes on their way through the model: each is processed whole, or the request is refused without its text."""

from dataclasses import dataclass

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.one_pass import DeidentificationResult
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.note.document import Document
from ensemble_deid.service.metrics import Metrics
from ensemble_deid.service.processor import Processor
from ensemble_deid.service.refusal import Refused


@dataclass(frozen=True, slots=True)
class NoteService:
    """The model of a worker, as the routes use it; `defaults` hold the key and what the site knows.

    Requests stream in, so each note is processed alone: what is found in it is searched in all of it, and not in other
    notes of its patient.
    """

    model: Deidentifier
    defaults: RunOptions
    processor: Processor
    metrics: Metrics

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the model predicts."""
        return self.model.labels

    async def deidentify(
        self, text: str, *, patient: str | None = None, options: RunOptions | None = None
    ) -> DeidentificationResult:
        """Return what becomes of a note. Raises Refused, which does not quote it, where it is withheld."""
        return await self.processor.run(lambda: self._deidentified(text, patient, options or self.defaults))

    def _deidentified(self, text: str, patient: str | None, options: RunOptions) -> DeidentificationResult:
        (result,) = self.model.process([Document("the text", text, patient_id=patient)], options)
        self.metrics.listed(result.counts)
        if result.error is not None:
            self.metrics.withheld()
            raise Refused(422, result.error)
        self.metrics.processed(len(text), [span.label for span in result.spans])
        return result
