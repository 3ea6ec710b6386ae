"""The network: a pretrained encoder over word pieces, with embeddings of casing and gaps, and a tag classifier."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import AutoConfig, AutoModel, PreTrainedModel

from ensemble_deid.taggers.device import to_device, torch_on_one_thread
from ensemble_deid.taggers.layers import Array, Weights
from ensemble_deid.taggers.quantisation import dequantise
from ensemble_deid.taggers.transformer.arrays import SINGLE, check_layers
from ensemble_deid.taggers.transformer.pieces import CASES, GAPS
from ensemble_deid.taggers.transformer.scoring import Windows


@dataclass(frozen=True, slots=True, eq=False)
class WindowTensors:
    """What `Windows` holds, as tensors on a device; `mask` is None where nothing is padding."""

    ids: Tensor
    case: Tensor
    gap: Tensor
    features: Tensor
    mask: Tensor | None


def windows_to_tensors(windows: Windows, device: torch.device) -> WindowTensors:
    """Return windows on a device."""
    # Checked before the copy, to avoid a synchronisation. Attention is faster without a mask.
    mask = None if windows.mask.all() else to_device(windows.mask, device)
    ids, case, gap, features = (
        to_device(array, device) for array in (windows.ids, windows.case, windows.gap, windows.features)
    )
    return WindowTensors(ids, case, gap, features, mask)


class EncoderClassifier(nn.Module):
    """Token classification over a pretrained encoder (Devlin et al. 2019; Johnson et al. 2020).

    What an uncased vocabulary loses (casing, line breaks) and what public lists say of a word are added to the pieces'
    embeddings. All these tables start at zero, so that training begins with what the encoder was pretrained on.
    `sizes` gives the number of codes of each feature.
    """

    def __init__(self, encoder: PreTrainedModel, n_tags: int, sizes: Sequence[int], *, dropout: float) -> None:
        super().__init__()
        self.encoder = encoder
        width = int(encoder.config.hidden_size)
        # Some encoders read narrower embeddings than they return.
        narrow = cast(nn.Embedding, encoder.get_input_embeddings()).embedding_dim
        self.case = nn.Embedding(len(CASES), narrow)
        self.gap = nn.Embedding(len(GAPS), narrow)
        self.features = nn.ModuleList(nn.Embedding(size, narrow) for size in sizes)
        for table in (self.case, self.gap, *self.features):
            nn.init.zeros_(cast(nn.Embedding, table).weight)
        self.dropout = nn.Dropout(dropout)
        self.scores = nn.Linear(width, n_tags)

    def forward(self, windows: WindowTensors) -> Tensor:
        """Return the score of every tag at every piece, (batch, pieces, tags)."""
        # (batch, pieces, width)
        embedded = self.encoder.get_input_embeddings()(windows.ids) + self.case(windows.case) + self.gap(windows.gap)
        for k, table in enumerate(self.features):
            embedded = embedded + table(windows.features[:, :, k])
        mask = None if windows.mask is None else windows.mask.long()
        output = self.encoder(inputs_embeds=embedded, attention_mask=mask)
        return cast(Tensor, self.scores(self.dropout(output.last_hidden_state)))


class TorchClassifier:
    """A network on a device, which is trained there or scores there; `ArrayClassifier` is its like without torch."""

    arithmetic = SINGLE

    def __init__(self, module: EncoderClassifier, device: torch.device) -> None:
        self.module, self.device = module, device

    @classmethod
    def from_weights(
        cls, weights: Weights, config: dict[str, Any], n_tags: int, sizes: Sequence[int], *, device: str
    ) -> "TorchClassifier":
        """Return a network with the weights of a file. Raises ValueError where they are those of another one."""

        def make() -> EncoderClassifier:
            return EncoderClassifier(build_encoder(config), n_tags, sizes, dropout=0.0)

        single = {name: torch.from_numpy(value.copy()) for name, value in dequantise(weights).items()}
        _check_weights(make, single)
        module = make()
        module.load_state_dict(single)
        return cls(module.eval(), torch.device(device))

    @property
    def weights(self) -> dict[str, Array]:
        """The weights in single precision."""
        state = self.module.state_dict()
        return {name: value.detach().cpu().contiguous().numpy() for name, value in state.items()}

    @torch.no_grad()
    def score(self, windows: Windows) -> Array:
        """Return the score of every tag at every piece, (batch, pieces, tags)."""
        with torch_on_one_thread():
            self.module.eval().to(self.device)
            found: Array = self.module(windows_to_tensors(windows, self.device)).float().cpu().numpy()
        return found


class _WithoutRandomValues(TorchFunctionMode):
    """Leave random values away where there is no memory for them: torch would load its compiler to draw them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        return given["tensor"] if func is torch.nn.init.normal_ else func(*args, **given)


def _check_weights(make_network: Callable[[], torch.nn.Module], weights: Mapping[str, torch.Tensor]) -> None:
    """Raise ValueError unless the weights are finite, and have the names and shapes of the network's.

    The network is made without memory for this: the sizes in a forged model could ask for any amount of it, the
    weights are no larger than their file.
    """
    with torch.device("meta"), _WithoutRandomValues():
        expected = {name: value.shape for name, value in make_network().state_dict().items()}
    if expected != {name: value.shape for name, value in weights.items()}:
        raise ValueError("the weights are those of another network")
    if not all(bool(torch.isfinite(value).all()) for value in weights.values() if value.is_floating_point()):
        raise ValueError("a weight is not a number")


def longest_window(encoder: PreTrainedModel) -> int | None:
    """Return how many pieces an encoder reads at a time besides its two special ones; None where any number."""
    positions = getattr(encoder.config, "max_position_embeddings", None)
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    # RoBERTa counts positions from behind that of padding.
    padding = getattr(table, "padding_idx", None)
    return None if positions is None else int(positions) - 2 - (0 if padding is None else padding + 1)


def build_encoder(config: dict[str, Any]) -> PreTrainedModel:
    """Make an encoder without weights from the content of its `config.json`. Raises ValueError for too many layers."""
    check_layers(config)
    content = dict(config)
    settings = AutoConfig.for_model(content.pop("model_type"), **content)
    return cast(PreTrainedModel, AutoModel.from_config(settings))  # type: ignore[no-untyped-call]
