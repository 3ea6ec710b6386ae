"""Notes on their way through the model: each is processed whole, or the request is refused without its text."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.known.site_lists import SiteLists
from ensemble_deid.deidentify.one_pass import DeidentificationResult
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.model.options import BATCH_CHARACTERS
from ensemble_deid.note.document import Document
from ensemble_deid.service.metrics import Metrics
from ensemble_deid.service.processor import Gatherer, Processor
from ensemble_deid.service.refusal import Refused
from ensemble_deid.service.tokens import KNOWN, may, require

KEYED_STYLES = frozenset({"hash", "surrogate"})
_Asked = tuple[Document, RunOptions]


@dataclass(frozen=True, slots=True)
class NoteService:
    """The model of a worker, as the routes use it; `defaults` hold the key and what the site knows.

    Requests stream in, so each note is processed alone: what is found in it is searched in all of it, and not in other
    notes of its patient. The model reads up to `together` waiting notes as a batch, which is faster.
    """

    model: Deidentifier
    defaults: RunOptions
    processor: Processor
    metrics: Metrics
    together: int = 1
    _gatherer: Gatherer[_Asked, DeidentificationResult] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Notes of a batch wait for each other, so a long one is read alone.
        gatherer = Gatherer(
            self.processor, self._read, most=self.together, room=BATCH_CHARACTERS, watch=self.metrics.gathered
        )
        object.__setattr__(self, "_gatherer", gatherer)

    @property
    def labels(self) -> tuple[str, ...]:
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
        note = Document("the text", text, patient_id=patient)
        result = await self._gatherer.one((note, chosen), size=len(text))
        if result.error is not None:
            raise Refused(422, result.error)
        return result

    def _read(self, asked: Sequence[_Asked]) -> list[DeidentificationResult | Exception]:
        """Return the results for notes; if the batch fails, for each alone, so that no other note is affected."""
        try:
            results = self.model.process_each(asked)
        except Exception as error:  # noqa: BLE001 (the client is told)
            return [error] if len(asked) == 1 else [found for one in asked for found in self._read([one])]
        for (note, _), result in zip(asked, results, strict=True):
            self.metrics.listed(result.counts)
            if result.error is None:
                self.metrics.processed(len(note.text), [span.label for span in result.spans])
            else:
                self.metrics.withheld()
        return list(results)
