"""Notes on their way through the model: each is processed whole, or the request is refused without its text."""

from dataclasses import dataclass, replace

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.known.site_lists import SiteLists
from ensemble_deid.deidentify.one_pass import DeidentificationResult
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.note.document import Document
from ensemble_deid.service.metrics import Metrics
from ensemble_deid.service.processor import Processor
from ensemble_deid.service.refusal import Refused
from ensemble_deid.service.tokens import KNOWN, may, require

KEYED_STYLES = frozenset({"hash", "surrogate"})


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

    @property
    def granted(self) -> RunOptions:
        """The defaults, without the site's lists where the request may not have them applied: they tell whom they hold.

        Raises Refused where lists are strict, and the request may not have them applied.
        """
        if self.defaults.lists.strict:
            require(KNOWN, "notes with known identifiers are withheld (--strict)")
        return self.defaults if may(KNOWN) else replace(self.defaults, lists=SiteLists())

    async def deidentify(
        self, text: str, *, patient: str | None = None, options: RunOptions | None = None
    ) -> DeidentificationResult:
        """Return what becomes of a note. Raises Refused, which does not quote it, where it is withheld."""
        chosen = options or self.granted
        return await self.processor.run(lambda: self._deidentified(text, patient, chosen))

    def _deidentified(self, text: str, patient: str | None, options: RunOptions) -> DeidentificationResult:
        (result,) = self.model.process([Document("the text", text, patient_id=patient)], options)
        self.metrics.listed(result.counts)
        if result.error is not None:
            self.metrics.withheld()
            raise Refused(422, result.error)
        self.metrics.processed(len(text), [span.label for span in result.spans])
        return result
