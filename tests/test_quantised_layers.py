"""Layers that compute in eight bits: near those in single precision, row by row, and only where they may be used."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_encoder import tiny_encoder
from tiny_notes import SCHEME, no_progress, tiny_batch, tiny_notes
from torch import nn

from ensemble_deid.config import TransformerConfig
from ensemble_deid.reproducible import MARK
from ensemble_deid.taggers.transformer import quantisation, tagger
from ensemble_deid.taggers.transformer.quantisation import (
    EightBitLinear,
    dequantise,
    eight_bits_help,
    quantise,
    use_eight_bits,
)
from ensemble_deid.taggers.transformer.tagger import TransformerTagger

CPU = torch.device("cpu")
SMALL = TransformerConfig(encoder=tiny_encoder(), window=40, overlap=8, epochs=3, batch_pieces=200)


def two_layers() -> tuple[nn.Sequential, dict[str, torch.Tensor]]:
    """Return a network whose weights are what eight bits hold, and these."""
    torch.manual_seed(3)
    network = nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.Linear(40, 8), nn.LayerNorm(8))
    stored = quantise(network.state_dict())
    network.load_state_dict(dequantise(stored))
    return network, stored


def by_hand(layer: nn.Linear, rows: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """Compute a layer's output number by number."""
    weights = layer.weight.detach().numpy()
    out = np.zeros((len(rows), len(weights)))
    for r, row in enumerate(rows):
        step = max(abs(row)) / 127
        whole = [round(float(value / step)) if step else 0 for value in row]
        for k, weight in enumerate(weights):
            its_step = max(abs(weight)) / 127
            products = sum(a * round(float(b / its_step)) for a, b in zip(whole, weight, strict=True))
            out[r, k] = products * step * its_step + float(layer.bias.detach()[k])
    return out


@pytest.mark.parametrize("shape", [(1, 24), (5, 24), (2, 3, 24), (0, 24)])
def test_a_layer_multiplies_rounded_rows_by_rounded_weights(shape: tuple[int, ...]) -> None:
    network, stored = two_layers()
    plain = network[0]
    assert use_eight_bits(network, stored) == 2
    rows = torch.randn(shape)
    rows[..., 0] = 0.0
    with torch.inference_mode():
        got = network[0](rows)
    assert got.shape == (*shape[:-1], 40)
    expected = by_hand(plain, rows.reshape(-1, 24).numpy())  # type: ignore[arg-type]
    np.testing.assert_allclose(got.reshape(-1, 40).numpy(), expected, atol=1e-4)


def test_nothing_and_the_other_rows_do_not_change_a_row() -> None:
    network, stored = two_layers()
    use_eight_bits(network, stored)
    rows = torch.randn(6, 24)
    with torch.inference_mode():
        alone = torch.cat([network(row[None]) for row in rows])
        beside_large = network(torch.cat([rows, 1000 * torch.ones(1, 24)]))[:6]
        nothing = network[0](torch.zeros(1, 24))
    torch.testing.assert_close(alone, beside_large)
    torch.testing.assert_close(nothing[0], network[0].bias)


def test_the_state_is_that_of_the_plain_network() -> None:
    network, stored = two_layers()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    use_eight_bits(network, stored)
    assert isinstance(network[0], EightBitLinear)
    after = network.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_weights_that_were_not_stored_in_eight_bits_stay() -> None:
    network, _ = two_layers()
    assert use_eight_bits(network, network.state_dict()) == 0
    assert type(network[0]) is nn.Linear


def test_where_they_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantisation.torch.cpu, "_is_vnni_supported", lambda: True)
    assert eight_bits_help(CPU)
    assert not eight_bits_help(torch.device("cuda"))
    monkeypatch.setenv(MARK, "1")
    assert not eight_bits_help(CPU)
    monkeypatch.delenv(MARK)
    monkeypatch.setattr(quantisation.torch.cpu, "_is_vnni_supported", lambda: False)
    assert not eight_bits_help(CPU)


def test_a_compact_model_computes_in_eight_bits_and_finds_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = tiny_batch(tiny_notes(6))
    fitted = TransformerTagger.fit(batch, None, scheme=SCHEME, config=SMALL, seed=1, device="cpu", progress=no_progress)
    fitted.save(tmp_path)

    def loaded(helps: bool) -> TransformerTagger:
        monkeypatch.setattr(tagger, "eight_bits_help", lambda device: helps)
        return TransformerTagger.load(tmp_path, scheme=SCHEME, config=SMALL, device="cpu")

    def layers(model: TransformerTagger) -> int:
        return sum(isinstance(layer, EightBitLinear) for layer in model.network.modules())

    assert layers(loaded(True)) == 0, "only a compact model's weights are in eight bits"
    TransformerTagger.compact_saved(tmp_path)
    fast, exact = loaded(True), loaded(False)
    assert layers(fast) > 3
    assert layers(exact) == 0
    np.testing.assert_allclose(np.exp(fast.emissions(batch)), np.exp(exact.emissions(batch)), atol=0.05)
