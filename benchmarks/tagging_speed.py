"""How fast a model reads, submodel by submodel, and what searching only among probable tags brings.

Both searches run in one process on the same scores; the spans that could be kept (probability 0.01 and more) are
compared. Run: `python benchmarks/tagging_speed.py MODEL NOTES`, NOTES being a corpus.
"""

import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pathlib import Path

from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.model.loading import load_model
from ensemble_deid.taggers import decoding
from ensemble_deid.taggers.chain import n_best

KEPT = 0.01


def exhaustive() -> None:
    """Let `decode` search among all tags and in all sequences."""
    decoding.NEGLIGIBLE = -1.0
    decoding.n_best = lambda chain, emissions, lengths, n, likely: n_best(chain, emissions, lengths, n)


def main() -> None:
    """Print tokens a second of every part, the whole, and of both searches."""
    model, notes = sys.argv[1:]
    ensemble, _ = load_model(Path(model))
    documents = read_corpus(notes).documents
    begun = time.process_time()
    batch = ensemble.feature_extractor.extract(documents)
    n_tokens = len(batch.tokens)
    print(f"{n_tokens:,} tokens in {len(documents)} notes")
    print(f"{'features':<14}{n_tokens / (time.process_time() - begun):>12,.0f} tokens/s")
    rates: dict[str, list[float]] = {}
    spans: dict[str, list[set[object]]] = {}
    for search in ("probable tags", "all tags"):
        if search == "all tags":
            exhaustive()
        for name, tagger in ensemble.taggers.items():
            begun = time.process_time()
            proposals = tagger.propose(batch, n_best=ensemble.config.stack.n_best)
            rates.setdefault(name, []).append(n_tokens / (time.process_time() - begun))
            kept = {(d, s.key) for d, found in enumerate(proposals.candidates) for s in found if s.score >= KEPT}
            spans.setdefault(name, []).append(kept)
        begun = time.process_time()
        ensemble.predict(documents)
        rates.setdefault("whole model", []).append(n_tokens / (time.process_time() - begun))
    for name, (pruned, full) in rates.items():
        changed = (
            f"; {len(spans[name][0] ^ spans[name][1])} of {len(spans[name][1])} spans differ" if name in spans else ""
        )
        print(f"{name:<14}{pruned:>12,.0f} tokens/s, {pruned / full:.2f} times as fast{changed}")


if __name__ == "__main__":
    main()
