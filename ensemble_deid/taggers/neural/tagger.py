"""The submodel `neural`: a BiLSTM-CNN-CRF, or the parts that the configuration names."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save

from ensemble_deid.arrays import Floats, Int32s
from ensemble_deid.config import NeuralConfig
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.knowledge import PREFIX as KNOWLEDGE_PREFIX
from ensemble_deid.features.stanza_tags import COLUMNS as STANZA_COLUMNS
from ensemble_deid.note.counts import strict_counts
from ensemble_deid.note.tags import TagScheme, tags_to_spans
from ensemble_deid.parsing import strict_json
from ensemble_deid.seeds import derive_seed
from ensemble_deid.taggers.base import Progress, Proposals
from ensemble_deid.taggers.chain import LinearChain
from ensemble_deid.taggers.decoding import decode
from ensemble_deid.taggers.device import check_weights, choose_device, described, torch_on_one_thread
from ensemble_deid.taggers.inherit import Axis, inherit_weights
from ensemble_deid.taggers.neural.encoders import CharacterBilstm
from ensemble_deid.taggers.neural.encoding import LONGEST_WORD, Vocabularies, encode, learn_vocabularies
from ensemble_deid.taggers.neural.names import characters_of, read_names, train_on_names
from ensemble_deid.taggers.neural.network import TaggingNetwork
from ensemble_deid.taggers.neural.training import score_tokens, train_network
from ensemble_deid.taggers.neural.word_vectors import read_word_vectors
from ensemble_deid.taggers.sequences import chain_proposals, merge_lines

WEIGHTS, VOCABULARY = "network.safetensors", "network.json"
_PREDICT_TOKENS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class NeuralTagger:
    """A trained network with its vocabularies."""

    scheme: TagScheme
    config: NeuralConfig
    device: str
    vocabularies: Vocabularies = field(repr=False)
    network: TaggingNetwork = field(repr=False)
    epochs: int

    @classmethod
    def fit(
        cls,
        train: Batch,
        dev: Batch | None,
        *,
        scheme: TagScheme,
        config: NeuralConfig,
        seed: int,
        device: str,
        progress: Progress,
        start: "NeuralTagger | None" = None,
    ) -> Self:
        """Train on `device`; with `dev`, the epoch with the best strict F1 on it is kept, otherwise the last one.

        `start` gives its weights where shapes are equal, and those of the words, characters, values and tags that both
        have.
        """
        place = choose_device(device)
        features = _features(config, train)
        if start is not None:
            _refuse_other_settings(start, config, features)
        names = read_names(config.names, longest=LONGEST_WORD) if config.characters == "names" else ()
        words, vectors = _word_vectors(config)
        vocabularies = learn_vocabularies(
            train,
            features=features,
            min_word_count=config.min_word_count,
            also=characters_of(names),
            start=None if start is None else start.vocabularies,
            vectors=words,
            zero_digits=config.zero_digits,
        )
        starts = merge_lines(train.tokens, max_tokens=config.max_sequence)
        encoded = encode(train, vocabularies)
        with torch_on_one_thread(), torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
            torch.manual_seed(derive_seed(seed, "network"))
            network = TaggingNetwork(vocabularies.sizes(len(scheme.tags)), config)
            tagger = cls(scheme, config, device, vocabularies, network=network, epochs=0)
            tagger._initialise(names, vectors, start, seed=seed, progress=progress)
            epochs = train_network(
                network,
                encoded,
                train.gold(scheme),
                starts,
                config=config,
                seed=seed,
                device=place,
                dev_score=None if dev is None else lambda: tagger.strict_f1(dev),
                progress=progress,
            )
        # Move it back to the CPU: it is sent between processes, some of which may not have the device.
        return cls(scheme, config, device, vocabularies, network=network.cpu(), epochs=epochs)

    def _initialise(
        self,
        names: Sequence[str],
        vectors: NDArray[np.float32] | None,
        start: "NeuralTagger | None",
        *,
        seed: int,
        progress: Progress,
    ) -> None:
        """Give the network the weights that were learned elsewhere: on names, on other notes, word vectors."""
        network, config = self.network, self.config
        if names and isinstance(network.characters, CharacterBilstm):
            progress(f"network: character vectors from {len(names)} names")
            characters, steps = self.vocabularies.characters, config.name_steps
            train_on_names(network.characters, names, characters, steps=steps, longest=LONGEST_WORD, seed=seed)
        if start is not None:
            progress(f"network: starts with {self._inherit(start)} arrays of weights of the model to start from")
        if vectors is not None and network.pretrained is not None:
            network.pretrained.weight.data[2:] = torch.from_numpy(vectors)

    def _inherit(self, start: "NeuralTagger") -> str:
        """Take over the weights of a trained network; return how many arrays, of how many."""
        new, old = self.vocabularies, start.vocabularies
        tags = (self.scheme.tags, start.scheme.tags)
        axes: dict[str, tuple[Axis, ...]] = {
            "words.weight": ((new.rows("words"), old.rows("words")), None),
            "pretrained.weight": ((new.rows("vectors"), old.rows("vectors")), None),
            "characters.embedding.weight": ((new.rows("characters"), old.rows("characters")), None),
            "scores.weight": (tags, None),
            "crf.transitions": (tags, tags),
            **dict.fromkeys(("scores.bias", "crf.start_transitions", "crf.end_transitions"), (tags,)),
            **{f"features.{k}.weight": ((new.rows(name), old.rows(name)), None) for k, name in enumerate(new.features)},
        }
        taken, of = inherit_weights(self.network, start.network, axes=axes)
        return f"{taken} of {of}"

    def strict_f1(self, batch: Batch) -> float | None:
        """Return the strict entity F1 of the network's tags on an annotated batch, None where it is undefined."""
        chain, emissions, starts = self._score(batch)
        found = tags_to_spans(decode(chain, emissions, starts, n=0).best, batch.tokens, self.scheme)
        return strict_counts((document.spans for document in batch.documents), found).f1

    @property
    def arithmetic(self) -> str:
        """What the network computes with, and where."""
        return described("single precision", choose_device(self.device))

    def propose(self, batch: Batch, *, n_best: int) -> Proposals:
        """Return the spans of the best tagging and of the n best, scored with exact marginals."""
        chain, emissions, starts = self._score(batch)
        decoded = decode(chain, emissions, starts, n=n_best)
        return chain_proposals(decoded, batch.tokens, self.scheme, source="neural")

    def _score(self, batch: Batch) -> tuple[LinearChain, Floats, Int32s]:
        starts = merge_lines(batch.tokens, max_tokens=self.config.max_sequence)
        device = choose_device(self.device)
        with torch_on_one_thread():
            self.network.to(device)
            encoded = encode(batch, self.vocabularies)
            emissions = score_tokens(self.network, encoded, starts, batch_tokens=_PREDICT_TOKENS, device=device)
        emissions[:, 0] += self.config.outside_bias
        return self.network.chain(), emissions, starts

    def save(self, directory: Path) -> None:
        """Write the weights as safetensors and the vocabularies as JSON."""
        weights = {name: value.detach().cpu().contiguous() for name, value in self.network.state_dict().items()}
        (directory / WEIGHTS).write_bytes(save(weights))
        content = {"epochs": self.epochs, "vocabularies": self.vocabularies.to_json()}
        (directory / VOCABULARY).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")

    @staticmethod
    def compact_saved(directory: Path) -> None:
        """Rewrite the weights that `save` wrote in half precision."""
        path = directory / WEIGHTS
        weights = load(path.read_bytes())
        path.write_bytes(save({name: v.half() if v.is_floating_point() else v for name, v in weights.items()}))

    @classmethod
    def load(cls, directory: Path, *, scheme: TagScheme, config: NeuralConfig, device: str) -> Self:
        """Read weights and vocabularies. Raises ModelError when they are damaged or do not fit each other.

        Raises ConfigError when the device does not exist: now, not at the first note.
        """
        choose_device(device)
        try:
            content = strict_json((directory / VOCABULARY).read_text(encoding="utf-8"))
            vocabularies = Vocabularies.from_json(content["vocabularies"])
            sizes, weights = vocabularies.sizes(len(scheme.tags)), load((directory / WEIGHTS).read_bytes())
            weights = {name: value.float() if value.is_floating_point() else value for name, value in weights.items()}
            check_weights(lambda: TaggingNetwork(sizes, config), weights)
            network = TaggingNetwork(sizes, config)
            network.load_state_dict(weights)
            epochs = int(content["epochs"])
        except (SafetensorError, RuntimeError, ValueError, KeyError, TypeError) as error:
            raise ModelError(f"{directory}: the network's files are damaged ({type(error).__name__})") from None
        network.eval()
        return cls(scheme, config, device, vocabularies, network=network, epochs=epochs)


