"""The BiLSTM-CNN-CRF of Ma and Hovy 2016 with feature embeddings (Zhao et al. 2020, table 3)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ensemble_deid.config import NeuralConfig
from ensemble_deid.taggers.neural.crf_layer import CrfLayer


@dataclass(frozen=True, slots=True)
class Sizes:
    """Vocabulary sizes; index 0 is padding and 1 unknown in each."""

    words: int
    characters: int
    features: tuple[int, ...]
    tags: int


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """One batch of sequences.

    `words` and `form` int64 (batch, time); `form` points into `spelling` int64 (distinct words, characters);
    `features` int64 (batch, time, features); `mask` bool (batch, time), true on tokens, its first column all true.
    """

    words: Tensor
    form: Tensor
    spelling: Tensor
    features: Tensor
    mask: Tensor

    def to(self, device: torch.device) -> "Inputs":
        """Return the batch on a device."""
        parts = (self.words, self.form, self.spelling, self.features, self.mask)
        return Inputs(*(part.to(device) for part in parts))


class CharacterCnn(nn.Module):
    """Spelling -> vector: one convolution per kernel size, with max pooling over positions."""

    def __init__(self, n_characters: int, dimension: int, kernel_sizes: Sequence[int], channels: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_characters, dimension, padding_idx=0)
        self.convolutions = nn.ModuleList(nn.Conv1d(dimension, channels, k, padding=k - 1) for k in kernel_sizes)

    def forward(self, spelling: Tensor) -> Tensor:
        """Return (words, channels * kernels) of spelling (words, characters)."""
        # (words, dimension, characters)
        characters = self.embedding(spelling).transpose(1, 2)
        return torch.cat([torch.relu(conv(characters)).amax(dim=2) for conv in self.convolutions], dim=1)


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
        left, _ = self.forwards(vectors)
        right, _ = self.backwards(vectors.gather(1, turned.expand_as(vectors)))
        return torch.cat([left, right.gather(1, turned.expand_as(right))], dim=2)


class BilstmCnnCrf(nn.Module):
    """Word, character and feature embeddings -> BiLSTM -> emissions -> CRF."""

    def __init__(self, sizes: Sizes, config: NeuralConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(sizes.words, config.word_dimension, padding_idx=0)
        self.characters = CharacterCnn(
            sizes.characters, config.character_dimension, config.kernel_sizes, config.channels
        )
        self.features = nn.ModuleList(nn.Embedding(n, config.feature_dimension) for n in sizes.features)
        width = config.word_dimension + config.channels * len(config.kernel_sizes)
        width += config.feature_dimension * len(sizes.features)
        self.dropout = SequenceDropout(config.dropout)
        self.lstm = Bilstm(width, config.hidden // 2)
        self.scores = nn.Linear(config.hidden, sizes.tags)
        self.crf = CrfLayer(sizes.tags, batch_first=True)
        nn.init.normal_(self.words.weight, std=0.1)

    def emissions(self, inputs: Inputs) -> Tensor:
        """Return the score of every tag at every token, (batch, time, tags)."""
        spelled = self.characters(inputs.spelling)[inputs.form]
        parts = [self.words(inputs.words), spelled]
        parts += [embedding(inputs.features[:, :, i]) for i, embedding in enumerate(self.features)]
        # (batch, time, width)
        vectors = self.dropout(torch.cat(parts, dim=2))
        scores: Tensor = self.scores(self.dropout(self.lstm(vectors, inputs.mask)))
        return scores

    def loss(self, inputs: Inputs, tags: Tensor) -> Tensor:
        """Return the negative log-likelihood per token of gold tags (batch, time)."""
        return self.crf.negative_log_likelihood(self.emissions(inputs), tags, inputs.mask)
