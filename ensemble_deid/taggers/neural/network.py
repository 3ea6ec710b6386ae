"""The network: by default the BiLSTM-CNN-CRF of Ma and Hovy 2016 with feature embeddings (Zhao et al. 2020, table 3).

Its parts can be exchanged for those that Ahmed et al. 2021 compare.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torchcrf import CRF

from ensemble_deid.config import NeuralConfig
from ensemble_deid.taggers.chain import LinearChain, loss_and_gradient
from ensemble_deid.taggers.device import to_device
from ensemble_deid.taggers.layers import Array, Weights
from ensemble_deid.taggers.neural.arrays import SINGLE, positional_encoding
from ensemble_deid.taggers.neural.encoding import Inputs, Sizes
from ensemble_deid.taggers.quantisation import dequantise

_PASSED_OVER = -100


class _ChainLoss(torch.autograd.Function):
    """`loss_and_gradient` for autograd, of emissions, transitions, start and end; then tags and lengths."""

    @staticmethod
    def forward(ctx: Any, *given: Tensor) -> Tensor:
        emissions, transitions, start, end = (part.detach().double().numpy() for part in given[:4])
        tags, lengths = (part.numpy().astype(np.int32) for part in given[4:])
        order, time = np.argsort(-lengths, kind="stable"), lengths.max()
        chain = LinearChain(transitions, start, end)
        found = loss_and_gradient(chain, emissions[order, :time], lengths[order], tags[order, :time])
        loss, (by_tag, *others) = found
        by_place = np.zeros(emissions.shape)
        by_place[order, :time] = by_tag
        parts = zip((by_place, *others), given[:4], strict=True)
        ctx.gradient = [torch.from_numpy(part).to(one.dtype) for part, one in parts]
        return torch.tensor(loss, dtype=torch.float32)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, wanted: Tensor) -> tuple[Tensor | None, ...]:
        return (*(part * wanted for part in ctx.gradient), None, None)


class CrfLayer(CRF):  # type: ignore[misc]
    """A linear-chain CRF with pytorch-crf's parameters and meaning (checked against it in the tests).

    pytorch-crf takes one step's emissions at a time by indexing; the backward pass of each index fills a gradient as
    large as the whole batch. On the processor `loss_and_gradient` computes both passes; elsewhere the steps are
    unbound once, and a step is a matrix product instead of a (batch, tags, tags) log-sum-exp.
    """

    def negative_log_likelihood(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Return the mean over tokens of -log P(tags), for emissions (batch, time, tags), tags and mask (batch, time).

        The mask is true on a sequence's tokens, which come first.
        """
        loss = self._in_arrays if emissions.device.type == "cpu" else self._in_steps
        return loss(emissions, tags, mask) / mask.sum()

    def _in_arrays(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        chain = (emissions, self.transitions, self.start_transitions, self.end_transitions)
        loss: Tensor = _ChainLoss.apply(*chain, tags, mask.sum(dim=1))  # type: ignore[no-untyped-call]
        return loss

    def _in_steps(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        return (self._log_normalizer(emissions, mask) - self._path_score(emissions, tags, mask)).sum()

    def _path_score(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Return the score of the given tags, (batch,)."""
        here = emissions.gather(2, tags.unsqueeze(2)).squeeze(2)
        moves = self.transitions[tags[:, :-1], tags[:, 1:]]
        last = tags.gather(1, (mask.sum(dim=1) - 1).unsqueeze(1)).squeeze(1)
        score = self.start_transitions[tags[:, 0]] + (here * mask).sum(dim=1)
        total: Tensor = score + (moves * mask[:, 1:]).sum(dim=1) + self.end_transitions[last]
        return total

    def _log_normalizer(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Return log Z, (batch,), by the forward algorithm."""
        moves = torch.exp(self.transitions)
        steps, masks = emissions.unbind(dim=1), mask.unsqueeze(2).unbind(dim=1)
        score = self.start_transitions + steps[0]
        for step, valid in zip(steps[1:], masks[1:], strict=True):
            top = score.detach().amax(dim=1, keepdim=True)
            through = torch.log(torch.exp(score - top) @ moves) + top + step
            score = torch.where(valid, through, score)
        return torch.logsumexp(score + self.end_transitions, dim=1)


@dataclass(frozen=True, slots=True, eq=False)
class TensorInputs:
    """What `Inputs` holds, as tensors on a device."""

    words: Tensor
    form: Tensor
    spelling: Tensor
    features: Tensor
    mask: Tensor
    vectors: Tensor | None = None


def inputs_to_tensors(inputs: Inputs, device: torch.device) -> TensorInputs:
    """Return a batch on a device."""
    arrays = {field.name: getattr(inputs, field.name) for field in fields(inputs)}
    return TensorInputs(**{name: to_device(array, device) for name, array in arrays.items() if array is not None})


class Bilstm(nn.Module):
    """One LSTM in each direction. The second reads the sequences reversed, each within its own length.

    So padding comes last for both and is never read before a token; packed sequences, the usual way to that, cost
    twice the time on a CPU (each step's gradient fills a tensor as large as the batch).
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.forwards = nn.LSTM(width, hidden, batch_first=True)
        self.backwards = nn.LSTM(width, hidden, batch_first=True)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Return states (batch, time, 2 * hidden) of vectors (batch, time, width)."""
        time = torch.arange(mask.shape[1], device=mask.device)[None, :]
        # (batch, time): the position of each token counted from the end of its sequence; padding stays in place
        turned = torch.where(mask, mask.sum(dim=1, keepdim=True) - 1 - time, time).unsqueeze(2)
        # Always in single precision: rounding errors would accumulate over the steps.
        with torch.autocast(vectors.device.type, enabled=False):
            vectors = vectors.float()
            left, _ = self.forwards(vectors)
            right, _ = self.backwards(vectors.gather(1, turned.expand_as(vectors)))
        return torch.cat([left, right.gather(1, turned.expand_as(right))], dim=2)


class TransformerEncoder(nn.Module):
    """Self-attention over the tokens of a sequence, with sinusoidal positional encoding (Vaswani et al. 2017).

    The vectors are first projected to the encoder's width. Layers are normalised before attention, not after it, since
    that trains stably at higher learning rates (Xiong et al. 2020).
    """

    def __init__(self, width: int, hidden: int, *, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.project = nn.Linear(width, hidden)
        layer = nn.TransformerEncoderLayer(
            hidden, heads, dim_feedforward=4 * hidden, dropout=dropout, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(hidden), enable_nested_tensor=False)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Return (batch, time, hidden) of vectors (batch, time, width)."""
        projected = self.project(vectors)
        placed = projected + torch.from_numpy(positional_encoding(vectors.shape[1], projected.shape[2])).to(projected)
        encoded: Tensor = self.layers(placed, src_key_padding_mask=~mask)
        return encoded


class CharacterCnn(nn.Module):
    """Spelling -> vector: one convolution per kernel size, with max pooling over positions."""

    def __init__(self, n_characters: int, dimension: int, kernel_sizes: Sequence[int], channels: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_characters, dimension, padding_idx=0)
        self.convolutions = nn.ModuleList(nn.Conv1d(dimension, channels, k, padding=k - 1) for k in kernel_sizes)
        self.width = channels * len(kernel_sizes)

    def forward(self, spelling: Tensor) -> Tensor:
        """Return (words, channels * kernels) of spelling (words, characters)."""
        # (words, dimension, characters)
        characters = self.embedding(spelling).transpose(1, 2)
        return torch.cat([torch.relu(conv(characters)).amax(dim=2) for conv in self.convolutions], dim=1)


class CharacterBilstm(nn.Module):
    """Spelling -> vector: the last state of an LSTM in each direction (Lample et al. 2016)."""

    def __init__(self, n_characters: int, dimension: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_characters, dimension, padding_idx=0)
        self.lstm = Bilstm(dimension, hidden // 2)
        self.width = hidden

    def forward(self, spelling: Tensor) -> Tensor:
        """Return (words, hidden) of spelling (words, characters), 0 where a word has ended."""
        mask = spelling > 0
        states = self.lstm(self.embedding(spelling), mask)
        last = (mask.sum(dim=1) - 1).clamp(min=0)
        half = self.width // 2
        # Forwards the last character has seen the whole word, backwards the first one has.
        return torch.cat([states[torch.arange(len(states), device=last.device), last, :half], states[:, 0, half:]], 1)


CharacterEncoder = CharacterCnn | CharacterBilstm


def character_encoder(n_characters: int, config: NeuralConfig) -> CharacterEncoder | None:
    """Make the configured encoder of spellings, None where words alone are used."""
    if config.characters == "none":
        return None
    if config.characters == "cnn":
        return CharacterCnn(n_characters, config.character_dimension, config.kernel_sizes, config.channels)
    return CharacterBilstm(n_characters, config.character_dimension, config.character_hidden)


class SequenceDropout(nn.Module):
    """Dropout with one mask for all steps of a sequence (Gal and Ghahramani 2016): more stable, and cheaper to draw."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, vectors: Tensor) -> Tensor:
        """Return (batch, time, width) with whole columns of a sequence set to zero and the others scaled up."""
        if not self.training or self.rate == 0:
            return vectors
        keep = 1 - self.rate
        mask = vectors.new_empty(vectors.shape[0], 1, vectors.shape[2]).bernoulli_(keep)
        return vectors * (mask / keep)


class TaggingNetwork(nn.Module):
    """Word, character and feature embeddings -> context encoder -> emissions -> CRF or softmax.

    The parts are those of the configuration. An LSTM after a Transformer reads what that gives (Transformer-BiLSTM).
    """

    def __init__(self, sizes: Sizes, config: NeuralConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(sizes.words, config.word_dimension, padding_idx=0)
        self.pretrained = None
        if sizes.vectors:
            # They stay as they are; what the notes teach about a word is added to its vector.
            self.pretrained = nn.Embedding(sizes.vectors, config.word_dimension, padding_idx=0)
            nn.init.zeros_(self.pretrained.weight)
            self.pretrained.weight.requires_grad = False
        self.characters = character_encoder(sizes.characters, config)
        self.features = nn.ModuleList(nn.Embedding(n, config.feature_dimension) for n in sizes.features)
        width = config.word_dimension + (0 if self.characters is None else self.characters.width)
        width += config.feature_dimension * len(sizes.features)
        self.dropout = SequenceDropout(config.dropout)
        self.transformer = None
        if config.encoder != "bilstm":
            self.transformer = TransformerEncoder(
                width,
                config.hidden,
                layers=config.transformer_layers,
                heads=config.transformer_heads,
                dropout=config.transformer_dropout,
            )
            width = config.hidden
        self.lstm = None if config.encoder == "transformer" else Bilstm(width, config.hidden // 2)
        self.scores = nn.Linear(config.hidden, sizes.tags)
        self.crf = CrfLayer(sizes.tags, batch_first=True) if config.decoder == "crf" else None
        nn.init.normal_(self.words.weight, std=0.1)

    def emissions(self, inputs: TensorInputs) -> Tensor:
        """Return the score of every tag at every token, (batch, time, tags)."""
        words = self.words(inputs.words)
        if self.pretrained is not None:
            words = words + self.pretrained(inputs.vectors)
        parts = [words]
        if self.characters is not None:
            parts.append(self.characters(inputs.spelling)[inputs.form])
        parts += [embedding(inputs.features[:, :, i]) for i, embedding in enumerate(self.features)]
        # (batch, time, width)
        vectors = self.dropout(torch.cat(parts, dim=2))
        if self.transformer is not None:
            vectors = self.transformer(vectors, inputs.mask)
        if self.lstm is not None:
            vectors = self.lstm(vectors, inputs.mask)
        scores: Tensor = self.scores(self.dropout(vectors))
        return scores

    def loss(self, inputs: TensorInputs, tags: Tensor) -> Tensor:
        """Return the negative log-likelihood per token of gold tags (batch, time)."""
        # Sums over a sequence stay in single precision, even if products do not.
        emissions = self.emissions(inputs).float()
        if self.crf is None:
            # Padding is skipped, not removed: its amount would have to be read from the device.
            return nn.functional.cross_entropy(emissions.flatten(0, 1), tags.where(inputs.mask, _PASSED_OVER).flatten())
        return self.crf.negative_log_likelihood(emissions, tags, inputs.mask)


class TorchNetwork:
    """A network on a device, which is trained there or scores there; `ArrayNetwork` is its like without torch."""

    arithmetic = SINGLE

    def __init__(self, module: TaggingNetwork, device: torch.device) -> None:
        self.module, self.device = module, device

    @classmethod
    def from_weights(cls, weights: Weights, sizes: Sizes, config: NeuralConfig, device: str) -> "TorchNetwork":
        """Return a network on a device with the weights of a file."""
        module = TaggingNetwork(sizes, config)
        module.load_state_dict({name: torch.tensor(value) for name, value in dequantise(weights).items()})
        return cls(module, torch.device(device))

    @property
    def weights(self) -> dict[str, Array]:
        """The weights in single precision."""
        state = self.module.state_dict()
        return {name: value.detach().cpu().contiguous().numpy() for name, value in state.items()}

    @torch.no_grad()
    def score(self, inputs: Inputs) -> Array:
        """Return the score of every tag at every token, (batch, time, tags)."""
        self.module.eval().to(self.device)
        found: Array = self.module.emissions(inputs_to_tensors(inputs, self.device)).cpu().numpy()
        return found
