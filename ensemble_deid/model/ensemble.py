"""A trained ensemble as one object, documents in, spans out; and what other processes need to know of it.

Part of that is the arithmetic of its networks. Single precision on two processors differs in the last digits. Eight
bits and bfloat16 round far more coarsely, and are used where a processor has instructions for them: a span near the
threshold may then be found on one machine alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ensemble_deid.config import Config
from ensemble_deid.errors import ConfigError
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.patterns import PatternSet, find_all
from ensemble_deid.model.additions import InclusionList, labels_found
from ensemble_deid.model.feature_extractor import FeatureExtractor
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.model.measured import languages_of_training
from ensemble_deid.model.options import AS_TRAINED, COMBINERS, SVM, PredictionOptions, combine_named, threshold_factor
from ensemble_deid.model.portions import portions
from ensemble_deid.note.completion import Completion, complete, rules_for
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import drop_overlaps
from ensemble_deid.note.proven_numbers import add_proven_numbers
from ensemble_deid.note.reading import LOWER_CASE, Reading, read
from ensemble_deid.note.span import ENFORCED, Span
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.reproducible import one_thread
from ensemble_deid.stacking.stacker import Stacker, check_threshold
from ensemble_deid.stacking.voting import BestMembers
from ensemble_deid.taggers.base import Computing, Proposals, Tagger
from ensemble_deid.taggers.by_type import ByTypeTagger, UncasedTagger
from ensemble_deid.taggers.given import Members, with_given


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A loaded model's submodels, labels and threshold, and in which arithmetic its networks compute, by submodel.

    `best_members`, `inclusion` and `manifest` as in `Ensemble`. A parent process that leaves predicting to others needs
    only this.
    """

    submodels: tuple[str, ...]
    labels: tuple[str, ...]
    threshold: float
    arithmetic: Mapping[str, str]
    best_members: BestMembers = field(repr=False)
    inclusion: InclusionList | None = field(repr=False)
    manifest: Manifest | None = field(default=None, repr=False)

    def check_options(self, options: PredictionOptions) -> None:
        """Raise ConfigError for options that the model cannot serve.

        These are a submodel or a combiner that it does not have, a threshold outside [0, 1], and two of them that
        exclude each other: only the final estimator has a threshold, and an answer of one submodel is not combined.
        """
        if options.submodel is not None and options.submodel not in self.submodels:
            raise ConfigError(f"this model has no submodel {options.submodel!r}; it has: {', '.join(self.submodels)}")
        check_threshold(options.threshold)
        combiner = options.combiner
        if combiner not in COMBINERS:
            raise ConfigError(f"there is no combiner {combiner!r}; there are: {', '.join(COMBINERS)}")
        if combiner == SVM:
            return
        if options.submodel is not None:
            raise ConfigError(f"the combiner {combiner} and the submodel {options.submodel}: give one of the two")
        if options.threshold is not None:
            raise ConfigError(f"the combiner {combiner} has no threshold: its claims are those of the submodels")
        if combiner == "per-type":
            self._check_best_members()

    def _check_best_members(self) -> None:
        if not self.best_members:
            raise ConfigError(
                "this model does not say which submodels are best for each label, which the combiner per-type needs: "
                "choose them on dev notes (ensemble-deid model members MODEL DEV)"
            )
        for label in self.best_members:
            if not set(self.best_members[label]) & set(self.submodels):
                raise ConfigError(f"the combiner per-type: none of the best submodels for {label} is loaded")


def view_of(reading: Reading, document: Document) -> Document:
    """Return the reading of a note; one in lower case becomes capitals, which the submodels know."""
    view = reading.document(document)
    if LOWER_CASE not in reading.forms:
        return view
    return replace(view, text="".join(c.upper() if len(c.upper()) == 1 else c for c in view.text))


def as_seen(document: Document) -> Document:
    """Return a note, with its annotations, as the submodels see a new one."""
    return view_of(read(document.text), document)


def arithmetic_in_use(taggers: Mapping[str, Tagger]) -> dict[str, str]:
    """Return the arithmetic of each submodel that is a network, such as `eight bits, cpu`."""
    found = {
        name: sorted({member.arithmetic for member in _members(tagger) if isinstance(member, Computing)})
        for name, tagger in taggers.items()
    }
    return {name: " and ".join(kinds) for name, kinds in found.items() if kinds}


def arithmetic_of_training(config: Config) -> dict[str, str]:
    """Return the arithmetic in which this process trains each submodel that is a network."""
    if not {"neural", "transformer"} & set(config.submodels):
        return {}
    # torch, which only networks need.
    from ensemble_deid.taggers.device import bfloat16_helps, choose_device, described, network_in_bfloat16

    device = choose_device(config.device)
    in_bfloat16 = {"neural": network_in_bfloat16(device), "transformer": bfloat16_helps(device)}
    return {
        name: described("products in bfloat16" if helps else "single precision", device)
        for name, helps in in_bfloat16.items()
        if name in config.submodels
    }


