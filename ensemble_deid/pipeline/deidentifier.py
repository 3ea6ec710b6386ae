"""The model as a user of the library holds it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.errors import CorpusError, DeidError
from ensemble_deid.pipeline.directory import load_model
from ensemble_deid.pipeline.ensemble import Ensemble
from ensemble_deid.pipeline.installed import find_model
from ensemble_deid.pipeline.notes import BATCH_SIZE, ModelSource, Note, check_note, predict_notes
from ensemble_deid.pipeline.redaction import check_style, redact
from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span


@dataclass(frozen=True, slots=True)
class DeidentificationResult:
    """A de-identified text and the spans that were taken out, or the reason why the text is withheld.

    `spans` are in characters of the text that came in. Where `error` is not None the text could not be processed
    whole: `text` is then None and `spans` is empty.

    >>> from ensemble_deid import DeidentificationResult, Span
    >>> DeidentificationResult("Seen by Dr. [DOCTOR].", (Span(12, 18, "DOCTOR"),)).text
    'Seen by Dr. [DOCTOR].'
    """

    text: str | None = field(repr=False)
    spans: tuple[Span, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Deidentifier:
    """Finds and removes PHI with a trained model.

    `source` is where it was loaded from; processes of `jobs` load it from there, too.

    >>> from ensemble_deid import Deidentifier
    >>> model = Deidentifier.load("model")
    >>> model.deidentify("Date: 03/04/2019").text
    'Date: [DATE]'
    """

    ensemble: Ensemble
    source: ModelSource | None = None

    @classmethod
    def load(
        cls,
        directory: str | Path,
        *,
        device: str | None = None,
        key: str | Path | None = None,
        submodels: Sequence[str] | None = None,
    ) -> "Deidentifier":
        """Read a model: its folder, or the name of an installed one. Raises ModelError if it is missing or damaged.

        `device` is `auto`, `cpu` or `cuda`, None for the one it was trained with. Raises ConfigError for another one,
        and for `cuda` where the model has a network and there is no GPU. `key` is the file of the key that the model
        must be signed with; without it, the environment variable ENSEMBLE_DEID_MODEL_KEY_FILE may name one.
        With `submodels` only these are loaded, which is faster without a slow one; ConfigError where the model has no
        final estimator for them (`stack.also_without` in its training).
        """
        place = find_model(directory)
        ensemble, manifest = load_model(place, device=device, key=key, submodels=submodels)
        # Absolute, since a process that was started earlier may stand in another folder.
        return cls(ensemble, ModelSource(place.absolute(), device, manifest.checksum, tuple(ensemble.taggers)))

    def predict(
        self, documents: Iterable[Document], *, submodel: str | None = None, threshold: float | None = None
    ) -> list[Document]:
        """Return the documents with the spans that the model finds (and none of those they came with).

        `submodel` and `threshold` as in `Ensemble.predict`. Raises CorpusError, naming the document, for a text that
        is no string or holds NUL or unpaired surrogates.

        >>> from ensemble_deid import Deidentifier, Document
        >>> model = Deidentifier.load("model")
        >>> (found,) = model.predict([Document("note-1", "Date: 03/04/2019")])
        >>> [(span.start, span.end, span.label) for span in found.spans]
        [(6, 16, 'DATE')]
        """
        notes = list(documents)
        for note in notes:
            check_note(note)
        found = self.ensemble.predict(notes, submodel=submodel, threshold=threshold)
        return [note.with_spans(spans) for note, spans in zip(notes, found, strict=True)]

    def predict_each(
        self,
        notes: Iterable[Note],
        *,
        submodel: str | None = None,
        threshold: float | None = None,
        batch_size: int = BATCH_SIZE,
        jobs: int = 1,
    ) -> Iterator[Note]:
        """Yield every note as `predict` returns it, or the error that says why it is withheld, in order.

        Notes are read as they are needed, so there may be more than fit into memory. Raises ConfigError at the call.
        """
        return predict_notes(
            self.ensemble,
            notes,
            source=self.source,
            submodel=submodel,
            threshold=threshold,
            batch_size=batch_size,
            jobs=jobs,
        )

    def deidentify(self, text: str, *, style: str = "tag", threshold: float | None = None) -> DeidentificationResult:
        """Return the text without its PHI.

        `style` is one of `tag`, `mask`, `remove`; `threshold` overrides the model's. Raises CorpusError when the text
        cannot be processed: it is no string, holds NUL or unpaired surrogates (then it is no clinical note), or
        processing fails. Raises ConfigError for an unknown style or a threshold outside [0, 1].

        >>> from ensemble_deid import Deidentifier
        >>> model = Deidentifier.load("model")
        >>> model.deidentify("Date: 03/04/2019", style="mask").text
        'Date: XXXXXXXXXX'
        """
        check_style(style)
        (note,) = self.predict_each([Document("the text", text)], threshold=threshold)
        result = _result(note, style)
        if result.error is not None:
            raise CorpusError(result.error)
        return result

    def pipe(
        self,
        texts: Iterable[str],
        *,
        style: str = "tag",
        threshold: float | None = None,
        batch_size: int = BATCH_SIZE,
        jobs: int = 1,
    ) -> Iterator[DeidentificationResult]:
        """Yield a result for every text, in order; one that cannot be processed has its reason in `error`.

        `batch_size` texts go through the model together, in each of `jobs` processes; results do not depend on `jobs`.
        `style` and `threshold` as in `deidentify`. Raises ConfigError at the call.

        >>> from ensemble_deid import Deidentifier
        >>> model = Deidentifier.load("model")
        >>> for result in model.pipe(["Date: 03/04/2019", None]):
        ...     print(result.text, "/", result.error)
        Date: [DATE] / None
        None / texts[1]: the text must be a string, not NoneType
        """
        check_style(style)
        if isinstance(texts, str):
            raise CorpusError("pipe takes several texts, not one string: use deidentify, or give a list")
        documents = (Document(f"texts[{number}]", text) for number, text in enumerate(texts))
        notes = self.predict_each(documents, threshold=threshold, batch_size=batch_size, jobs=jobs)
        return (_result(note, style) for note in notes)


def _result(note: Note, style: str) -> DeidentificationResult:
    if isinstance(note, DeidError):
        return DeidentificationResult(None, (), str(note))
    try:
        return DeidentificationResult(redact(note.text, note.spans, style=style), note.spans)
    except ValueError as error:
        # The message is left out, since it might quote the note.
        return DeidentificationResult(None, (), f"{note.id}: redaction failed ({type(error).__name__})")
