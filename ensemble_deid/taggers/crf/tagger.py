"""The CRF submodel: trained by CRFsuite on windows over the feature table, read back as arrays for exact inference."""

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from ensemble_deid.arrays import Floats, Int32s, Int64s
from ensemble_deid.config import CrfConfig
from ensemble_deid.errors import ModelError, needs_extra
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.knowledge import PREFIX as KNOWLEDGE_PREFIX
from ensemble_deid.features.stanza_tags import COLUMNS as STANZA_COLUMNS
from ensemble_deid.features.table import Column
from ensemble_deid.features.vocabulary import patient_of_token, patients_by_value
from ensemble_deid.features.windows import joined_column
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.taggers.base import Progress, Proposals
from ensemble_deid.taggers.chain import LinearChain
from ensemble_deid.taggers.crf.crfsuite_file import (
    MAGIC,
    CrfsuiteWeights,
    compact_weights,
    read_compact_weights,
    read_crfsuite,
)
from ensemble_deid.taggers.crf.windows import DEFAULT_WINDOWS, STANZA_WINDOWS, knowledge_windows, read_windows
from ensemble_deid.taggers.decoding import decode, tag_probabilities
from ensemble_deid.taggers.sequences import chain_proposals, merge_lines, sequence_of_rows

FILE, COMPACT = "crf.crfsuite", "crf.weights.xz"