def _members(tagger: Tagger) -> Iterator[Tagger]:
    """Yield the models that a submodel consists of."""
    if isinstance(tagger, ByTypeTagger):
        for member in tagger.members:
            yield from _members(member)
    elif isinstance(tagger, UncasedTagger):
        yield from _members(tagger.tagger)
    else:
        yield tagger


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The submodels, the stacker that combines them, and the feature extractor that they share.

    `smaller` are the stackers of `Config.smaller_stacks`, for loading the model with some of the submodels only.
    `best_members` are those that the combiner `per-type` takes for each label; empty where they were never chosen.
    `inclusion` lists sentences without PHI; `Deidentifier` applies it to what `predict` returns, and adds the matches
    of the patterns `enforced` (`enforced_spans`). `manifest` is the record of the training, None before that has ended.
    `members` are where the spans of those taggers come from that are other systems.
    """

    config: Config
    scheme: TagScheme
    feature_extractor: FeatureExtractor
    taggers: Mapping[str, Tagger] = field(repr=False)
    stacker: Stacker = field(repr=False)
    smaller: tuple[Stacker, ...] = field(default=(), repr=False)
    inclusion: InclusionList | None = field(default=None, repr=False)
    enforced: PatternSet | None = field(default=None, repr=False)
    best_members: BestMembers = field(default_factory=dict, repr=False)
    manifest: Manifest | None = field(default=None, repr=False)
    members: Members = ()

    @property
    def description(self) -> ModelDescription:
        return ModelDescription(
            submodels=tuple(self.taggers),
            labels=labels_found(self.scheme.labels, self.enforced),
            threshold=self.stacker.threshold,
            arithmetic=arithmetic_in_use(self.taggers),
            best_members=self.best_members,
            inclusion=self.inclusion,
            manifest=self.manifest,
        )

    def with_given(self, document: Document) -> Document:
        """Return a note as written with the spans of the members. Raises CorpusError where one says nothing of it."""
        return with_given(document, self.members)

    def propose(self, batch: Batch) -> dict[str, Proposals]:
        # One thread: summing in another order would make the last digits depend on the number of cores.
        with one_thread():
            n_best = self.config.stack.n_best
            return {name: tagger.propose(batch, n_best=n_best) for name, tagger in self.taggers.items()}

    def predict(
        self,
        documents: Sequence[Document],
        options: PredictionOptions = AS_TRAINED,
        *,
        rules: Sequence[Completion] | None = None,
    ) -> list[tuple[Span, ...]]:
        """Return the PHI spans of every document, in text order, without overlaps.

        A note in a hard form has a lower threshold (`LOWERED`). Spans are completed by `rules`, by default those for
        the languages of the training notes, with the numbers that prove themselves; a submodel's own predictions are
        not, nor is anything with no rules. Raises ConfigError for what `ModelDescription.check_options` refuses.
        """
        self.description.check_options(options)
        documents = [self.with_given(document) for document in documents]
        readings = [read(document.text) for document in documents]
        views = [view_of(reading, document) for reading, document in zip(readings, documents, strict=True)]
        factors = [threshold_factor(reading) for reading in readings]
        found: list[list[Span]] = [[] for _ in documents]
        for portion in portions(views):
            batch = self.feature_extractor.extract([piece.document for piece in portion])
            shares = [factors[piece.index] for piece in portion]
            for piece, spans in zip(portion, self._predict_batch(batch, options, shares), strict=True):
                found[piece.index].extend(piece.in_whole(span) for span in spans)
        if options.submodel is None and (rules is None or rules):
            found = [list(self.completed(view, spans, rules)) for view, spans in zip(views, found, strict=True)]
        return [reading.original_spans(spans) for reading, spans in zip(readings, found, strict=True)]

    def completed(
        self, view: Document, spans: Sequence[Span], rules: Sequence[Completion] | None = None
    ) -> tuple[Span, ...]:
        """Return a note's spans completed as `predict` does; `view` is as read."""
        labels = self.scheme.labels
        if rules is None:
            rules = rules_for(() if self.manifest is None else languages_of_training(self.manifest))
        return complete(view.text, add_proven_numbers(view.text, spans, labels), labels, rules)

    def enforced_spans(self, document: Document) -> tuple[Span, ...]:
        """Return the matches of the enforced patterns in a note, also overlapping ones. Raises CorpusError."""
        if self.enforced is None:
            return ()
        reading = read(document.text)
        found = find_all(self.enforced, reading.document(document.with_spans(())))
        return reading.original_spans(replace(span, source=ENFORCED + span.source) for span in found)

    def _predict_batch(
        self, batch: Batch, options: PredictionOptions, factors: Sequence[float]
    ) -> list[tuple[Span, ...]]:
        if not len(batch.tokens):
            return [() for _ in batch.documents]
        if options.submodel is not None:
            with one_thread():
                best = self.taggers[options.submodel].propose(batch, n_best=1).best
            return [drop_overlaps(spans) for spans in best]
        proposals = self.propose(batch)
        if options.combiner != SVM:
            return combine_named(options.combiner, proposals, labels=self.scheme.labels, members=self.best_members)
        with one_thread():
            return self.stacker.predict(proposals, batch, threshold=options.threshold, factors=factors)
