"""A random encoder of a few thousand weights, laid out as on the Hugging Face hub: nothing is downloaded."""

import string
import tempfile
from functools import cache
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def tiny_tokenizer() -> Tokenizer:
    """Return a word-piece tokenizer whose pieces are single characters and a few words."""
    characters = string.ascii_lowercase + string.digits + string.punctuation
    words = ("name", "record", "dr", "patient", "date", "city", "seen", "by", "on")
    pieces = dict.fromkeys((*SPECIAL, *characters, *(f"##{c}" for c in characters), *words))
    tokenizer = Tokenizer(WordPiece({piece: k for k, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


def write_tiny_encoder(folder: Path) -> None:
    """Write config.json, model.safetensors and the tokenizer's files."""
    tokenizer = tiny_tokenizer()
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=64,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        BertModel(config).save_pretrained(folder, safe_serialization=True)
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    special = dict(zip(names, SPECIAL, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)


@cache
def tiny_encoder() -> str:
    """Return the path of a tiny encoder's folder, made once in a test run and removed at its end."""
    folder = tempfile.TemporaryDirectory(prefix="tiny-encoder-")
    _FOLDERS.append(folder)
    write_tiny_encoder(Path(folder.name))
    return folder.name
