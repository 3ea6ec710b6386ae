"""The model as a user of the library holds it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Self

from ensemble_deid.deidentify.known.site_lists import LEFT, SiteLists
from ensemble_deid.deidentify.notes import (
    BATCH_SIZE,
    Note,
    Options,
    check_note,
    describe_apart,
    predict_apart,
    predict_here,
)
from ensemble_deid.deidentify.replaced import replaced
from ensemble_deid.deidentify.replacement import Key, ReplacedSpan, Replacer
from ensemble_deid.errors import ConfigError, CorpusError, DeidError
from ensemble_deid.model.combiners import SVM
from ensemble_deid.model.description import ModelDescription
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.model.installed import find_model
from ensemble_deid.model.loading import ModelSource, load_again, load_model, model_source
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span


@dataclass(frozen=True, slots=True)
class DeidentificationResult:
    """A de-identified text and the spans that were taken out, or the reason why the text is withheld.

    `spans` are in characters of the text that came in, `replaced` says where in the new text they are. Where `error`
    is not None the text could not be processed whole: `text` is then None and `spans` is empty. `counts` says what the
    site's lists did, by the names in docs/known.md; `known_left` is how many known identifiers are left in `text`.

    >>> from ensemble_deid import DeidentificationResult, Span
    >>> DeidentificationResult("Seen by Dr. [DOCTOR].", (Span(12, 18, "DOCTOR"),)).text
    'Seen by Dr. [DOCTOR].'
    """

    text: str | None = field(repr=False)
    spans: tuple[Span, ...] = ()
    error: str | None = None
    replaced: tuple[ReplacedSpan, ...] = field(default=(), compare=False)
    known_left: int = 0
    counts: Mapping[str, int] = field(default_factory=dict, hash=False)


class Deidentifier:
    """Finds and removes PHI with a trained model.

    `description` says what the model is, and `source` where it was loaded from; processes of `jobs` load it from there,
    too.

    >>> from ensemble_deid import Deidentifier
    >>> model = Deidentifier.load("model")
    >>> model.deidentify("Date: 03/04/2019").text
    'Date: [DATE]'
    """

    def __init__(self, ensemble: Ensemble, source: ModelSource | None = None) -> None:
        self.description = ensemble.description
        self.source = source
        self._load: Callable[[], Ensemble] = lambda: ensemble

    @classmethod
    def _loaded_elsewhere(cls, source: ModelSource, description: ModelDescription) -> Self:
        model = cls.__new__(cls)
        model.description, model.source, model._load = description, source, cache(partial(load_again, source))
        return model

    @classmethod
    def load(
        cls,
        directory: str | Path,
        *,
        device: str | None = None,
        key: str | Path | None = None,
        submodels: Sequence[str] | None = None,
        jobs: int = 1,
    ) -> Self:
        """Read a model: its folder, or the name of an installed one. Raises ModelError if it is missing or damaged.

        `device` is `auto`, `cpu` or `cuda`, None for the one it was trained with. Raises ConfigError for another one,
        and for `cuda` where the model has a network and there is no GPU. `key` is the file of the key that the model
        must be signed with; without it, the environment variable ENSEMBLE_DEID_MODEL_KEY_FILE may name one.
        With `submodels` only these are loaded, which is faster without a slow one; ConfigError where the model has no
        final estimator for them (`stack.also_without` in its training). With more than one of `jobs`, the processes
        that `predict_each` will need for as many load it, and this one only when something else is asked of it.
        """
        _check_number("jobs", jobs)
        place = find_model(directory)
        source = model_source(place, device=device, key=key, submodels=submodels)
        if jobs > 1:
            return cls._loaded_elsewhere(source, describe_apart(source, jobs=jobs))
        ensemble, manifest = load_model(place, device=device, key=key, submodels=submodels)
        return cls(ensemble, replace(source, checksum=manifest.checksum))

    @property
    def ensemble(self) -> Ensemble:
        """The submodels and the stacker. Raises ModelError where the model must be loaded now, and was replaced."""
        return self._load()

    def predict(
        self,
        documents: Iterable[Document],
        *,
        submodel: str | None = None,
        threshold: float | None = None,
        combiner: str = SVM,
    ) -> list[Document]:
        """Return the documents with the spans that the model finds (and none of those they came with).

        `submodel`, `threshold` and `combiner` as in `Ensemble.predict`. Raises CorpusError, naming the document, for a
        text that is no string or holds NUL or unpaired surrogates.

        >>> from ensemble_deid import Deidentifier, Document
        >>> model = Deidentifier.load("model")
        >>> (found,) = model.predict([Document("note-1", "Date: 03/04/2019")])
        >>> [(span.start, span.end, span.label) for span in found.spans]
        [(6, 16, 'DATE')]
        """
        notes = list(documents)
        for note in notes:
            check_note(note)
        found = self.ensemble.predict(notes, submodel=submodel, threshold=threshold, combiner=combiner)
        predicted = [note.with_spans(spans) for note, spans in zip(notes, found, strict=True)]
        return predicted if submodel is not None else [self.without_listed(note)[0] for note in predicted]

    def without_listed(self, document: Document, *, must_stay: Iterable[Span] = ()) -> tuple[Document, int]:
        """Return a predicted document without spans inside sentences of the model's inclusion list, and their number.

        What overlaps a span of `must_stay` is kept. `predict`, `predict_each`, `deidentify` and `pipe` do this already.
        """
        if self.description.inclusion is None:
            return document, 0
        return self.description.inclusion.apply(document, must_stay=must_stay)

    def predict_each(
        self,
        notes: Iterable[Note],
        *,
        submodel: str | None = None,
        threshold: float | None = None,
        combiner: str = SVM,
        batch_size: int = BATCH_SIZE,
        jobs: int = 1,
        must_stay: Callable[[Document], Iterable[Span]] | None = None,
    ) -> Iterator[Note]:
        """Yield every note as `predict` returns it, or the error that says why it is withheld, in order.

        `must_stay` gives the places of a note where PHI is known to be, for `without_listed`.
        Notes are read as they are needed, so there may be more than fit into memory. Raises ConfigError at the call.
        """
        chunks = self.predict_chunks(
            notes, submodel=submodel, threshold=threshold, combiner=combiner, batch_size=batch_size, jobs=jobs
        )
        predicted = (note for chunk in chunks for note in chunk)
        if submodel is not None or self.description.inclusion is None:
            return predicted

        def listed_left_out(note: Note) -> Note:
            if isinstance(note, DeidError):
                return note
            return self.without_listed(note, must_stay=must_stay(note) if must_stay else ())[0]

        return map(listed_left_out, predicted)

    def predict_chunks(
        self,
        notes: Iterable[Note],
        *,
        submodel: str | None = None,
        threshold: float | None = None,
        combiner: str = SVM,
        batch_size: int = BATCH_SIZE,
        jobs: int = 1,
    ) -> Iterator[list[Note]]:
        """Return what `predict_each` does before the inclusion list, in one list the notes that go together.

        Who begins again where one of the lists ended gets the same lists from there on. Raises ConfigError, at the
        call, for options that this model cannot serve.
        """
        _check_number("batch_size", batch_size)
        _check_number("jobs", jobs)
        self.description.check_options(submodel=submodel, threshold=threshold, combiner=combiner)
        options = Options(submodel, threshold, combiner)
        if jobs == 1:
            return predict_here(self.ensemble, notes, options, batch_size=batch_size)
        if self.source is None:
            raise ConfigError(f"jobs={jobs} needs a model that other processes can load: save this one, then load it")
        return predict_apart(self.source, notes, options, batch_size=batch_size, jobs=jobs)

    def deidentify(
        self,
        text: str,
        *,
        style: str | None = None,
        styles: Mapping[str, str] | None = None,
        policy: str | Path | None = None,
        key: Key | str | Path | None = None,
        project: str = "",
        patient: str | None = None,
        threshold: float | None = None,
        combiner: str = SVM,
        lists: SiteLists | None = None,
        counts: Counter[str] | None = None,
    ) -> DeidentificationResult:
        """Return the text without its PHI.

        `style` is `tag` (the default), `numbered`, `mask`, `remove`, `hash`, `surrogate` or `text:WORDS`; `styles` has
        those of single labels, and `policy` names a policy (docs/styles-and-surrogates.md). Surrogates and hashes
        depend on `key` (a `Key`, a key file, else the environment's ENSEMBLE_DEID_KEY, else a new one), on `project`
        and on `patient`, the text itself where that is None; what only other texts of the patient tell, such as the
        whole of a name, is not known. `threshold` overrides the model's, `combiner` is `svm`, `union`, `majority` or
        `per-type`; `lists` are what the site knows, and what they did is in the result, and added to `counts` also
        where there is no result. Raises CorpusError when the text cannot be processed: it is no string, holds NUL or
        unpaired surrogates (then it is no clinical note), processing fails, or strict lists find a known identifier in
        the output. Raises ConfigError for an unknown style, label, policy or combiner, a bad key, or a threshold
        outside [0, 1].

        >>> from ensemble_deid import Deidentifier
        >>> model = Deidentifier.load("model")
        >>> model.deidentify("Date: 03/04/2019", style="mask").text
        'Date: XXXXXXXXXX'
        """
        replacer = self._replacer(style, styles, policy, key, project)
        note = Document("the text", text, patient_id=patient)
        places = None if lists is None else lists.places
        (predicted,) = self.predict_each([note], must_stay=places, threshold=threshold, combiner=combiner)
        result = _result(predicted, replacer, lists or SiteLists())
        if counts is not None:
            counts.update(result.counts)
        if result.error is not None:
            raise CorpusError(result.error)
        return result

    def pipe(
        self,
        texts: Iterable[str],
        *,
        style: str | None = None,
        styles: Mapping[str, str] | None = None,
        policy: str | Path | None = None,
        key: Key | str | Path | None = None,
        project: str = "",
        patients: Iterable[str] | None = None,
        threshold: float | None = None,
        combiner: str = SVM,
        lists: SiteLists | None = None,
        batch_size: int = BATCH_SIZE,
        jobs: int = 1,
    ) -> Iterator[DeidentificationResult]:
        """Yield a result for every text, in order; one that cannot be processed has its reason in `error`.

        `batch_size` texts go through the model together, in each of `jobs` processes; results do not depend on `jobs`.
        `patients` has the patient of each text; without it every text is a patient of its own. The other options as in
        `deidentify`. Each text is replaced alone: a part of a name whose whole is in another text of the patient may
        have another surrogate there (`deidentify_series` knows all texts). Raises ConfigError at the call, and
        CorpusError where there are fewer patients than texts, or more.

        >>> from ensemble_deid import Deidentifier
        >>> model = Deidentifier.load("model")
        >>> for result in model.pipe(["Date: 03/04/2019", None]):
        ...     print(result.text, "/", result.error)
        Date: [DATE] / None
        None / texts[1]: the text must be a string, not NoneType
        """
        replacer = self._replacer(style, styles, policy, key, project)
        if isinstance(texts, str):
            raise CorpusError("pipe takes several texts, not one string: use deidentify, or give a list")
        places = None if lists is None else lists.places
        documents = _documents(texts, patients)
        notes = self.predict_each(
            documents, must_stay=places, threshold=threshold, combiner=combiner, batch_size=batch_size, jobs=jobs
        )
        return (_result(note, replacer, lists or SiteLists()) for note in notes)

    def _replacer(
        self,
        style: str | None,
        styles: Mapping[str, str] | None,
        policy: str | Path | None,
        key: Key | str | Path | None,
        project: str,
    ) -> Replacer:
        chosen = key if isinstance(key, Key) else Key.find(key)
        return Replacer.from_options(style, styles, policy, chosen, project, labels=self.labels)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the model predicts."""
        return self.description.labels


def _check_number(name: str, value: int) -> None:
    if not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} must be a whole number of at least 1, not {value!r}")


def _documents(texts: Iterable[str], patients: Iterable[str] | None) -> Iterator[Document]:
    if patients is None:
        yield from (Document(f"texts[{number}]", text) for number, text in enumerate(texts))
        return
    known = iter(patients)
    for number, text in enumerate(texts):
        patient = next(known, None)
        if patient is None:
            raise CorpusError(f"texts[{number}]: has no patient")
        yield Document(f"texts[{number}]", text, patient_id=patient)
    if next(known, None) is not None:
        # One too many may mean that all of them are out of step with the texts.
        raise CorpusError("there are more patients than texts")


def _result(note: Note, replacer: Replacer, lists: SiteLists) -> DeidentificationResult:
    if isinstance(note, DeidError):
        return DeidentificationResult(None, (), str(note))
    counts: Counter[str] = Counter()
    note = lists.apply(note, counts, hides=replacer.styles.hides)
    outcome = replaced(note, replacer, lists, counts=counts)
    acted = {name: number for name, number in sorted(counts.items()) if number}
    if isinstance(outcome, DeidError):
        return DeidentificationResult(None, (), str(outcome), counts=acted)
    return DeidentificationResult(
        outcome.text, note.spans, replaced=outcome.spans, known_left=counts[LEFT], counts=acted
    )
