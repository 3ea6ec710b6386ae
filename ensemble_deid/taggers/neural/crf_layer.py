"""pytorch-crf's layer with a likelihood whose cost grows with the length of a sequence, not with its square."""

import torch
from torch import Tensor
from torchcrf import CRF


class CrfLayer(CRF):  # type: ignore[misc]
    """A linear-chain CRF with pytorch-crf's parameters and meaning (checked against it in the tests).

    pytorch-crf takes one step's emissions at a time by indexing; the backward pass of each index fills a gradient as
    large as the whole batch. Here the steps are unbound once, and a step is a matrix product instead of a
    (batch, tags, tags) log-sum-exp.
    """

    def negative_log_likelihood(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Return the mean over tokens of -log P(tags), for emissions (batch, time, tags), tags and mask (batch, time).

        The mask is true on a sequence's tokens, which come first.
        """
        log_z = self._log_normalizer(emissions, mask)
        return (log_z - self._path_score(emissions, tags, mask)).sum() / mask.sum()

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
