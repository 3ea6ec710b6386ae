"""A spaCy pipeline component, `ensemble_deid`, which marks PHI in `doc.ents` and `doc.spans`.

spaCy finds it by its entry point. The model is named in the pipeline's config, and is not saved with the pipeline:
an installed model package, used by its name, is found wherever the pipeline is loaded.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans, raise_error

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.gate import LEAST_RECALL
from ensemble_deid.deidentify.known.site_lists import ListFiles
from ensemble_deid.deidentify.one_pass import log_remark
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import clip_overlaps
from ensemble_deid.note.span import Span as CharacterSpan

ErrorHandler = Callable[[str, Any, list[Doc], Exception], Any]
EXTENSION = "phi"
"""`doc._.phi` has the spans in characters; None where the document has not been processed."""

DEFAULTS = {
    "spans_key": "phi",
    "set_ents": True,
    "threshold": None,
    "device": None,
    "lists": {},
    "accept_unfit": False,
    "least_recall": LEAST_RECALL,
}


@Language.factory("ensemble_deid", assigns=["doc.ents", "doc.spans", f"doc._.{EXTENSION}"], default_config=DEFAULTS)
def make_component(
    nlp: Language,
    name: str,
    model: str,
    spans_key: str,
    set_ents: bool,
    threshold: float | None,
    device: str | None,
    lists: dict[str, str],
    accept_unfit: bool,
    least_recall: float,
) -> "PhiComponent":
    """Return the component for a model, given by its folder or the name of an installed one. Raises ModelError.

    Spans go to `doc.spans[spans_key]` (no key: an empty string), with their probabilities in its `attrs["scores"]`,
    and with `set_ents` to `doc.ents`, in the place of earlier entities that they overlap. `threshold` overrides the
    model's, as in `PredictionOptions`; `lists` names the files `known`, `allow` and `deny` of what the site knows;
    `accept_unfit` and `least_recall` as in `RunOptions`.
    """
    if not Doc.has_extension(EXTENSION):
        Doc.set_extension(EXTENSION, default=None)
    loaded = Deidentifier.load(model, device=device)
    unknown = sorted(set(lists) - {"known", "allow", "deny"})
    if unknown:
        raise ConfigError(f"lists: there is no {unknown[0]!r}; there are known, allow and deny")
    known, allow, deny = (Path(lists[kind]) if kind in lists else None for kind in ("known", "allow", "deny"))
    files = ListFiles(known, allow, deny)
    options = RunOptions.choose(
        loaded.labels, lists=files, threshold=threshold, accept_unfit=accept_unfit, least_recall=least_recall
    )
    return PhiComponent(name, loaded, options, spans_key=spans_key, set_ents=set_ents)


@dataclass(slots=True)
class PhiComponent:
    """Marks PHI in documents, each of which is processed alone: what is found in it is searched in all of it.

    A span that begins or ends inside a token of spaCy's covers the whole token. A document that cannot be processed
    raises CorpusError. `Language.pipe` gives the error to the handler that `Language.set_error_handler` has set, if
    any, and leaves the document out; a single document always raises, since spaCy would otherwise return it unmarked.
    """

    name: str
    model: Deidentifier = field(repr=False)
    options: RunOptions = field(default_factory=RunOptions)
    spans_key: str = field(default="phi", kw_only=True)
    set_ents: bool = field(default=True, kw_only=True)
    error_handler: ErrorHandler = field(default=raise_error, repr=False, kw_only=True)

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

        for result in self.model.process(documents(), self.options):
            doc = waiting.pop(0)
            if result.error is not None:
                handler(self.name, self, [doc], CorpusError(result.error))
            else:
                log_remark(result)
                yield self._mark(doc, result.spans)

    def _mark(self, doc: Doc, found: Sequence[CharacterSpan]) -> Doc:
        marked = list(_on_tokens(doc, found))
        doc._.set(EXTENSION, [span.to_dict() for span in found])
        if self.spans_key:
            doc.spans[self.spans_key] = _of_doc(doc, marked)
            doc.spans[self.spans_key].attrs["scores"] = [span.score for span in marked]
        if self.set_ents:
            ours = clip_overlaps(marked)
            taken = {token for span in ours for token in range(span.start, span.end)}
            others = [ent for ent in doc.ents if taken.isdisjoint(range(ent.start, ent.end))]
            doc.set_ents(filter_spans([*_of_doc(doc, ours), *others]))
        return doc


def _on_tokens(doc: Doc, found: Iterable[CharacterSpan]) -> Iterator[CharacterSpan]:
    """Yield each span with the numbers of the tokens that it touches in the place of its characters."""
    starts = [token.idx for token in doc]
    ends = [token.idx + len(token) for token in doc]
    for span in found:
        first, last = bisect_right(ends, span.start), bisect_left(starts, span.end)
        # Between tokens there is nothing but white space.
        if first < last:
            yield replace(span, start=first, end=last)


def _of_doc(doc: Doc, spans: Iterable[CharacterSpan]) -> list[Span]:
    return [Span(doc, span.start, span.end, label=span.label) for span in spans]
