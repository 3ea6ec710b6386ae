"""The submodel `neural`: a BiLSTM-CNN-CRF, or the parts that the configuration names."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from safetensors.numpy import load, save

from ensemble_deid.arrays import Flags, Floats, Int32s
from ensemble_deid.config import NeuralConfig
from ensemble_deid.errors import ModelError, needs_extra
from ensemble_deid.features.batch import Batch
from ensemble_deid.note.counts import strict_counts
from ensemble_deid.note.tags import TagScheme, tags_to_spans
from ensemble_deid.parsing import strict_json
from ensemble_deid.reproducible import one_thread
from ensemble_deid.taggers.base import FitOptions, Proposals
from ensemble_deid.taggers.chain import LinearChain
from ensemble_deid.taggers.decoding import decode
from ensemble_deid.taggers.device import described, wants_gpu
from ensemble_deid.taggers.layers import Array, read_weights
from ensemble_deid.taggers.neural.arrays import WORD_TABLES, ArrayNetwork, network_shapes
from ensemble_deid.taggers.neural.encoding import Encoded, SequenceBatch, Vocabularies, bucket, encode
from ensemble_deid.taggers.quantisation import SCALE, check_stored, dequantise, quantise
from ensemble_deid.taggers.sequences import chain_proposals, merge_lines

if TYPE_CHECKING:
    from ensemble_deid.taggers.neural.network import TorchNetwork

WEIGHTS, VOCABULARY = "network.safetensors", "network.json"
_PREDICT_TOKENS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class NeuralTagger:
    """A trained network with its vocabularies."""

    scheme: TagScheme
    config: NeuralConfig
    vocabularies: Vocabularies = field(repr=False)
    network: "ArrayNetwork | TorchNetwork" = field(repr=False)
    epochs: int

    @classmethod
    def fit(cls, train: Batch, dev: Batch | None, options: FitOptions) -> Self:
        """Train on `device`; with `dev`, the epoch with the best strict F1 on it is kept, otherwise the last one.

        `start` gives its weights where shapes are equal, and those of the words, characters, values and tags that both
        have. Raises ConfigError where torch is not installed.
        """
        with needs_extra("train", "training a network"):
            from ensemble_deid.taggers.neural.fitting import fit_network

        def dev_score(vocabularies: Vocabularies, network: "TorchNetwork") -> float | None:
            fitted = cls(options.scheme, options.config, vocabularies, network, epochs=0)
            return None if dev is None else fitted.strict_f1(dev)

        found, network, epochs = fit_network(train, options, dev_score=None if dev is None else dev_score)
        return cls(options.scheme, options.config, found, network, epochs=epochs)

    def strict_f1(self, batch: Batch) -> float | None:
        """Return the strict entity F1 of the network's tags on an annotated batch, None where it is undefined."""
        chain, emissions, starts = self._score(batch)
        found = tags_to_spans(decode(chain, emissions, starts, n=0).best, batch.tokens, self.scheme)
        return strict_counts((document.spans for document in batch.documents), found).f1

    @property
    def arithmetic(self) -> str:
        """What the network computes with, and where."""
        return described(self.network.arithmetic, self.network.device)

    def propose(self, batch: Batch, *, n_best: int) -> Proposals:
        """Return the spans of the best tagging and of the n best, scored with exact marginals."""
        chain, emissions, starts = self._score(batch)
        decoded = decode(chain, emissions, starts, n=n_best)
        return chain_proposals(decoded, batch.tokens, self.scheme, source="neural")

    def _score(self, batch: Batch) -> tuple[LinearChain, Floats, Int32s]:
        starts = merge_lines(batch.tokens, max_tokens=self.config.max_sequence)
        encoded = encode(batch, self.vocabularies)
        with one_thread():
            # A GPU takes many notes at once; its sums vary anyway.
            notes = batch.tokens.document_starts if str(self.network.device) == "cpu" else None
            emissions = score_tokens(self.network, encoded, starts, notes=notes, n_tags=len(self.scheme.tags))
        emissions[:, 0] += self.config.outside_bias
        return self._chain(), emissions, starts

    def _chain(self) -> LinearChain:
        """Return the scores of transitions between tags; all are 0 with softmax, where tags are independent."""
        n_tags = len(self.scheme.tags)
        if self.config.decoder != "crf":
            return LinearChain(np.zeros((n_tags, n_tags)), np.zeros(n_tags), np.zeros(n_tags))
        weights = self.network.weights
        names = ("crf.transitions", "crf.start_transitions", "crf.end_transitions")
        return LinearChain(*(weights[name].astype(np.float64) for name in names))

    def save(self, directory: Path) -> None:
        """Write the weights as safetensors and the vocabularies as JSON."""
        weights = {name: np.ascontiguousarray(value) for name, value in dequantise(self.network.weights).items()}
        (directory / WEIGHTS).write_bytes(save(weights))
        content = {"epochs": self.epochs, "vocabularies": self.vocabularies.to_json()}
        (directory / VOCABULARY).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")

    @staticmethod
    def compact_saved(directory: Path) -> None:
        """Rewrite the weights that `save` wrote in half precision, the vectors of words in eight bits."""
        path = directory / WEIGHTS
        weights = load(path.read_bytes())
        tables = {name: value for name, value in weights.items() if name.removesuffix(SCALE) in WORD_TABLES}
        others = {name: value.astype(np.float16) for name, value in weights.items() if name not in tables}
        path.write_bytes(save(others | quantise(tables)))

    @classmethod
    def load(cls, directory: Path, *, scheme: TagScheme, config: NeuralConfig, device: str) -> Self:
        """Read weights and vocabularies. Raises ModelError when they are damaged or do not fit each other.

        Raises ConfigError when the device does not exist: now, not at the first note.
        """
        gpu = wants_gpu(device)
        try:
            content = strict_json((directory / VOCABULARY).read_text(encoding="utf-8"))
            vocabularies = Vocabularies.from_json(content["vocabularies"])
            sizes, weights = vocabularies.sizes(len(scheme.tags)), read_weights(directory / WEIGHTS)
            check_stored(weights, network_shapes(sizes, config))
            epochs = int(content["epochs"])
        except (ValueError, KeyError, TypeError) as error:
            raise ModelError(f"{directory}: the network's files are damaged ({type(error).__name__})") from None
        network: ArrayNetwork | TorchNetwork = ArrayNetwork(weights, config)
        if gpu:
            from ensemble_deid.taggers.neural.network import TorchNetwork as OfTorch

            network = OfTorch.from_weights(weights, sizes, config, device=device)
        return cls(scheme, config, vocabularies, network, epochs=epochs)