def _features(config: NeuralConfig, train: Batch) -> tuple[str, ...]:
    """Return the configured features, and those of stanza and of the public lists as far as they are in the table."""
    stanza = (name for name in STANZA_COLUMNS if name in train.table.names)
    known = (name for name in train.table.names if name.startswith(KNOWLEDGE_PREFIX))
    return tuple(dict.fromkeys((*config.features, *stanza, *known)))


def _word_vectors(config: NeuralConfig) -> tuple[tuple[str, ...], NDArray[np.float32] | None]:
    """Return the words and the vectors of the configured file; nothing without one."""
    if not config.word_vectors:
        return (), None
    return read_word_vectors(
        Path(config.word_vectors),
        dimension=config.word_dimension,
        limit=config.word_vectors_limit,
        digits_to_zero=config.zero_digits,
    )


def _refuse_other_settings(start: NeuralTagger, config: NeuralConfig, features: tuple[str, ...]) -> None:
    """Raise ConfigError where a network to start from reads words or features in another way."""
    if tuple(start.vocabularies.features) != features:
        raise ConfigError(
            "neural.features: the network of the model to start from has other features; where the settings are the "
            "same, the notes may be taken for another language (regex.language, text.knowledge)"
        )
    if start.vocabularies.zero_digits != config.zero_digits:
        raise ConfigError("neural.zero_digits: the network of the model to start from has the other setting")
