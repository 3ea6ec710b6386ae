"""Time of a training epoch on this device, for the network and an encoder.

    python benchmarks/gpu.py --device cuda --tokens 1000000
    python benchmarks/gpu.py --device cpu --tokens 20000

The notes are the demo corpus's training notes, repeated until there are enough tokens. Of two epochs only the second is
timed, since the first includes start-up.

Prediction decodes chains on the CPU, whatever the device: that is a small part of it, and patterns, features and the
final estimator remain there anyway.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ensemble_deid import read_corpus
from ensemble_deid.cli.terminal import as_script
from ensemble_deid.config import NeuralConfig, TransformerConfig
from ensemble_deid.features.batch import Batch, plain_batch, with_lexicon
from ensemble_deid.features.lexicon import learn_lexicon
from ensemble_deid.model.pattern_choice import NO_PATTERNS
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.device import choose_device
from ensemble_deid.taggers.neural.tagger import NeuralTagger
from ensemble_deid.taggers.transformer.tagger import TransformerTagger
from ensemble_deid.taggers.transformer.training import PACKAGED


class Epochs:
    """Record when each epoch ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def __call__(self, message: str) -> None:
        if ": epoch " in message:
            self.ends.append(time.perf_counter())

    @property
    def seconds(self) -> float:
        """Duration of the last epoch in seconds."""
        return self.ends[-1] - self.ends[-2]


def notes_of(tokens: int) -> tuple[Batch, TagScheme]:
    """Return a batch of at least the given number of tokens, and the tags of its labels."""
    corpus = read_corpus("demo:train").documents
    chosen, characters = [], 0
    for number, document in enumerate(itertools.cycle(corpus)):
        # About five characters a token; the batch has the exact number.
        if characters >= 5 * tokens:
            break
        chosen.append(replace(document, id=f"{number}"))
        characters += len(document.text)
    scheme = TagScheme(tuple(sorted({span.label for document in corpus for span in document.spans})))
    batch = plain_batch(chosen, patterns=NO_PATTERNS, split_lines=True)
    lexicon = learn_lexicon(batch.documents, batch.tokens, batch.table["lower"].strings())
    return with_lexicon(batch, lexicon, leave_own_patient_out=True), scheme


def measure(name: str, tokens: int, device: str, fit: Callable[[Epochs], object]) -> None:
    """Print a row of the table."""
    epochs = Epochs()
    fit(epochs)
    memory = f"{torch.cuda.max_memory_allocated() / 1e9:.1f} GB" if device == "cuda" else "-"
    print(f"| {name} | {tokens:,} | {epochs.seconds:.1f} | {tokens / epochs.seconds:,.0f} | {memory} |", flush=True)


@as_script
def main() -> None:
    """Train both and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--encoder", default=next(iter(PACKAGED)), help="name or folder of a pretrained encoder")
    parser.add_argument("--window", type=int, default=TransformerConfig().window, help="pieces that it reads at once")
    options = parser.parse_args()
    device = choose_device(options.device).type
    batch, scheme = notes_of(options.tokens)
    tokens = len(batch.tokens)
    print(torch.cuda.get_device_name() if device == "cuda" else "the CPU, one thread")
    print("| submodel | tokens | s an epoch | tokens/s | memory |\n|---|---|---|---|---|")
    fitted: dict[str, Any] = {"scheme": scheme, "seed": 0, "device": device}
    neural = NeuralConfig(epochs=2)
    tuned = TransformerConfig(encoder=options.encoder, window=options.window, epochs=2)
    measure(
        "neural",
        tokens,
        device,
        lambda told: NeuralTagger.fit(batch, None, FitOptions(config=neural, progress=told, **fitted)),
    )
    measure(
        "transformer",
        tokens,
        device,
        lambda told: TransformerTagger.fit(batch, None, FitOptions(config=tuned, progress=told, **fitted)),
    )


if __name__ == "__main__":
    sys.exit(main())
