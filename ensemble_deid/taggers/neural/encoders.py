"""Context encoders: vectors of tokens -> vectors of tokens in their sequence."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ensemble_deid.config import NeuralConfig
from ensemble_deid.taggers.neural.arrays import positional_encoding


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
