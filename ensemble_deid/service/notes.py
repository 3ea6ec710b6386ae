"""Notes on their way through the model: each is processed whole, or the request is refused without its text."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.known.site_lists import SiteLists
from ensemble_deid.deidentify.replacement import Key, Replacer
from ensemble_deid.deidentify.replacement.styles import STYLES, policies
from ensemble_deid.errors import ConfigError, CorpusError, DeidError
from ensemble_deid.note.digits import rounded
from ensemble_deid.note.document import Document
from ensemble_deid.service.metrics import Metrics
from ensemble_deid.service.processor import Processor
from ensemble_deid.service.refusal import Refused
from ensemble_deid.service.tokens import KNOWN, REPLACE, may, require

Result = TypeVar("Result")
KEYED_STYLES = frozenset({"hash", "surrogate"})


@dataclass(frozen=True, slots=True)
class Options:
    """How a note is de-identified."""

    style: str | None = None
    styles: Mapping[str, str] = field(default_factory=dict)
    policy: str | None = None
    project: str = ""
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Notes:
    """The model of a worker, as the routes use it; `lists` are what the site knows besides."""

    model: Deidentifier
    key: Key
    processor: Processor
    metrics: Metrics
    lists: SiteLists = field(default_factory=SiteLists)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the model predicts."""
        return self.model.labels

    async def run(self, function: Callable[[], Result]) -> Result:
        """Return what the function returns, from the model's thread. Raises Refused after the time limit."""
        return await self.processor.run(function)

    async def predict(self, text: str) -> Document:
        """Return the note with the spans found. Raises Refused, which does not quote it."""
        lists = self._granted_lists()
        return await self.run(lambda: self._predicted(text, lists))

    async def deidentify(self, text: str, patient: str | None, options: Options) -> dict[str, Any]:
        """Return the new text, and the spans with their offsets in both texts. Raises Refused."""
        lists = self._granted_lists()
        return await self.run(lambda: self._deidentified(text, patient, options, lists))

    def _granted_lists(self) -> SiteLists:
        """Return the site's lists where the request may have them applied, none otherwise: they tell whom they hold."""
        if self.lists.strict:
            require(KNOWN, "notes with known identifiers are withheld (--strict)")
        return self.lists if may(KNOWN) else SiteLists()

    def check(self, options: Options) -> Options:
        """Return the options. Raises Refused, without quoting them, where they name something that does not exist."""
        # A policy may be a file, but none that a client names.
        if options.policy is not None and options.policy not in policies():
            raise Refused(422, f"policy: unknown; known are {', '.join(policies())}")
        try:
            replacer = Replacer.from_options(
                options.style, options.styles, options.policy, self.key, labels=self.labels
            )
        except ConfigError:
            known = f"styles are {', '.join(STYLES)} and text:WORDS, some for single labels only"
            raise Refused(422, f"style or styles: unknown; {known}; labels are {', '.join(self.labels)}") from None
        if not KEYED_STYLES.isdisjoint(replacer.styles.used):
            require(REPLACE, "style, styles or policy: surrogates and hashes depend on the service's key")
        return options

    def _predicted(self, text: str, lists: SiteLists) -> Document:
        (note,) = self.model.predict_each([Document("the text", text)], must_stay=lists.places)
        if isinstance(note, DeidError):
            self.metrics.withheld()
            raise Refused(422, str(note))
        counts: Counter[str] = Counter()
        note = lists.apply(note, counts)
        self.metrics.listed(counts)
        self.metrics.processed(len(text), [span.label for span in note.spans])
        return note

    def _deidentified(self, text: str, patient: str | None, options: Options, lists: SiteLists) -> dict[str, Any]:
        counts: Counter[str] = Counter()
        try:
            result = self.model.deidentify(
                text,
                style=options.style,
                styles=options.styles,
                policy=options.policy,
                key=self.key,
                project=options.project,
                patient=patient,
                threshold=options.threshold,
                lists=lists,
                counts=counts,
            )
        except CorpusError as error:
            self.metrics.withheld()
            raise Refused(422, str(error)) from None
        finally:
            self.metrics.listed(counts)
        self.metrics.processed(len(text), [span.label for span in result.spans])
        spans = [{**asdict(span), "score": rounded(span.score)} for span in result.replaced]
        known = {} if lists.known is None else {"known_left": result.known_left}
        return {"text": result.text, "spans": spans, **known}
