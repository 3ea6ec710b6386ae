"""The CRF layer's likelihood and gradients against pytorch-crf's own, on the processor and as on other devices."""

import pytest
import torch
from torchcrf import CRF

from ensemble_deid.taggers.neural.network import CrfLayer


@pytest.mark.parametrize("way", ["_in_arrays", "_in_steps"])
@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("lengths", [[1], [3, 3], [5, 2, 1, 4]])
def test_likelihood_and_gradients_are_those_of_pytorch_crf(lengths: list[int], way: str, size: float) -> None:
    torch.manual_seed(len(lengths))
    ours, theirs = CrfLayer(4, batch_first=True), CRF(4, batch_first=True)
    theirs.load_state_dict(ours.state_dict())
    mask = torch.arange(max(lengths) + 1)[None, :] < torch.tensor(lengths)[:, None]
    tags = torch.randint(0, 4, mask.shape)
    emissions = size * torch.randn(*mask.shape, 4)
    mine, reference = emissions.clone().requires_grad_(), emissions.clone().requires_grad_()

    loss = getattr(ours, way)(mine, tags, mask) / mask.sum()
    expected = -theirs(reference, tags, mask=mask, reduction="token_mean")
    loss.backward()
    expected.backward()

    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert mine.grad is not None
    assert reference.grad is not None
    torch.testing.assert_close(mine.grad, reference.grad, rtol=1e-4, atol=1e-6)
    for name, parameter in ours.named_parameters():
        wanted = theirs.get_parameter(name).grad
        # A sequence of one token has no transition: pytorch-crf then leaves the gradient out instead of zero.
        wanted = torch.zeros_like(parameter) if wanted is None else wanted
        torch.testing.assert_close(parameter.grad, wanted, rtol=1e-4, atol=1e-6)


def test_on_the_processor_arrays_compute_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CrfLayer, "_in_steps", None)
    mask = torch.ones(2, 3, dtype=torch.bool)
    found = CrfLayer(4, batch_first=True).negative_log_likelihood(torch.randn(2, 3, 4), torch.zeros(2, 3).long(), mask)
    assert float(found.detach()) > 0
