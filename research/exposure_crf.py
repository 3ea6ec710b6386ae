"""The parrot attack on de-identified notes: a CRF that learns what a model's surrogates look like.

Carrell et al. 2019, "The machine giveth and the machine taketh away: a parrot attack on clinical text deidentified with
hiding in plain sight" (JAMIA 26(12)). A tagger trained on notes with surrogates repeats what the model finds, also
what it misses; what a reader sees and the parrot does not is then likely to be the original's.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from ensemble_deid.arrays import Floats
from ensemble_deid.config import Config, CrfConfig, RegexConfig
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.features.batch import Batch, training_view, with_lexicon
from ensemble_deid.model.feature_extractor import fit_feature_extractor
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.note.tokens import TokenTable
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.chain import Marginals
from ensemble_deid.taggers.crf.tagger import CrfTagger
from research.exposure_places import HiddenNote, Place

SURROGATE, MISSED = "SURROGATE", "MISSED"
_LEAST = 2
Suspicion = list[list[float]]
"""For every note, how likely each of its places is to be the original's: between 0 and 1."""


def parrot(notes: Sequence[HiddenNote]) -> Suspicion:
    """Let a CRF learn the places of one half of the patients, and say how little it expects those of the other half.

    As in the paper, whoever attacks has nothing but the notes, and takes all that looks like PHI for surrogates.
    Raises EvaluationError where all notes are of one patient.
    """
    half = _halves(notes)
    found: Suspicion = [[] for _ in notes]
    for part in (0, 1):
        taught = [_taught(note, lambda _: SURROGATE) for note, side in zip(notes, half, strict=True) if side != part]
        attacked = [k for k, side in enumerate(half) if side == part]
        for k, scores in zip(attacked, _suspicion(taught, [notes[k] for k in attacked]), strict=True):
            found[k] = scores
    return found


def informed(taught: Sequence[HiddenNote], attacked: Sequence[HiddenNote]) -> Suspicion:
    """Let a CRF learn surrogates and missed PHI of notes of which the attacker knows which is which.

    Where nothing is missed in these, it is a parrot.
    """
    documents = [_taught(note, lambda place: MISSED if place.missed else SURROGATE) for note in taught]
    return _suspicion(documents, attacked)


def _halves(notes: Sequence[HiddenNote]) -> list[int]:
    patients = sorted({note.document.group for note in notes})
    if len(patients) < _LEAST:
        raise EvaluationError("an attacker who learns from one half of the patients needs two patients")
    return [patients.index(note.document.group) % 2 for note in notes]


def _taught(note: HiddenNote, label: Callable[[Place], str]) -> Document:
    return note.document.with_spans(Span(place.start, place.end, label(place)) for place in note.places)


def _suspicion(taught: Sequence[Document], attacked: Sequence[HiddenNote]) -> Suspicion:
    scheme = TagScheme.from_labels((MISSED, SURROGATE))
    # Everything that the submodel of this project sees of a word, but for patterns, which know nothing of surrogates.
    config = Config(regex=RegexConfig(patterns="none"), crf=CrfConfig(max_iterations=60))
    plain, extractor = fit_feature_extractor(taught, scheme.labels, config=config)
    train = training_view(with_lexicon(plain, extractor.lexicon, leave_own_patient_out=True))
    crf = CrfTagger.fit(train, None, FitOptions(scheme, config.crf, seed=config.seed))
    batch = extractor.extract([note.document for note in attacked])
    probabilities = _tag_probabilities(crf, batch)
    missed, surrogate = (
        probabilities[:, scheme.begin(index)] + probabilities[:, scheme.inside(index)]
        for index in (scheme.labels.index(MISSED), scheme.labels.index(SURROGATE))
    )
    phi = missed + surrogate
    knows = any(span.label == MISSED for document in taught for span in document.spans)
    of_token = np.divide(missed, phi, out=np.zeros_like(phi), where=phi > 0) if knows else 1 - surrogate
    return [_means(of_token, note.places, batch.tokens, number) for number, note in enumerate(attacked)]


def _tag_probabilities(crf: CrfTagger, batch: Batch) -> Floats:
    """Return the marginal probability of every tag at every token, (n_tokens, tags)."""
    emissions, starts = crf.emissions(batch)
    found = np.zeros_like(emissions)
    for low, high in pairwise([*starts.tolist(), len(emissions)]):
        length = np.array([high - low], dtype=np.int32)
        found[low:high] = Marginals.from_emissions(crf.chain, emissions[None, low:high], length).of_tags()[0]
    return found


def _means(of_token: Floats, places: Sequence[Place], tokens: TokenTable, document: int) -> list[float]:
    """Return the mean over the tokens of each place."""
    low, high = int(tokens.document_starts[document]), int(tokens.document_starts[document + 1])
    starts, ends = tokens.start[low:high], tokens.end[low:high]
    means = []
    for place in places:
        first = low + int(np.searchsorted(ends, place.start, side="right"))
        last = low + int(np.searchsorted(starts, place.end, side="left"))
        means.append(float(of_token[first:last].mean()) if last > first else 0.0)
    return means
