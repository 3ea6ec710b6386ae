"""The transformer submodel: a pretrained encoder fine-tuned to tag tokens (BERT-deid, Johnson et al. 2020)."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from tokenizers import Tokenizer

from ensemble_deid.arrays import Floats
from ensemble_deid.config import TransformerConfig
from ensemble_deid.errors import ConfigError, ModelError, needs_extra
from ensemble_deid.features.batch import Batch
from ensemble_deid.mapped import to_file_bytes
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.parsing import strict_json
from ensemble_deid.reproducible import one_thread
from ensemble_deid.taggers.base import FitOptions, Proposals
from ensemble_deid.taggers.chain import LinearChain
from ensemble_deid.taggers.decoding import decode
from ensemble_deid.taggers.device import described, wants_gpu
from ensemble_deid.taggers.layers import Array, Weights, read_weights
from ensemble_deid.taggers.quantisation import as_stored, check_stored, quantise
from ensemble_deid.taggers.sequences import chain_proposals, merge_lines
from ensemble_deid.taggers.transformer.arrays import ArrayClassifier, classifier_shapes, is_plain_bert
from ensemble_deid.taggers.transformer.packing import PACKED, pack_layers, packed_shapes, unpack_layers
from ensemble_deid.taggers.transformer.pieces import CUTS, Cut, Pieces, PieceVocabulary, cut_into_pieces, windows
from ensemble_deid.taggers.transformer.scoring import SpecialPieces, score_pieces

if TYPE_CHECKING:
    from ensemble_deid.taggers.transformer.network import TorchClassifier

WEIGHTS, LAYERS = "transformer.safetensors", "transformer_layers.safetensors"
SETTINGS, TOKENIZER = "transformer.json", "transformer_tokenizer.json"
_NEVER = -50.0


@dataclass(frozen=True, slots=True, eq=False)
class TransformerTagger:
    """A fine-tuned encoder with its tokenizer; `encoder_config` is the content of the encoder's `config.json`.

    `cut` says what the tokenizer was given in training.
    """

    scheme: TagScheme
    config: TransformerConfig
    encoder_config: dict[str, Any] = field(repr=False)
    tokenizer: Tokenizer = field(repr=False)
    cut: Cut
    vocabulary: PieceVocabulary = field(repr=False)
    network: "ArrayClassifier | TorchClassifier" = field(repr=False)

    @classmethod
    def fit(cls, train: Batch, dev: Batch | None, options: FitOptions) -> Self:
        """Fine-tune the configured encoder. `dev` is not used: the number of epochs is a setting.

        With `start`, its encoder is tuned further, and it gives the classifier's weights of the tags that both have.
        Raises ConfigError when the encoder cannot be had, reads less than the configured window at a time, or is
        another than that of `start`.
        """
        if options.start is not None and options.start.config.encoder != options.config.encoder:
            raise ConfigError("transformer.encoder: the model to start from has another encoder")
        with needs_extra("train", "training an encoder"):
            from ensemble_deid.taggers.transformer.training import fit_encoder

        return cast(Self, fit_encoder(cls, train, options))

    @property
    def arithmetic(self) -> str:
        """What the encoder computes with, and where."""
        return described(self.network.arithmetic, self.network.device)

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
        pieces = self.pieces(batch)
        found = windows(batch.tokens, pieces, size=self.config.window, overlap=self.config.overlap)
        with one_thread():
            return score_pieces(
                self.network,
                found,
                pieces,
                self.special_pieces(),
                # One window at a time: a note's scores must not depend on its batch.
                batch_pieces=1 if str(self.network.device) == "cpu" else self.config.batch_pieces,
                n_tags=len(self.scheme.tags),
            )

    def pieces(self, batch: Batch) -> Pieces:
        """Return the tokens of a batch as word pieces."""
        return cut_into_pieces(batch, self.tokenizer, self.vocabulary, unknown=self._id("[UNK]"), cut=self.cut)

    def special_pieces(self) -> SpecialPieces:
        """Return the pieces that open, close and fill windows."""
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
        weights = as_stored(
            self.network.weights, eight_bits=self.config.eight_bit_weights, half=self.config.half_precision_weights
        )
        _write(directory, weights)
        features = {name: list(values) for name, values in self.vocabulary.items()}
        settings = {"encoder": self.encoder_config, "features": features, "cut": self.cut}
        content = json.dumps(settings, ensure_ascii=False, indent=1)
        (directory / SETTINGS).write_text(content + "\n", encoding="utf-8")
        (directory / TOKENIZER).write_text(self.tokenizer.to_str(), encoding="utf-8")

    @staticmethod
    def compact_saved(directory: Path) -> None:
        """Rewrite the weights that `save` wrote in eight bits."""
        _write(directory, quantise(unpack_layers(_read(directory))))

    @classmethod
    def load(cls, directory: Path, *, scheme: TagScheme, config: TransformerConfig, device: str) -> Self:
        """Read what `save` wrote, without network. Raises ModelError when the files are damaged or do not fit.

        Raises ConfigError when the device does not exist: now, not at the first note.
        """
        gpu = wants_gpu(device)
        try:
            settings = strict_json((directory / SETTINGS).read_text(encoding="utf-8"))
            encoder_config = settings["encoder"]
            # Older models name nothing, and cut words.
            cut = CUTS[CUTS.index(settings.get("cut", "words"))]
            vocabulary = {
                name: {value: k for k, value in enumerate(values, 1)} for name, values in settings["features"].items()
            }
            tokenizer = Tokenizer.from_str((directory / TOKENIZER).read_text(encoding="utf-8"))
            weights = _read(directory)
            sizes = [len(values) + 1 for values in vocabulary.values()]
            network: ArrayClassifier | TorchClassifier
            if is_plain_bert(encoder_config) and not gpu:
                shapes = classifier_shapes(encoder_config, len(scheme.tags), sizes)
                check_stored(weights, packed_shapes(shapes, weights))
                network = ArrayClassifier(weights, encoder_config)
            else:
                with needs_extra("train", f"an encoder of the kind {encoder_config['model_type']}, or a GPU,"):
                    from ensemble_deid.taggers.transformer.network import TorchClassifier as OfTorch

                network = OfTorch.from_weights(
                    unpack_layers(weights), encoder_config, len(scheme.tags), sizes, device="cuda" if gpu else "cpu"
                )
        except (OSError, ConfigError):
            raise
        except Exception as error:  # noqa: BLE001 (tokenizers raises bare Exception for a damaged file)
            raise ModelError(f"{directory}: the transformer's files are damaged ({type(error).__name__})") from None
        return cls(
            scheme,
            config,
            encoder_config=encoder_config,
            tokenizer=tokenizer,
            cut=cut,
            vocabulary=vocabulary,
            network=network,
        )


def _write(directory: Path, weights: Weights) -> None:
    """Write packed layers to a file of their own, so that each begins at a multiple of 64 bytes."""
    packed = pack_layers(weights)
    layers = {name: one for name, one in packed.items() if f".{PACKED}." in name}
    others = to_file_bytes({name: one for name, one in packed.items() if name not in layers})
    content = to_file_bytes(layers, aligned=True) if layers else b""
    # The weights may be mapped from these files, and writing into a mapped file changes them.
    for name in (WEIGHTS, LAYERS):
        (directory / name).unlink(missing_ok=True)
    (directory / WEIGHTS).write_bytes(others)
    if layers:
        (directory / LAYERS).write_bytes(content)


def _read(directory: Path) -> dict[str, Array]:
    weights = read_weights(directory / WEIGHTS)
    path = directory / LAYERS
    return {**weights, **read_weights(path)} if path.is_file() else weights


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
