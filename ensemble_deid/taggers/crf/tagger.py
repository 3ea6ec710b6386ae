"""The CRF submodel: trained by CRFsuite on windows over the feature table, read back as arrays for exact inference."""

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from ensemble_deid.arrays import Floats, Int32s, Int64s
from ensemble_deid.compiled import has_core
from ensemble_deid.config import CrfConfig
from ensemble_deid.errors import ModelError, needs_extra
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.knowledge import PREFIX as KNOWLEDGE_PREFIX
from ensemble_deid.features.stanza_tags import COLUMNS as STANZA_COLUMNS
from ensemble_deid.features.table import Column
from ensemble_deid.features.vocabulary import patient_of_token, patients_by_value
from ensemble_deid.features.windows import Window, codes_at, joined_column
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.taggers.base import FitOptions, Proposals
from ensemble_deid.taggers.chain import LinearChain
from ensemble_deid.taggers.crf.crfsuite_file import read_crfsuite
from ensemble_deid.taggers.crf.weights import CrfWeights, WindowWeights
from ensemble_deid.taggers.crf.windows import DEFAULT_WINDOWS, STANZA_WINDOWS, knowledge_windows, read_windows
from ensemble_deid.taggers.decoding import decode
from ensemble_deid.taggers.sequences import chain_proposals, merge_lines, sequence_of_rows

FILE = "crf.safetensors"


@dataclass(frozen=True, slots=True, eq=False)
class CrfTagger:
    """A linear-chain CRF (Lafferty et al. 2001). `tag` (labels,) has the scheme's tag for each label of the weights."""

    scheme: TagScheme
    config: CrfConfig
    weights: CrfWeights = field(repr=False)
    tag: Int64s = field(repr=False)
    chain: LinearChain = field(repr=False)

    @classmethod
    def fit(cls, train: Batch, dev: Batch | None, options: FitOptions) -> Self:
        """Train with L-BFGS. `dev` is not used: the penalties and the number of iterations are settings."""
        # Here, not above: only training needs it, and it takes a second to load.
        with needs_extra("train", "training a CRF"):
            import sklearn_crfsuite

        scheme, config = options.scheme, options.config
        columns, starts = _columns(train, config)
        gold = train.gold(scheme)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / FILE
            crf = sklearn_crfsuite.CRF(
                algorithm="lbfgs",
                c1=config.c1,
                c2=config.c2,
                max_iterations=config.max_iterations,
                min_freq=config.min_frequency,
                model_filename=str(path),
                keep_tempfiles=True,
            )
            bounds = [*starts.tolist(), len(gold)]
            names = scheme.tags
            labels = [[names[code] for code in gold[a:b].tolist()] for a, b in itertools.pairwise(bounds)]
            options.progress(
                f"CRF: {len(starts)} sequences, {len(columns)} windows, {config.max_iterations} iterations"
            )
            patient = patient_of_token(train.documents, train.tokens)
            crf.fit(_Items(columns, bounds, patient, min_patients=config.min_patients), labels)
            weights = CrfWeights.of_crfsuite(read_crfsuite(path.read_bytes()))
        return cls.of_weights(weights, scheme=scheme, config=config)

    @classmethod
    def of_weights(cls, weights: CrfWeights, *, scheme: TagScheme, config: CrfConfig) -> Self:
        """Return a tagger with these weights. Raises ModelError if their labels are not tags of the scheme."""
        code = {tag: k for k, tag in enumerate(scheme.tags)}
        if any(label not in code for label in weights.labels):
            raise ModelError("the CRF's model file has tags that the model's manifest does not name")
        tag = np.array([code[label] for label in weights.labels], dtype=np.int64)
        return cls(scheme, config, weights, tag, _chain(weights, tag, len(code)))

    def propose(self, batch: Batch, *, n_best: int) -> Proposals:
        """Return the spans of the best tagging and of the n best, scored with exact marginals."""
        emissions, starts = self.emissions(batch)
        decoded = decode(self.chain, emissions, starts, n=n_best)
        return chain_proposals(decoded, batch.tokens, self.scheme, source="crf")

    def emissions(self, batch: Batch) -> tuple[Floats, Int32s]:
        """Return the score of every tag at every token, (n_tokens, tags), and the first row of each sequence."""
        starts, sequence = _sequences(batch, self.config)
        scores = np.zeros((len(batch.tokens), len(self.scheme.tags)))
        weights, valued = self.weights, self._valued(batch, sequence)
        if not has_core():
            for known, values, sizes in valued:
                self._add(scores, *known.places(values, sizes))
        else:
            from ensemble_deid import _core

            windows = [(known.keys, known.first, tuple(values), tuple(sizes)) for known, values, sizes in valued]
            arrays = (weights.begins, weights.label, self.tag, weights.weight)
            _core.add_windows(scores, scores.shape[1], arrays, windows)
        return scores, starts

    def _valued(self, batch: Batch, sequence: Int32s) -> Iterator[tuple[WindowWeights, list[Int64s], list[int]]]:
        """Yield the windows that have weights, the number of each token's value, and how many values there are."""
        numbers: dict[str, Int64s] = {}
        shifted: dict[Window, Int64s] = {}
        for name, windows in _named_windows(batch, self.config):
            known = self.weights.windows.get(name)
            if known is None:
                continue
            for window in windows:
                if window.column not in numbers:
                    numbers[window.column] = self.weights.numbers(window.column, batch.table[window.column])
                if window not in shifted:
                    codes = batch.table[window.column].codes
                    pad = len(batch.table[window.column].values)
                    shifted[window] = numbers[window.column][codes_at(codes, window.first, sequence, pad)]
            sizes = [len(self.weights.columns[window.column]) for window in windows]
            yield known, [shifted[window] for window in windows], sizes

    def _add(self, scores: Floats, tokens: Int64s, attributes: Int64s) -> None:
        weights = self.weights
        distinct, number = np.unique(attributes, return_inverse=True)
        begin = weights.begins[distinct].astype(np.int64)
        sizes = weights.begins[distinct + 1] - begin
        row = np.repeat(np.arange(len(distinct)), sizes)
        at = np.arange(len(row)) + np.repeat(begin - np.cumsum(sizes) + sizes, sizes)
        dense = np.zeros((len(distinct), scores.shape[1]))
        dense[row, self.tag[weights.label[at]]] = weights.weight[at]
        scores[tokens] += dense[number]

    def save(self, directory: Path) -> None:
        (directory / FILE).write_bytes(self.weights.to_bytes())

    @staticmethod
    def compact_saved(directory: Path) -> None:
        """Leave out weights near 0 of those that `save` wrote, and round the others to single precision."""
        data = CrfWeights.of_file(directory / FILE).compact().to_bytes()
        (directory / FILE).unlink()
        (directory / FILE).write_bytes(data)

    @classmethod
    def load(cls, directory: Path, *, scheme: TagScheme, config: CrfConfig, device: str) -> Self:
        """Map the model file. Raises ModelError for a damaged one."""
        return cls.of_weights(CrfWeights.of_file(directory / FILE), scheme=scheme, config=config)