@dataclass(frozen=True, slots=True, eq=False)
class CrfTagger:
    """A linear-chain CRF (Lafferty et al. 2001), its weights as arrays.

    Attribute `row_of[a]` has the weights `first[row]` to `first[row + 1]` of `weight`, for the tags in `tag`.
    """

    scheme: TagScheme
    config: CrfConfig
    data: bytes = field(repr=False)
    row_of: dict[str, int] = field(repr=False)
    first: Int64s = field(repr=False)
    tag: Int64s = field(repr=False)
    weight: Floats = field(repr=False)
    chain: LinearChain = field(repr=False)

    @classmethod
    def fit(
        cls,
        train: Batch,
        dev: Batch | None,
        *,
        scheme: TagScheme,
        config: CrfConfig,
        seed: int,
        device: str,
        progress: Progress,
    ) -> Self:
        """Train with L-BFGS. `dev` is not used: the penalties and the number of iterations are settings."""
        # Here, not above: only training needs it, and it takes a second to load.
        with needs_extra("train", "training a CRF"):
            import sklearn_crfsuite

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
            progress(f"CRF: {len(starts)} sequences, {len(columns)} windows, {config.max_iterations} iterations")
            patient = patient_of_token(train.documents, train.tokens)
            crf.fit(_Items(columns, bounds, patient, min_patients=config.min_patients), labels)
            data = path.read_bytes()
        return cls.from_bytes(data, scheme=scheme, config=config)

    @classmethod
    def from_bytes(cls, data: bytes, *, scheme: TagScheme, config: CrfConfig) -> Self:
        """Return the tagger for the bytes of a CRFsuite model, or of its compact form. Raises ModelError."""
        read = read_crfsuite(data) if data.startswith(MAGIC) else read_compact_weights(data)
        code = {tag: k for k, tag in enumerate(scheme.tags)}
        if any(label not in code for label in read.labels):
            raise ModelError("the CRF's model file has tags that the model's manifest does not name")
        return cls(scheme, config, data, *_arrays(read, np.array([code[label] for label in read.labels]), len(code)))

    def propose(self, batch: Batch, *, n_best: int) -> Proposals:
        """Return the spans of the best tagging and of the n best, scored with exact marginals."""
        columns, starts = _columns(batch, self.config)
        decoded = decode(self.chain, self.emissions(columns, len(batch.tokens)), starts, n=n_best)
        return chain_proposals(decoded, batch.tokens, self.scheme, source="crf")

    def probabilities(self, batch: Batch) -> Floats:
        """Return the exact marginal probability of every tag of the scheme at every token, (n_tokens, tags)."""
        columns, starts = _columns(batch, self.config)
        return tag_probabilities(self.chain, self.emissions(columns, len(batch.tokens)), starts)

    def emissions(self, columns: Sequence[tuple[str, Column]], n_tokens: int) -> Floats:
        """Return the score of every tag at every token, (n_tokens, tags): weights are looked up by code."""
        scores = np.zeros((n_tokens, len(self.scheme.tags)))
        for name, column in columns:
            rows = np.array([self.row_of.get(f"{name}={value}", -1) for value in column.values], dtype=np.int64)
            known = np.flatnonzero(rows >= 0)
            if not len(known):
                continue
            # Only the weights of values in this batch are made dense; row 0 is for unknown values.
            dense = np.zeros((len(known) + 1, scores.shape[1]))
            begin = self.first[rows[known]]
            sizes = self.first[rows[known] + 1] - begin
            row = np.repeat(np.arange(1, len(known) + 1), sizes)
            at = np.arange(len(row)) + np.repeat(begin - np.cumsum(sizes) + sizes, sizes)
            dense[row, self.tag[at]] = self.weight[at]
            place = np.zeros(len(rows), dtype=np.int64)
            place[known] = np.arange(1, len(known) + 1)
            scores += dense[place[column.codes]]
        return scores

    def save(self, directory: Path) -> None:
        """Write the model file as CRFsuite made it, or as it was compacted."""
        (directory / (FILE if self.data.startswith(MAGIC) else COMPACT)).write_bytes(self.data)

    @staticmethod
    def compact_saved(directory: Path) -> None:
        """Replace the file that `save` wrote by its compact form, unless it has that already."""
        if not (directory / FILE).is_file():
            return
        (directory / COMPACT).write_bytes(compact_weights(read_crfsuite((directory / FILE).read_bytes())))
        (directory / FILE).unlink()

    @classmethod
    def load(cls, directory: Path, *, scheme: TagScheme, config: CrfConfig, device: str) -> Self:
        """Read the model file without CRFsuite's own reader, which crashes on damaged files.

        Raises ModelError for a damaged file, and for a compact one that is larger than a model can be.
        """
        path = directory / COMPACT if (directory / COMPACT).is_file() else directory / FILE
        data = path.read_bytes()
        if path.name == FILE and not data.startswith(MAGIC):
            raise ModelError("the CRF's model file is damaged: its header does not fit")
        try:
            return cls.from_bytes(data, scheme=scheme, config=config)
        except ModelError as error:
            if path.name == COMPACT:
                raise ModelError(f"{path}: {error}") from None
            raise


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
    """Return the named window columns of a batch, and the first row of each sequence."""
    starts = merge_lines(batch.tokens, max_tokens=config.max_sequence)
    sequence = sequence_of_rows(starts, len(batch.tokens))
    present = set(batch.table.names)
    built_in = DEFAULT_WINDOWS
    built_in += knowledge_windows([name for name in batch.table.names if name.startswith(KNOWLEDGE_PREFIX)])
    named = read_windows(config.windows or built_in)
    if present.issuperset(STANZA_COLUMNS):
        # What a list names itself is not added once more.
        known = {name for name, _ in named}
        named += [(name, windows) for name, windows in read_windows(STANZA_WINDOWS) if name not in known]
    for name, windows in named:
        missing = [window.column for window in windows if window.column not in present]
        if missing:
            raise ModelError(f"the CRF's window {name} asks for the feature {missing[0]!r}, which is not there")
    return [(name, joined_column(batch.table, windows, sequence)) for name, windows in named], starts


def _arrays(
    read: CrfsuiteWeights, tag: Int64s, n_tags: int
) -> tuple[dict[str, int], Int64s, Int64s, Floats, LinearChain]:
    """Return attribute rows, where each row's weights begin, their tags, these, and the chain, in the scheme's order.

    A tag that does not occur in training gets a very low score, so that it is never predicted.
    """
    order = np.argsort(read.attribute_of_weight, kind="stable")
    first = np.searchsorted(read.attribute_of_weight[order], np.arange(len(read.attributes) + 1))
    tags, weight = tag[read.label_of_weight[order]], read.weight[order]
    transitions = np.zeros((n_tags, n_tags))
    transitions[np.ix_(tag, tag)] = read.transitions
    never = np.ones(n_tags, dtype=bool)
    never[tag] = False
    start = np.where(never, -100.0, 0.0)
    transitions[:, never] = -100.0
    chain = LinearChain(transitions, start, np.zeros(n_tags))
    return {a: k for k, a in enumerate(read.attributes)}, first.astype(np.int64), tags, weight, chain
