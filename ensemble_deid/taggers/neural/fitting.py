"""Training the network: its notes, its initial weights, and its epochs, the best of which is chosen by dev F1."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ensemble_deid.arrays import Int32s
from ensemble_deid.config import NeuralConfig
from ensemble_deid.errors import ConfigError
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.knowledge import PREFIX as KNOWLEDGE_PREFIX
from ensemble_deid.features.stanza_tags import COLUMNS as STANZA_COLUMNS
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.seeds import generator
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.device import choose_device, network_in_bfloat16, to_device
from ensemble_deid.taggers.inherit import Axis, inherit_weights, seeded, train_epoch
from ensemble_deid.taggers.neural.arrays import ArrayNetwork
from ensemble_deid.taggers.neural.encoding import (
    LONGEST_WORD,
    UNKNOWN,
    Encoded,
    SequenceBatch,
    Vocabularies,
    bucket,
    encode,
    learn_vocabularies,
    read_word_vectors,
)
from ensemble_deid.taggers.neural.names import characters_of, read_names, train_on_names
from ensemble_deid.taggers.neural.network import CharacterBilstm, TaggingNetwork, TorchNetwork, inputs_to_tensors
from ensemble_deid.taggers.quantisation import dequantise
from ensemble_deid.taggers.sequences import merge_lines

if TYPE_CHECKING:
    from ensemble_deid.taggers.neural.tagger import NeuralTagger

Fitted = tuple[Vocabularies, ArrayNetwork | TorchNetwork, int]
_WARM_UP = 0.1


def fit_network(
    train: Batch, options: FitOptions, *, dev_score: Callable[[Vocabularies, TorchNetwork], float | None] | None
) -> Fitted:
    """Return the vocabularies, the trained network and the epoch that was kept; for the rest, `NeuralTagger.fit`."""
    config: NeuralConfig = options.config
    start: NeuralTagger | None = options.start
    device = choose_device(options.device)
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
    with seeded(device, options.seed, "network"):
        module = TaggingNetwork(vocabularies.sizes(len(options.scheme.tags)), config)
        network = TorchNetwork(module, device)
        if names and isinstance(module.characters, CharacterBilstm):
            options.progress(f"network: character vectors from {len(names)} names")
            characters, steps = vocabularies.characters, config.name_steps
            train_on_names(module.characters, names, characters, steps=steps, longest=LONGEST_WORD, seed=options.seed)
        if start is not None:
            taken = _inherit(module, vocabularies, options.scheme, start=start)
            options.progress(f"network: starts with {taken} arrays of weights of the model to start from")
        if vectors is not None and module.pretrained is not None:
            module.pretrained.weight.data[2:] = torch.from_numpy(vectors)
        epochs = train_network(
            module,
            encode(train, vocabularies),
            train.gold(options.scheme),
            merge_lines(train.tokens, max_tokens=config.max_sequence),
            options,
            device=device,
            dev_score=None if dev_score is None else lambda: dev_score(vocabularies, network),
        )
    # Back on the CPU: it is sent between processes, some of which may not have the device.
    module.cpu()
    return vocabularies, network if device.type == "cuda" else ArrayNetwork(network.weights, config), epochs


def _inherit(module: TaggingNetwork, new: Vocabularies, scheme: TagScheme, *, start: "NeuralTagger") -> str:
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
    return inherit_weights(module, dequantise(start.network.weights), axes=axes)


def _features(config: NeuralConfig, train: Batch) -> tuple[str, ...]:
    """Return the configured features, and those of stanza and of the public lists as far as they are in the table."""
    stanza = (name for name in STANZA_COLUMNS if name in train.table.names)
    known = (name for name in train.table.names if name.startswith(KNOWLEDGE_PREFIX))
    return tuple(dict.fromkeys((*config.features, *stanza, *known)))


def _word_vectors(config: NeuralConfig) -> tuple[tuple[str, ...], NDArray[np.float32] | None]:
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


def train_network(
    network: TaggingNetwork,
    encoded: Encoded,
    gold: Int32s,
    starts: Int32s,
    options: FitOptions,
    *,
    device: torch.device,
    dev_score: Callable[[], float | None] | None,
) -> int:
    """Train in place, with a warm-up and a cosine decay to zero; return the epoch whose weights are kept.

    With `dev_score` that is the best one (the earliest of equals), else the last. An epoch whose score is undefined
    (None: nothing to find, and nothing found) ranks with a score of 0.
    """
    config: NeuralConfig = options.config
    network.to(device)
    n_batches = sum(1 for _ in bucket(starts, len(gold), batch_tokens=config.batch_tokens))
    optimizer = _optimizer(network, config)
    total = config.epochs * n_batches
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, total))
    random, mixed = generator(options.seed, "network batches"), network_in_bfloat16(device)
    best_score, best_epoch, best_state = -1.0, config.epochs, None
    for epoch in range(1, config.epochs + 1):
        batches = list(bucket(starts, len(gold), batch_tokens=config.batch_tokens, random=random))
        losses = (
            _loss(network, encoded, gold, batches[number], dropped=config.word_dropout, random=random, mixed=mixed)
            for number in random.permutation(n_batches).tolist()
        )
        loss = train_epoch(network, losses, optimizer, schedule, clip=config.gradient_clip)
        message = f"network: epoch {epoch}/{config.epochs}, loss {loss:.4f}"
        # The learning rate decays to the end, so the best epoch is never an early one: those are not evaluated.
        if dev_score is not None and epoch > config.epochs // 2:
            f1 = dev_score()
            message += ", dev F1 undefined" if f1 is None else f", dev F1 {100 * f1:.2f}"
            score = 0.0 if f1 is None else f1
            if score > best_score:
                best_score, best_epoch = score, epoch
                best_state = {name: value.detach().clone() for name, value in network.state_dict().items()}
        options.progress(message)
    if best_state is not None:
        network.load_state_dict(best_state)
    network.eval()
    return best_epoch


def _rate(step: int, total: int) -> float:
    warm = max(1, int(total * _WARM_UP))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, total - warm)))


def _optimizer(network: TaggingNetwork, config: NeuralConfig) -> torch.optim.Optimizer:
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    rate, decay = config.learning_rate, config.weight_decay
    if config.optimizer == "adagrad":
        return torch.optim.Adagrad(trained, lr=rate, weight_decay=decay)
    # Fused: one pass over the parameters, most of which are word vectors.
    return torch.optim.AdamW(trained, lr=rate, weight_decay=decay, fused=True)


def _loss(
    network: TaggingNetwork,
    encoded: Encoded,
    gold: Int32s,
    batch: SequenceBatch,
    *,
    dropped: float,
    random: np.random.Generator,
    mixed: bool,
) -> Tensor:
    """Return the loss of one batch.

    Words are replaced by UNKNOWN at random: half of the rare ones, and the share `dropped` of the others.
    """
    device = next(network.parameters()).device
    rows, place = np.unique(batch.rows, return_inverse=True)
    draw = random.random(len(rows))
    hidden = draw < np.where(encoded.rare[rows], 0.5, dropped)
    words = np.where(hidden[place].reshape(batch.rows.shape), UNKNOWN, encoded.words[batch.rows])
    inputs = inputs_to_tensors(encoded.inputs(batch.rows, batch.lengths, words), device)
    tags = to_device(gold[batch.rows].astype(np.int64), device)
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=mixed):
        return network.loss(inputs, tags)
