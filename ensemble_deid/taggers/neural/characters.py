"""Character encoders: the spelling of a word -> a vector."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ensemble_deid.config import NeuralConfig
from ensemble_deid.taggers.neural.encoders import Bilstm


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
