"""The model as a user of the library holds it."""

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain, repeat
from operator import length_hint
from pathlib import Path
from typing import Self, Unpack

from ensemble_deid.deidentify.gate import Gate
from ensemble_deid.deidentify.members import member_sources
from ensemble_deid.deidentify.one_pass import DeidentificationResult, NotePass, finish_alone, finish_together
from ensemble_deid.deidentify.options import RunChoices, RunOptions
from ensemble_deid.deidentify.prediction import (
    Note,
    Report,
    RunProgress,
    check_note,
    describe_apart,
    predict_apart,
    predict_here,
)
from ensemble_deid.deidentify.recognizers import recognised
from ensemble_deid.errors import ConfigError, CorpusError, DeidError
from ensemble_deid.model.additions import InclusionList
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.model.installed import find_model
from ensemble_deid.model.loading import ModelSource, load_again, load_model, load_once, model_source
from ensemble_deid.model.options import PredictionChoices, PredictionOptions, check_number
from ensemble_deid.note.document import Document, patient_text
from ensemble_deid.note.overlaps import join_overlaps
from ensemble_deid.note.span import Span

_LOG = logging.getLogger(__name__)


class Deidentifier:
    """Finds and removes PHI with a trained model.

    `description` says what the model is, and `source` where it was loaded from; processes of `jobs` load it from there,
    too. So does whoever unpickles one: a pickle holds the folder and its checksum, not the model.

    >>> from ensemble_deid import Deidentifier
    >>> model = Deidentifier.load("model")
    >>> model.deidentify("Date: 03/04/2019").text
    'Date: [DATE]'
    """

    def __init__(self, ensemble: Ensemble, source: ModelSource | None = None) -> None:
        self.description = ensemble.description
        self.source = source
        self._load: Callable[[], Ensemble] = lambda: ensemble

    def __reduce__(self) -> "tuple[Callable[[ModelSource], Deidentifier], tuple[ModelSource]]":
        """Return how the model is made again from a pickle. Raises ConfigError where it is in no folder."""
        if self.source is None:
            raise ConfigError("a model that is in no folder cannot be pickled: save it, then load it")
        return _loaded_from, (self.source,)

    @classmethod
    def load(
        cls,
        directory: str | Path,
        *,
        device: str | None = None,
        trust: str | Path | None = None,
        submodels: Sequence[str] | None = None,
        members: Mapping[str, str | Path] | None = None,
        jobs: int = 1,
    ) -> Self:
        """Read a model: its folder, or the name of an installed one. Raises ModelError if it is missing or damaged.

        `device` is `auto`, `cpu` or `cuda`, None for the one it was trained with. Raises ConfigError for another one,
        and for `cuda` where the model has a network and there is no GPU. `trust` is a file of public keys, one of which
        must have signed the model; without it, the environment variable ENSEMBLE_DEID_TRUSTED_KEYS may name one.
        With `submodels` only these are loaded, which is faster without a slow one; ConfigError where the model has no
        final estimator for them (`stack.also_without` in its training). `members` has where the spans of other systems
        come from that the model was trained with: a file, or `recognizer:NAME`; ConfigError without them. With more
        than one of `jobs`, the processes that `predict_each` will need for as many load it, and this one only when
        something else is asked of it.
        """
        check_number("jobs", jobs)
        place = find_model(directory)
        given = member_sources(members or {})
        source = model_source(place, device=device, trust=trust, submodels=submodels, members=given)
        if jobs > 1:
            model = cls.__new__(cls)
            model.description, model.source = describe_apart(source, jobs=jobs), source
            model._load = cache(partial(load_again, source))
            return model
        ensemble, manifest = load_model(place, device=device, trust=trust, submodels=submodels, members=given)
        _LOG.info("%s: loaded with %s", place, ", ".join(ensemble.taggers))
        return cls(ensemble, replace(source, checksum=manifest.checksum))

    @property
    def ensemble(self) -> Ensemble:
        """The submodels and the stacker. Raises ModelError where the model must be loaded now, and was replaced."""
        return self._load()

    def predict(self, documents: Iterable[Document], **choices: Unpack[PredictionChoices]) -> list[Document]:
        """Return the documents with the spans that the model finds (and none of those they came with).

        These are the model's own predictions, with the matches of its enforced patterns: neither repeats nor lists are
        searched, as `process` does. `choices` are those of `PredictionOptions`. Raises CorpusError, naming the
        document, for a text that is no string or holds NUL or unpaired surrogates.

        >>> from ensemble_deid import Deidentifier, Document
        >>> model = Deidentifier.load("model")
        >>> (found,) = model.predict([Document("note-1", "Date: 03/04/2019")])
        >>> [(span.start, span.end, span.label) for span in found.spans]
        [(6, 16, 'DATE')]
        """
        notes, options = list(documents), PredictionOptions(**choices)
        for note in notes:
            check_note(note)
        ensemble = self.ensemble
        pairs = zip(notes, ensemble.predict(notes, options), strict=True)
        if options.submodel is not None:
            return [note.with_spans(spans) for note, spans in pairs]
        enforced = (note.with_spans((*spans, *ensemble.enforced_spans(note))) for note, spans in pairs)
        return [self._settled(note, options) for note in enforced]

    def _settled(self, note: Document, options: PredictionOptions, must_stay: Iterable[Span] = ()) -> Document:
        """Return a note without listed spans, and with enforced spans joined with those that they overlap."""
        if options.submodel is not None:
            return note.with_spans(span for span in note.spans if not span.is_enforced)
        note, _ = self.without_listed(note, must_stay=must_stay)
        if not any(span.is_enforced for span in note.spans):
            return note
        return note.with_spans(join_overlaps(note.spans, prefer=lambda span: (span.is_enforced, span.end - span.start)))

    def without_listed(self, document: Document, *, must_stay: Iterable[Span] = ()) -> tuple[Document, int]:
        """Return a predicted document without spans inside sentences of the model's inclusion list, and their number.

        Spans that overlap one of `must_stay` are kept. `predict`, `predict_each` and `process` call this already.
        """
        if self.description.inclusion is None:
            return document, 0
        return self.description.inclusion.apply(document, must_stay=must_stay)

    def predict_each(
        self,
        notes: Iterable[Note],
        *,
        must_stay: Callable[[Document], Iterable[Span]] | None = None,
        **choices: Unpack[PredictionChoices],
    ) -> Iterator[Note]:
        """Yield for every note, in order, what `predict` returns, or the error that says why it is withheld.

        Notes are read as they are needed, so they need not fit into memory. `must_stay` gives the places of a note
        where PHI is known to be. Raises ConfigError at the call.
        """
        options = PredictionOptions(**choices)

        def settled(note: Note) -> Note:
            if isinstance(note, DeidError):
                return note
            listed = must_stay is not None and self.description.inclusion is not None
            return self._settled(note, options, must_stay(note) if must_stay and listed else ())

        return map(settled, chain.from_iterable(self.predict_chunks(notes, options)))

    def predict_chunks(self, notes: Iterable[Note], options: PredictionOptions) -> Iterator[list[Note]]:
        """Yield what `predict_each` does before the inclusion list, in one list the notes that are processed together.

        Resuming at a list's boundary yields the same lists from there on. Raises ConfigError at the call for options
        that this model cannot serve.
        """
        self.description.check_options(options)
        if options.jobs == 1:
            return predict_here(self.ensemble, notes, options)
        if self.source is None:
            raise ConfigError(
                f"jobs={options.jobs} needs a model that other processes can load: save this one, then load it"
            )
        return predict_apart(self.source, notes, options)

    def read_notes(self, notes: Iterable[Note], options: RunOptions) -> Iterator[list[Note]]:
        """Return what `predict_chunks` does, with what a run's recognizers find, each asked once for a note."""
        chunks = self.predict_chunks(notes, options.prediction)
        return ([recognised(note, options.recognizers) for note in chunk] for chunk in chunks)

    def process(
        self,
        notes: Iterable[Note],
        options: RunOptions,
        *,
        together: bool = False,
        report: Report = lambda progress: None,
    ) -> Iterator[DeidentificationResult]:
        """Yield what becomes of every note, in order: the one pass that every door calls.

        The model and the recognizers read the note; the site's lists and the strings that were found are searched in
        it; what overlaps becomes one span; all spans are replaced. Each note is processed alone, as it is needed,
        unless `together`: then all are read first, and what is found in one note of a patient is searched in the
        patient's others. An error among the notes is handed on. `report` is told how many notes the model has read.
        Raises ConfigError at the call.

        >>> from ensemble_deid import Deidentifier, Document, RunOptions
        >>> model = Deidentifier.load("model")
        >>> notes = [Document("note-1", "Date: 03/04/2019", patient_id="7")]
        >>> [result.text for result in model.process(notes, RunOptions(), together=True)]
        ['Date: [DATE]']
        """
        total = length_hint(notes)
        chunks = self.read_notes(notes, options)
        gate, inclusion = self._gate(options), self._inclusion(options.prediction)

        def predicted() -> Iterator[Note]:
            done = 0
            for chunk in chunks:
                done += len(chunk)
                report(RunProgress("read", done, total))
                yield from chunk

        def results() -> Iterator[DeidentificationResult]:
            if together:
                yield from finish_together(list(predicted()), options, gate, inclusion)
            else:
                yield from (finish_alone(note, options, gate, inclusion) for note in predicted())

        return map(_logged, results())

    def process_each(self, asked: Sequence[tuple[Note, RunOptions]]) -> list[DeidentificationResult]:
        """Process each note alone with its own options; notes with equal `prediction` go through the model together."""
        numbers: dict[PredictionOptions, list[int]] = {}
        for number, (_, options) in enumerate(asked):
            numbers.setdefault(options.prediction, []).append(number)
        results: dict[int, DeidentificationResult] = {}
        for prediction, own in numbers.items():
            together = replace(prediction, batch_size=len(own))
            chunks = self.predict_chunks([asked[number][0] for number in own], together)
            for number, note in zip(own, chain.from_iterable(chunks), strict=True):
                options = asked[number][1]
                read, gate = recognised(note, options.recognizers), self._gate(options)
                results[number] = _logged(finish_alone(read, options, gate, self._inclusion(prediction)))
        return [results[number] for number in range(len(asked))]

    def note_pass(self, options: RunOptions) -> NotePass:
        """Return the pass over notes that come in parts or in several readings, as `read_notes` returns them."""
        return NotePass(options, self._gate(options), self._inclusion(options.prediction))

    def _gate(self, options: RunOptions) -> Gate | None:
        return Gate.of(self.description, options.prediction, least_recall=options.least_recall)

    def deidentify(
        self,
        text: str,
        *,
        patient: Hashable = None,
        options: RunOptions | None = None,
        **choices: Unpack[RunChoices],
    ) -> DeidentificationResult:
        """Return the text without its PHI.

        What was found is searched in the whole text. Surrogates and hashes depend on `patient`, of any hashable type (7
        and "7" are one patient), on the text itself where that is None; what only other texts of the patient tell, such
        as the whole of a name, is not known. How it is done is in `options`, or in `choices`, those of
        `RunOptions.choose`: `style`, `policy`, `key`, `threshold`, `lists` and others. Raises CorpusError when the text
        cannot be processed: it is no string, holds NUL or unpaired surrogates (then it is no clinical note), processing
        fails, the gate holds it back, or strict lists find a known identifier in the output. Raises ConfigError for
        options that do not exist or that the model cannot serve.

        >>> from ensemble_deid import Deidentifier
        >>> model = Deidentifier.load("model")
        >>> model.deidentify("Date: 03/04/2019", style="mask").text
        'Date: XXXXXXXXXX'
        """
        chosen = RunOptions.given(options, choices, self.labels)
        (result,) = self.process([Document("the text", text, patient_id=patient_text(patient))], chosen)
        if result.error is not None:
            raise CorpusError(result.error)
        return result

    def pipe(
        self,
        texts: Iterable[str],
        *,
        patients: Iterable[Hashable] | None = None,
        report: Report = lambda progress: None,
        options: RunOptions | None = None,
        **choices: Unpack[RunChoices],
    ) -> Iterator[DeidentificationResult]:
        """Yield a result for every text, in order; one that cannot be processed has its reason in `error`.

        Texts stream through, so each is processed alone: what is found in one text of a patient is not searched in the
        others, and a part of a name whose whole is in another text may have another surrogate there (`process` with
        `together`, and `deidentify_series`, know all texts). `patients` has the patient of each text, None for a text
        that is a patient of its own, as all are without it. `report` is told how many texts the model has read.
        `options` and `choices` as in `deidentify`. Raises ConfigError at the call, and CorpusError where there are
        fewer patients than texts, or more.

        >>> from ensemble_deid import Deidentifier
        >>> model = Deidentifier.load("model")
        >>> for result in model.pipe(["Date: 03/04/2019", None]):
        ...     print(result.text, "/", result.error)
        Date: [DATE] / None
        None / texts[1]: the text must be a string, not NoneType
        """
        chosen = RunOptions.given(options, choices, self.labels)
        if isinstance(texts, str):
            raise CorpusError("pipe takes several texts, not one string: use deidentify, or give a list")
        total = length_hint(texts)
        notes = _documents(texts, patients)
        return self.process(notes, chosen, report=lambda progress: report(replace(progress, total=total)))

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the model predicts."""
        return self.description.labels

    def _inclusion(self, options: PredictionOptions) -> InclusionList | None:
        """Return the inclusion list; the answer of a submodel is left as it is."""
        return None if options.submodel is not None else self.description.inclusion


def _loaded_from(source: ModelSource) -> Deidentifier:
    """Load a model from its folder, once in a process. Raises ModelError where it was replaced."""
    return Deidentifier(load_once(source), source)


def _logged(result: DeidentificationResult) -> DeidentificationResult:
    if result.error is not None:
        _LOG.info("withheld: %s", result.error)
    return result


def _documents(texts: Iterable[str], patients: Iterable[Hashable] | None) -> Iterator[Note]:
    known, ended = repeat(None) if patients is None else iter(patients), object()
    for number, text in enumerate(texts):
        patient = next(known, ended)
        if patient is ended:
            raise CorpusError(f"texts[{number}]: has no patient")
        try:
            yield Document(f"texts[{number}]", text, patient_id=patient_text(patient))
        except CorpusError as error:
            yield CorpusError(f"texts[{number}]: {error}")
    if patients is not None and next(known, ended) is not ended:
        # One too many may mean that all of them are out of step with the texts.
        raise CorpusError("there are more patients than texts")
