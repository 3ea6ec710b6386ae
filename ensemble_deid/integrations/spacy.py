"""A spaCy pipeline component, `ensemble_deid`, which marks PHI in `doc.ents` and `doc.spans`.

spaCy finds it by its entry point. The model is named in the pipeline's config, and is not saved with the pipeline:
an installed model package, used by its name, is found wherever the pipeline is loaded.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans, raise_error

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import DeidError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span as CharacterSpan

ErrorHandler = Callable[[str, Any, list[Doc], Exception], Any]
EXTENSION = "phi"
"""`doc._.phi` has the spans in characters; None where the document has not been processed."""

DEFAULTS = {"spans_key": "phi", "set_ents": True, "threshold": None, "device": None}


@Language.factory("ensemble_deid", assigns=["doc.ents", "doc.spans", f"doc._.{EXTENSION}"], default_config=DEFAULTS)
def make_component(
    nlp: Language,
    name: str,
    model: str,
    spans_key: str,
    set_ents: bool,
    threshold: float | None,
    device: str | None,
) -> "PhiComponent":
    """Return the component for a model, given by its folder or the name of an installed one. Raises ModelError.

    Spans go to `doc.spans[spans_key]` (no key: an empty string), with their probabilities in its `attrs["scores"]`,
    and with `set_ents` to `doc.ents`, in the place of earlier entities that they overlap. `threshold` overrides the
    model's: below 0.05 single words are marked, too, at 0 a quarter of a note's or 12 (only for models with
    `stack.tokens`).
    """
    if not Doc.has_extension(EXTENSION):
        Doc.set_extension(EXTENSION, default=None)
    return PhiComponent(name, Deidentifier.load(model, device=device), spans_key, set_ents, threshold)


@dataclass(slots=True)
class PhiComponent:
    """Marks PHI in documents. A span that begins or ends inside a token of spaCy's covers the whole token.

    A document that cannot be processed raises CorpusError. `Language.pipe` gives the error to the handler that
    `Language.set_error_handler` has set, if any, and leaves the document out; a single document always raises, since
    spaCy would otherwise return it unmarked.
    """

    name: str
    model: Deidentifier = field(repr=False)
    spans_key: str
    set_ents: bool
    threshold: float | None
    error_handler: ErrorHandler = field(default=raise_error, repr=False)

    def __call__(self, doc: Doc) -> Doc:
        """Mark one document."""
        (marked,) = self._marked([doc], raise_error)
        return marked

    def pipe(self, docs: Iterable[Doc], *, batch_size: int = 0) -> Iterator[Doc]:
        """Mark a stream of documents; the model's own batches are used, whatever the pipeline's `batch_size`."""
        return self._marked(docs, self.error_handler)

    def set_error_handler(self, error_handler: ErrorHandler) -> None:
        """Set what is told of documents that cannot be processed in `pipe`."""
        self.error_handler = error_handler

    def get_error_handler(self) -> ErrorHandler:
        """Return the handler for a single document, which raises."""
        handler: ErrorHandler = raise_error
        return handler

    def _marked(self, docs: Iterable[Doc], handler: ErrorHandler) -> Iterator[Doc]:
        waiting: list[Doc] = []

        def documents() -> Iterator[Document]:
            for number, doc in enumerate(docs):
                waiting.append(doc)
                yield Document(f"document {number}", doc.text)

        for note in self.model.predict_each(documents(), threshold=self.threshold):
            doc = waiting.pop(0)
            if isinstance(note, DeidError):
                handler(self.name, self, [doc], note)
            else:
                yield self._mark(doc, note.spans)

    def _mark(self, doc: Doc, found: Sequence[CharacterSpan]) -> Doc:
        pairs = list(_on_tokens(doc, found))
        doc._.set(EXTENSION, [span.to_dict() for span in found])
        marked = [spacy_span for _, spacy_span in pairs]
        if self.spans_key:
            doc.spans[self.spans_key] = marked
            doc.spans[self.spans_key].attrs["scores"] = [span.score for span, _ in pairs]
        if self.set_ents:
            ours = _without_overlaps(doc, marked)
            taken = {token for span in ours for token in range(span.start, span.end)}
            others = [ent for ent in doc.ents if taken.isdisjoint(range(ent.start, ent.end))]
            doc.set_ents(filter_spans([*ours, *others]))
        return doc


def _on_tokens(doc: Doc, found: Iterable[CharacterSpan]) -> Iterator[tuple[CharacterSpan, Span]]:
    """Yield each span with the tokens that it touches."""
    starts = [token.idx for token in doc]
    ends = [token.idx + len(token) for token in doc]
    for span in found:
        first, last = bisect_right(ends, span.start), bisect_left(starts, span.end)
        # Between tokens there is nothing but white space.
        if first < last:
            yield span, Span(doc, first, last, label=span.label)


def _without_overlaps(doc: Doc, spans: Iterable[Span]) -> list[Span]:
    """Return spans that cover the same tokens, each at most once: of two on one token, the later begins after it."""
    kept: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        start = max(span.start, kept[-1].end) if kept else span.start
        if start < span.end:
            kept.append(Span(doc, start, span.end, label=span.label_))
    return kept
