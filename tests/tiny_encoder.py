"""Random encoders of a few thousand weights, laid out as on the Hugging Face hub: nothing is downloaded."""

import string
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE, Unigram, WordPiece
from tokenizers.normalizers import NFKC, BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel, Metaspace
from tokenizers.trainers import BpeTrainer, UnigramTrainer
from transformers import (
    BertConfig,
    BertModel,
    DebertaV2Config,
    DebertaV2Model,
    ModernBertConfig,
    ModernBertModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA_SPECIAL = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")


def tiny_tokenizer() -> Tokenizer:
    """Return a word-piece tokenizer whose pieces are single characters and a few words."""
    characters = string.ascii_lowercase + string.digits + string.punctuation
    words = ("name", "record", "dr", "patient", "date", "city", "seen", "by", "on")
    pieces = dict.fromkeys((*SPECIAL, *characters, *(f"##{c}" for c in characters), *words))
    tokenizer = Tokenizer(WordPiece({piece: k for k, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


def learned_tokenizer(kind: str, texts: Sequence[str]) -> Tokenizer:
    """Return a tokenizer of the kind of an encoder, its vocabulary learned from some texts."""
    special = list(SPECIAL if kind in ("modernbert", "deberta-v2") else ROBERTA_SPECIAL)
    if kind in ("roberta", "modernbert"):
        tokenizer = Tokenizer(BPE())
        tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
        alphabet = ByteLevel.alphabet()
        trainer = BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    else:
        tokenizer = Tokenizer(Unigram())
        tokenizer.normalizer = NFKC()
        tokenizer.pre_tokenizer = Metaspace()
        trainer = UnigramTrainer(
            vocab_size=200,
            special_tokens=special,
            unk_token=special[1],
            initial_alphabet=list(string.printable),
            show_progress=False,
        )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


ENCODERS = {
    "bert": (BertConfig, BertModel),
    "roberta": (RobertaConfig, RobertaModel),
    "modernbert": (ModernBertConfig, ModernBertModel),
    "deberta-v2": (DebertaV2Config, DebertaV2Model),
    "xlm-roberta": (XLMRobertaConfig, XLMRobertaModel),
}


def write_tiny_encoder(folder: Path, kind: str = "bert", texts: Sequence[str] = ()) -> None:
    """Write config.json, model.safetensors and the tokenizer's files."""
    tokenizer = tiny_tokenizer() if kind == "bert" else learned_tokenizer(kind, texts)
    make_config, make_model = ENCODERS[kind]
    special = SPECIAL if tokenizer.token_to_id(SPECIAL[0]) is not None else ROBERTA_SPECIAL
    ids = [tokenizer.token_to_id(piece) for piece in special]
    others = {} if kind == "bert" else {"pad_token_id": ids[0], "bos_token_id": ids[2], "eos_token_id": ids[3]}
    if kind == "modernbert":
        others |= {
            "cls_token_id": ids[2],
            "sep_token_id": ids[3],
            "local_attention": 16,
            "global_attn_every_n_layers": 2,
        }
    config = make_config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=1 if kind == "bert" else 2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=64,
        **others,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model: PreTrainedModel = make_model(config)
        model.save_pretrained(folder, safe_serialization=True)
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **dict(zip(names, special, strict=True))).save_pretrained(
        folder
    )


@cache
def tiny_encoder() -> str:
    """Return the path of a tiny encoder's folder, made once in a test run and removed at its end."""
    folder = tempfile.TemporaryDirectory(prefix="tiny-encoder-")
    _FOLDERS.append(folder)
    write_tiny_encoder(Path(folder.name))
    return folder.name