def score_tokens(
    network: "ArrayNetwork | TorchNetwork", encoded: Encoded, starts: Int32s, *, notes: Int32s | None, n_tags: int
) -> Floats:
    """Return the network's emissions for every token, (n_tokens, tags).

    `notes` (n_notes + 1,) bounds the tokens of each note: notes are scored one by one, so that a note's scores do not
    depend on those read with it; None scores all together.
    """
    n_tokens = len(encoded.words)
    scores = np.zeros((n_tokens, n_tags))
    bounds = [0, n_tokens] if notes is None else notes.tolist()
    if not n_tokens:
        return scores
    score = _scorer(network, encoded, bounds)
    for low, high in pairwise(bounds):
        sequences = starts[np.searchsorted(starts, low) : np.searchsorted(starts, high)]
        for batch in bucket(sequences, high, batch_tokens=_PREDICT_TOKENS):
            mask = np.arange(batch.rows.shape[1]) < batch.lengths[:, None]
            scores[batch.rows[mask]] = score(batch, mask)[mask]
    return scores


def _scorer(
    network: "ArrayNetwork | TorchNetwork", encoded: Encoded, notes: Sequence[int]
) -> Callable[[SequenceBatch, Flags], Array]:
    if isinstance(network, ArrayNetwork):
        vectors = network.vectors(encoded, notes)
        return lambda batch, mask: network.score(vectors[batch.rows], mask)
    return lambda batch, mask: network.score(encoded.inputs(batch.rows, batch.lengths, encoded.words[batch.rows]))
