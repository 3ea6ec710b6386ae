"""Efficient fine-tuning computes what the library computes, but for the random numbers of dropout."""

import copy

import pytest
import torch
from tiny_encoder import tiny_encoder
from tiny_notes import SCHEME, tiny_batch, tiny_notes
from torch import nn
from transformers import BertConfig, BertModel

from ensemble_deid.arrays import Int64s
from ensemble_deid.config import TransformerConfig
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.transformer.efficient_training import (
    DropoutMasks,
    PooledDropout,
    embeddings_in_use,
    speed_up_bert,
)
from ensemble_deid.taggers.transformer.network import EncoderClassifier, WindowTensors
from ensemble_deid.taggers.transformer.tagger import TransformerTagger
from ensemble_deid.taggers.transformer.training import load_encoder


def small_bert() -> EncoderClassifier:
    torch.manual_seed(5)
    config = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48)
    return EncoderClassifier(BertModel(config), 7, [3], dropout=0.1)


def inputs(*, padding: int) -> WindowTensors:
    shape = (3, 9)
    mask = torch.ones(shape, dtype=torch.bool)
    mask[1, 9 - padding :] = False
    ids, code = torch.randint(50, shape), torch.randint(3, shape)
    return WindowTensors(ids, code, code, code[:, :, None], mask if padding else None)


@pytest.mark.parametrize("padding", [0, 4])
def test_scores_and_gradients_are_those_of_the_library(padding: int) -> None:
    plain = small_bert().eval()
    quick = copy.deepcopy(plain)
    speed_up_bert(quick, quick.encoder)
    assert not any(isinstance(module, nn.Dropout) for module in quick.modules())
    given = inputs(padding=padding)
    valid = torch.ones(3, 9, dtype=torch.bool) if given.mask is None else given.mask
    scores = [network(given) for network in (plain, quick)]
    torch.testing.assert_close(scores[1][valid], scores[0][valid])
    for found in scores:
        (found[valid] ** 2).sum().backward()
    for one, other in zip(plain.parameters(), quick.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None)
        if one.grad is not None and other.grad is not None:
            torch.testing.assert_close(other.grad, one.grad, atol=1e-5, rtol=1e-4)


def test_in_training_dropout_reaches_attention_too() -> None:
    network = small_bert()
    speed_up_bert(network, network.encoder)
    for module in network.modules():
        if isinstance(module, PooledDropout) and module is not network.encoder.encoder.layer[0].attention.self.dropout:
            module.p = 0.0
    given = inputs(padding=0)
    network.train()
    assert not torch.allclose(network(given), network(given))
    network.eval()
    torch.testing.assert_close(network(given), network(given))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_mask_zeroes_the_share_asked_for_and_the_rest_is_scaled(dtype: torch.dtype) -> None:
    dropout = PooledDropout(DropoutMasks(0.1))
    values = torch.full((100, 500), 3.0, dtype=dtype)
    first, second = dropout(values), dropout(values)
    assert first.dtype == dtype
    assert first.shape == values.shape
    assert float((first == 0).float().mean()) == pytest.approx(0.1, abs=0.01)
    torch.testing.assert_close(first[first != 0].float().unique(), torch.tensor([3 / 0.9]), rtol=0.01, atol=0.0)
    assert not torch.equal(first, second)
    assert torch.equal(dropout.eval()(values), values)
    assert torch.equal(PooledDropout(DropoutMasks(0.0))(values), values)


def test_a_pool_grows_with_what_is_asked_of_it() -> None:
    masks = DropoutMasks(0.5)
    small, large = torch.zeros(10), torch.zeros(1 << 22)
    assert masks.like(small).shape == (10,)
    assert 0.49 < float(masks.like(large).mean()) < 0.51


def test_only_the_rows_in_use_are_trained_and_put_back() -> None:
    encoder = small_bert().encoder
    table = encoder.get_input_embeddings()
    before = table.weight.detach().clone()
    used = torch.tensor([3, 40, 7])
    with embeddings_in_use(encoder, used.numpy()):
        part = encoder.get_input_embeddings()
        torch.testing.assert_close(part(torch.tensor([1])), before[[40]])
        with torch.no_grad():
            part.weight[1] += 1
    assert encoder.get_input_embeddings() is table
    before[40] += 1
    torch.testing.assert_close(table.weight.detach(), before)


def test_vectors_of_pieces_that_no_note_has_stay_as_pretrained() -> None:
    values = {"window": 40, "overlap": 8, "epochs": 2, "batch_pieces": 200, "eight_bit_weights": False}
    config = TransformerConfig(encoder=tiny_encoder(), **values)
    batch = tiny_batch(tiny_notes(4))
    fitted = TransformerTagger.fit(batch, None, FitOptions(SCHEME, config, seed=1))
    pretrained = load_encoder(config.encoder).encoder.get_input_embeddings().weight.detach().half().float().numpy()
    tuned = fitted.network.weights["encoder.embeddings.word_embeddings.weight"]
    seen: Int64s = fitted.pieces(batch).ids
    changed = {row for row in range(len(tuned)) if (tuned[row] != pretrained[row]).any()}
    assert set(seen.tolist()) <= changed
    special = fitted.special_pieces()
    assert changed <= {*seen.tolist(), special.opening, special.closing, special.padding}
