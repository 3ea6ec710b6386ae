"""The transformer submodel: a pretrained encoder fine-tuned to tag tokens (BERT-deid, Johnson et al. 2020)."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from safetensors.torch import load, save
from tokenizers import Tokenizer

from ensemble_deid.arrays import Floats
from ensemble_deid.config import TransformerConfig
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.parsing import strict_json
from ensemble_deid.seeds import derive_seed
from ensemble_deid.taggers.base import Progress, Proposals
from ensemble_deid.taggers.chain import LinearChain
from ensemble_deid.taggers.decoding import decode
from ensemble_deid.taggers.device import check_weights, choose_device, described, torch_on_one_thread
from ensemble_deid.taggers.inherit import Axis, inherit_weights
from ensemble_deid.taggers.sequences import chain_proposals, merge_lines
from ensemble_deid.taggers.transformer.network import EncoderClassifier, build_encoder, encoder_to_read, longest_window
from ensemble_deid.taggers.transformer.pieces import (
    CUTS,
    Cut,
    Pieces,
    PieceVocabulary,
    cut_into_pieces,
    cut_of,
    learn_pieces,
    windows,
)
from ensemble_deid.taggers.transformer.quantisation import (
    EightBitLinear,
    dequantise,
    eight_bits_help,
    quantise,
    use_eight_bits,
)
from ensemble_deid.taggers.transformer.training import SpecialPieces, fine_tune, score_pieces

if TYPE_CHECKING:
    from ensemble_deid.taggers.transformer.source import PretrainedEncoder

WEIGHTS, SETTINGS, TOKENIZER = "transformer.safetensors", "transformer.json", "transformer_tokenizer.json"
_NEVER = -50.0
_UNSEEN = "\0unseen"


@dataclass(frozen=True, slots=True, eq=False)
class TransformerTagger:
    """A fine-tuned encoder with its tokenizer; `encoder_config` is the content of the encoder's `config.json`.

    `cut` says what the tokenizer was given in training.
    """

    scheme: TagScheme
    config: TransformerConfig
    device: str
    encoder_config: dict[str, Any] = field(repr=False)
    tokenizer: Tokenizer = field(repr=False)
    cut: Cut
    vocabulary: PieceVocabulary = field(repr=False)
    network: EncoderClassifier = field(repr=False)

    @classmethod
    def fit(
        cls,
        train: Batch,
        dev: Batch | None,
        *,
        scheme: TagScheme,
        config: TransformerConfig,
        seed: int,
        device: str,
        progress: Progress,
        start: "TransformerTagger | None" = None,
    ) -> Self:
        """Fine-tune the configured encoder. `dev` is not used: the number of epochs is a setting.

        With `start`, its encoder is tuned further, and it gives the classifier's weights of the tags that both have.
        Raises ConfigError when the encoder cannot be had, reads less than the configured window at a time, or is
        another than that of `start`.
        """
        if start is not None and start.config.encoder != config.encoder:
            raise ConfigError("transformer.encoder: the model to start from has another encoder")
        # Here, not above: only training needs the library `transformers`, and it takes seconds to load.
        from ensemble_deid.taggers.transformer.source import load_encoder

        source = load_encoder(config.encoder) if start is None else start._source()
        longest = longest_window(source.encoder)
        if longest is not None and config.window > longest:
            raise ConfigError(f"transformer.window: the encoder reads at most {longest} pieces, not {config.window}")
        place = choose_device(device)
        with torch_on_one_thread(), torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
            torch.manual_seed(derive_seed(seed, "transformer"))
            vocabulary = learn_pieces(train, config.features)
            network = EncoderClassifier(source.encoder, len(scheme.tags), _sizes(vocabulary), dropout=config.dropout)
            tagger = cls(
                scheme,
                config,
                device,
                encoder_config=source.config,
                tokenizer=source.tokenizer,
                cut=cut_of(source.tokenizer) if start is None else start.cut,
                vocabulary=vocabulary,
                network=network,
            )
            if start is not None:
                progress(f"transformer: starts with {tagger._inherit(start)} arrays of the model to start from")
            tagger._fine_tune(train, seed=seed, device=place, progress=progress)
        network.cpu()
        if config.half_precision_weights:
            _round_to_half(network)
        return tagger

    def _fine_tune(self, train: Batch, *, seed: int, device: torch.device, progress: Progress) -> None:
        pieces = self._pieces(train)
        fine_tune(
            self.network,
            windows(train.tokens, pieces, size=self.config.window, overlap=self.config.training_overlap),
            pieces,
            train.gold(self.scheme),
            self._special(),
            config=self.config,
            seed=seed,
            device=device,
            progress=progress,
        )

    def _source(self) -> "PretrainedEncoder":
        """Return an encoder of this one's form, with its tokenizer; its weights are yet to be taken over."""
        from ensemble_deid.taggers.transformer.source import PretrainedEncoder

        return PretrainedEncoder(build_encoder(self.encoder_config), self.tokenizer, self.encoder_config)

    def _inherit(self, start: "TransformerTagger") -> str:
        """Take over the weights of a trained network; return how many arrays, of how many."""
        tags = (self.scheme.tags, start.scheme.tags)
        axes: dict[str, tuple[Axis, ...]] = {"scores.weight": (tags, None), "scores.bias": (tags,)}
        for k, name in enumerate(self.vocabulary):
            old = (_UNSEEN, *start.vocabulary[name]) if list(start.vocabulary)[k : k + 1] == [name] else ()
            axes[f"features.{k}.weight"] = (((_UNSEEN, *self.vocabulary[name]), old), None)
        taken, of = inherit_weights(self.network, start.network, axes=axes)
        return f"{taken} of {of}"

    @property
    def arithmetic(self) -> str:
        """What the encoder computes with, and where."""
        eight = any(isinstance(module, EightBitLinear) for module in self.network.modules())
        return described("eight bits" if eight else "single precision", choose_device(self.device))

    def propose(self, batch: Batch, *, n_best: int) -> Proposals:
        """Return the best tagging's spans, and those of the n best taggings, with exact marginals.

        Tags of a token are independent of each other given the text but for what BIO forbids.
        """
        starts = merge_lines(batch.tokens, max_tokens=self.config.max_sequence)
        decoded = decode(_bio_chain(self.scheme), self.emissions(batch), starts, n=n_best)
        return chain_proposals(decoded, batch.tokens, self.scheme, source="transformer")

    def emissions(self, batch: Batch) -> Floats:
        """Return the log probability of every tag at every token, (n_tokens, tags)."""
        if not len(batch.tokens):
            return np.zeros((0, len(self.scheme.tags)))
        pieces = self._pieces(batch)
        found = windows(batch.tokens, pieces, size=self.config.window, overlap=self.config.overlap)
        with torch_on_one_thread():
            return score_pieces(
                self.network,
                found,
                pieces,
                self._special(),
                batch_pieces=self.config.batch_pieces,
                device=choose_device(self.device),
            )

    def _pieces(self, batch: Batch) -> Pieces:
        return cut_into_pieces(batch, self.tokenizer, self.vocabulary, unknown=self._id("[UNK]"), cut=self.cut)

    def _special(self) -> SpecialPieces:
        return SpecialPieces(self._id("[CLS]"), self._id("[SEP]"), self._id("[PAD]"))

    def _id(self, role: str) -> int:
        """Return the id of a special piece under BERT's name for it, or RoBERTa's."""
        for name in (role, _ROBERTA[role]):
            found = self.tokenizer.token_to_id(name)
            if found is not None:
                return int(found)
        raise ConfigError(f"the encoder's tokenizer has no piece {role} (or {_ROBERTA[role]})")

    def save(self, directory: Path) -> None:
        """Write the weights as safetensors, the settings and the tokenizer as JSON."""
        weights = {name: value.detach().cpu().contiguous() for name, value in self.network.state_dict().items()}
        if self.config.half_precision_weights:
            weights = {name: v.half() if v.is_floating_point() else v for name, v in weights.items()}
        (directory / WEIGHTS).write_bytes(save(weights))
        features = {name: list(values) for name, values in self.vocabulary.items()}
        settings = {"encoder": self.encoder_config, "features": features, "cut": self.cut}
        content = json.dumps(settings, ensure_ascii=False, indent=1)
        (directory / SETTINGS).write_text(content + "\n", encoding="utf-8")
        (directory / TOKENIZER).write_text(self.tokenizer.to_str(), encoding="utf-8")

    @staticmethod
    def compact_saved(directory: Path) -> None:
        """Rewrite the weights that `save` wrote in eight bits."""
        path = directory / WEIGHTS
        path.write_bytes(save(quantise(dequantise(load(path.read_bytes())))))

    @classmethod
    def load(cls, directory: Path, *, scheme: TagScheme, config: TransformerConfig, device: str) -> Self:
        """Read what `save` wrote, without network. Raises ModelError when the files are damaged or do not fit.

        Raises ConfigError when the device does not exist: now, not at the first note.
        """
        choose_device(device)
        try:
            settings = strict_json((directory / SETTINGS).read_text(encoding="utf-8"))
            encoder_config = settings["encoder"]
            # Older models name nothing, and cut words.
            cut = CUTS[CUTS.index(settings.get("cut", "words"))]
            vocabulary = {
                name: {value: k for k, value in enumerate(values, 1)} for name, values in settings["features"].items()
            }
            tokenizer = Tokenizer.from_str((directory / TOKENIZER).read_text(encoding="utf-8"))
            stored = load((directory / WEIGHTS).read_bytes())
            weights = dequantise(stored)

            def make() -> EncoderClassifier:
                encoder = encoder_to_read(encoder_config)
                return EncoderClassifier(encoder, len(scheme.tags), _sizes(vocabulary), dropout=config.dropout)

            check_weights(make, weights)
            network = make()
            network.load_state_dict(weights)
            if eight_bits_help(choose_device(device)):
                use_eight_bits(network, stored)
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 (tokenizers raises bare Exception for a damaged file)
            raise ModelError(f"{directory}: the transformer's files are damaged ({type(error).__name__})") from None
        network.eval()
        return cls(
            scheme,
            config,
            device,
            encoder_config=encoder_config,
            tokenizer=tokenizer,
            cut=cut,
            vocabulary=vocabulary,
            network=network,
        )


_ROBERTA = {"[UNK]": "<unk>", "[CLS]": "<s>", "[SEP]": "</s>", "[PAD]": "<pad>"}


def _bio_chain(scheme: TagScheme) -> LinearChain:
    """Return a chain that forbids an `I-` tag after anything but its own label, and scores nothing else."""
    n_tags = len(scheme.tags)
    transitions = np.zeros((n_tags, n_tags))
    start = np.zeros(n_tags)
    for k in range(len(scheme.labels)):
        begin, inside = scheme.begin(k), scheme.inside(k)
        transitions[:, inside] = _NEVER
        transitions[[begin, inside], inside] = 0.0
        start[inside] = _NEVER
    return LinearChain(transitions, start, np.zeros(n_tags))


def _sizes(vocabulary: PieceVocabulary) -> list[int]:
    return [len(values) + 1 for values in vocabulary.values()]


def _round_to_half(network: EncoderClassifier) -> None:
    """Round the weights to what half precision holds, so that a model predicts the same before and after the disk."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(parameter.half().float())