class _Items:
    """The attributes of each sequence, generated while CRFsuite reads them, so that they never fill the memory.

    Attributes that fewer than `min_patients` patients have are left out: they are unknown when notes are tagged, too.
    """

    def __init__(
        self,
        columns: Sequence[tuple[str, Column]],
        bounds: Sequence[int],
        patient: Int64s,
        *,
        min_patients: int,
    ) -> None:
        self._names = [np.array([f"{name}={value}" for value in column.values], object) for name, column in columns]
        self._complete = min_patients == 1
        if not self._complete:
            for names, (_, column) in zip(self._names, columns, strict=True):
                names[patients_by_value(column.codes, patient, n_values=len(column.values)) < min_patients] = ""
        self._codes = [column.codes for _, column in columns]
        self._bounds = bounds

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __iter__(self) -> Iterator[list[list[str]]]:
        for a, b in itertools.pairwise(self._bounds):
            parts = [names[codes[a:b]].tolist() for names, codes in zip(self._names, self._codes, strict=True)]
            items = zip(*parts, strict=True)
            yield [list(item) if self._complete else [name for name in item if name] for item in items]


def _columns(batch: Batch, config: CrfConfig) -> tuple[list[tuple[str, Column]], Int32s]:
    """Return the named window columns, and the first row of each sequence."""
    starts, sequence = _sequences(batch, config)
    windows = _named_windows(batch, config)
    return [(name, joined_column(batch.table, parts, sequence)) for name, parts in windows], starts


def _sequences(batch: Batch, config: CrfConfig) -> tuple[Int32s, Int32s]:
    """Return the first row of each sequence, and the number of each token's sequence."""
    starts = merge_lines(batch.tokens, max_tokens=config.max_sequence)
    return starts, sequence_of_rows(starts, len(batch.tokens))


def _named_windows(batch: Batch, config: CrfConfig) -> list[tuple[str, tuple[Window, ...]]]:
    """Return the windows over a batch's columns. Raises ModelError where the batch lacks one."""
    present = set(batch.table.names)
    built_in = DEFAULT_WINDOWS
    built_in += knowledge_windows([name for name in batch.table.names if name.startswith(KNOWLEDGE_PREFIX)])
    named = [*read_windows(tuple(config.windows) or built_in)]
    if present.issuperset(STANZA_COLUMNS):
        # What a list names itself is not added once more.
        known = {name for name, _ in named}
        named += [(name, windows) for name, windows in read_windows(STANZA_WINDOWS) if name not in known]
    for name, windows in named:
        missing = [window.column for window in windows if window.column not in present]
        if missing:
            raise ModelError(f"the CRF's window {name} asks for the feature {missing[0]!r}, which is not there")
    return named


def _chain(weights: CrfWeights, tag: Int64s, n_tags: int) -> LinearChain:
    """Return the chain in the scheme's order of tags.

    A tag that does not occur in training gets a very low score, so that it is never predicted.
    """
    transitions = np.zeros((n_tags, n_tags))
    transitions[np.ix_(tag, tag)] = weights.transitions
    never = np.ones(n_tags, dtype=bool)
    never[tag] = False
    start = np.where(never, -100.0, 0.0)
    transitions[:, never] = -100.0
    return LinearChain(transitions, start, np.zeros(n_tags))
