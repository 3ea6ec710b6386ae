"""In which arithmetic a model's networks compute: that depends on the processor, and what is found on it.

Single precision on two processors differs in the last digits. Eight bits and bfloat16 round far more coarsely, and are
used where a processor has instructions for them: a span near the threshold may then be found on one machine alone.
"""

from collections.abc import Iterator, Mapping

from ensemble_deid.config import Config
from ensemble_deid.taggers.base import Computing, Tagger
from ensemble_deid.taggers.by_type import ByTypeTagger
from ensemble_deid.taggers.uncased import UncasedTagger


def arithmetic_in_use(taggers: Mapping[str, Tagger]) -> dict[str, str]:
    """Return the arithmetic of each submodel that is a network, such as `eight bits, cpu`."""
    found = {
        name: sorted({member.arithmetic for member in _members(tagger) if isinstance(member, Computing)})
        for name, tagger in taggers.items()
    }
    return {name: " and ".join(kinds) for name, kinds in found.items() if kinds}


def arithmetic_of_training(config: Config) -> dict[str, str]:
    """Return the arithmetic in which this process trains each submodel that is a network."""
    if not {"neural", "transformer"} & set(config.submodels):
        return {}
    # torch, which only networks need.
    from ensemble_deid.taggers.device import choose_device, described

    device = choose_device(config.device)
    found = {name: described("single precision", device) for name in ("neural",) if name in config.submodels}
    if "transformer" in config.submodels:
        from ensemble_deid.taggers.transformer.training import bfloat16_helps

        kind = "products in bfloat16" if bfloat16_helps(device) else "single precision"
        found["transformer"] = described(kind, device)
    return found


def _members(tagger: Tagger) -> Iterator[Tagger]:
    """Yield the models that a submodel consists of."""
    if isinstance(tagger, ByTypeTagger):
        for member in tagger.members:
            yield from _members(member)
    elif isinstance(tagger, UncasedTagger):
        yield from _members(tagger.tagger)
    else:
        yield tagger
