"""Training the submodel `neural`: what it learns from, what it begins with, and the network that comes of it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from ensemble_deid.config import NeuralConfig
from ensemble_deid.errors import ConfigError
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.knowledge import PREFIX as KNOWLEDGE_PREFIX
from ensemble_deid.features.stanza_tags import COLUMNS as STANZA_COLUMNS
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.seeds import derive_seed
from ensemble_deid.taggers.base import Progress
from ensemble_deid.taggers.device import choose_device, torch_on_one_thread
from ensemble_deid.taggers.inherit import Axis, inherit_weights
from ensemble_deid.taggers.neural.arrays import ArrayNetwork
from ensemble_deid.taggers.neural.encoders import CharacterBilstm
from ensemble_deid.taggers.neural.encoding import LONGEST_WORD, Vocabularies, encode, learn_vocabularies
from ensemble_deid.taggers.neural.names import characters_of, read_names, train_on_names
from ensemble_deid.taggers.neural.network import TaggingNetwork, TorchNetwork
from ensemble_deid.taggers.neural.training import train_network
from ensemble_deid.taggers.neural.word_vectors import read_word_vectors
from ensemble_deid.taggers.sequences import merge_lines

if TYPE_CHECKING:
    from ensemble_deid.taggers.neural.tagger import NeuralTagger

Fitted = tuple[Vocabularies, ArrayNetwork | TorchNetwork, int]


def fit_network(
    train: Batch,
    *,
    scheme: TagScheme,
    config: NeuralConfig,
    seed: int,
    device: str,
    progress: Progress,
    start: "NeuralTagger | None",
    dev_score: Callable[[Vocabularies, TorchNetwork], float | None] | None,
) -> Fitted:
    """Return the vocabularies, the trained network and the epoch that was kept; for the rest, `NeuralTagger.fit`."""
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
    with torch_on_one_thread(), torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        torch.manual_seed(derive_seed(seed, "network"))
        module = TaggingNetwork(vocabularies.sizes(len(scheme.tags)), config)
        network = TorchNetwork(module, place)
        if names and isinstance(module.characters, CharacterBilstm):
            progress(f"network: character vectors from {len(names)} names")
            characters, steps = vocabularies.characters, config.name_steps
            train_on_names(module.characters, names, characters, steps=steps, longest=LONGEST_WORD, seed=seed)
        if start is not None:
            taken = _inherit(module, vocabularies, scheme, start=start)
            progress(f"network: starts with {taken} arrays of weights of the model to start from")
        if vectors is not None and module.pretrained is not None:
            module.pretrained.weight.data[2:] = torch.from_numpy(vectors)
        epochs = train_network(
            module,
            encode(train, vocabularies),
            train.gold(scheme),
            merge_lines(train.tokens, max_tokens=config.max_sequence),
            config=config,
            seed=seed,
            device=place,
            dev_score=None if dev_score is None else lambda: dev_score(vocabularies, network),
            progress=progress,
        )
    # Back on the CPU: it is sent between processes, some of which may not have the device.
    module.cpu()
    return vocabularies, network if place.type == "cuda" else ArrayNetwork(network.weights, config), epochs


def _inherit(module: TaggingNetwork, new: Vocabularies, scheme: TagScheme, *, start: "NeuralTagger") -> str:
    """Take over the weights of a trained network; return how many arrays, of how many."""
    old = start.vocabularies
    tags = (scheme.tags, start.scheme.tags)
    axes: dict[str, tuple[Axis, ...]] = {
        "words.weight": ((new.rows("words"), old.rows("words")), None),
        "pretrained.weight": ((new.rows("vectors"), old.rows("vectors")), None),
        "characters.embedding.weight": ((new.rows("characters"), old.rows("characters")), None),
        "scores.weight": (tags, None),
        "crf.transitions": (tags, tags),
        **dict.fromkeys(("scores.bias", "crf.start_transitions", "crf.end_transitions"), (tags,)),
        **{f"features.{k}.weight": ((new.rows(name), old.rows(name)), None) for k, name in enumerate(new.features)},
    }
    taken, of = inherit_weights(module, start.network.weights, axes=axes)
    return f"{taken} of {of}"


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


def _refuse_other_settings(start: "NeuralTagger", config: NeuralConfig, features: tuple[str, ...]) -> None:
    """Raise ConfigError where a network to start from reads words or features in another way."""
    if tuple(start.vocabularies.features) != features:
        raise ConfigError(
            "neural.features: the network of the model to start from has other features; where the settings are the "
            "same, the notes may be taken for another language (regex.language, text.knowledge)"
        )
    if start.vocabularies.zero_digits != config.zero_digits:
        raise ConfigError("neural.zero_digits: the network of the model to start from has the other setting")
