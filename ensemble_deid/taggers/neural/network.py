"""The BiLSTM-CNN-CRF of Ma and Hovy 2016 with feature embeddings (Zhao et al. 2020, table 3)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torchcrf import CRF

from ensemble_deid.config import NeuralConfig


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
    """Spelling -> vector: one convolution for each kernel size, the maximum over places."""

    def __init__(self, n_characters: int, dimension: int, kernel_sizes: Sequence[int], channels: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_characters, dimension, padding_idx=0)
        self.convolutions = nn.ModuleList(nn.Conv1d(dimension, channels, k, padding=k - 1) for k in kernel_sizes)

    def forward(self, spelling: Tensor) -> Tensor:
        """Return (words, channels * kernels) of spelling (words, characters)."""
        # (words, dimension, characters)
        characters = self.embedding(spelling).transpose(1, 2)
        return torch.cat([torch.relu(conv(characters)).amax(dim=2) for conv in self.convolutions], dim=1)


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
        self.dropout = nn.Dropout(config.dropout)
        self.lstm = nn.LSTM(width, config.hidden, batch_first=True, bidirectional=True)
        self.scores = nn.Linear(2 * config.hidden, sizes.tags)
        self.crf = CRF(sizes.tags, batch_first=True)
        nn.init.normal_(self.words.weight, std=0.1)

    def emissions(self, inputs: Inputs) -> Tensor:
        """Return the score of every tag at every token, (batch, time, tags)."""
        spelled = self.characters(inputs.spelling)[inputs.form]
        parts = [self.words(inputs.words), spelled]
        parts += [embedding(inputs.features[:, :, i]) for i, embedding in enumerate(self.features)]
        # (batch, time, width)
        vectors = self.dropout(torch.cat(parts, dim=2))
        lengths = inputs.mask.sum(dim=1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
        states, _ = self.lstm(packed)
        unpacked, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=vectors.shape[1])
        scores: Tensor = self.scores(self.dropout(unpacked))
        return scores

    def loss(self, inputs: Inputs, tags: Tensor) -> Tensor:
        """Return the negative log-likelihood a token of gold tags (batch, time)."""
        likelihood: Tensor = self.crf(self.emissions(inputs), tags, mask=inputs.mask, reduction="token_mean")
        return -likelihood
