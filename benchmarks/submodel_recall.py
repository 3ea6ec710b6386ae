"""One submodel by itself, trained with and without an option: token recall at bounds on false positives.

The final estimator can only accept what some submodel proposes, so what matters of a submodel is how much PHI is among
its candidates, and at what price. Run, for what public lists bring the CRF:

    python benchmarks/submodel_recall.py crf demo:train demo:dev text.knowledge=none text.knowledge=auto

Each setting after the corpora is one training; several of one training are joined with a comma.
"""

import os
import sys
import time
from collections.abc import Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")

from ensemble_deid.config import Config
from ensemble_deid.config_files import load_config
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.evaluation.curve import trace_curve
from ensemble_deid.experiments.training_notes import in_fold_groups
from ensemble_deid.features.batch import training_view, with_lexicon
from ensemble_deid.pipeline.feature_extractor import fit_feature_extractor
from ensemble_deid.pipeline.submodels import submodel_class
from ensemble_deid.text.document import Document
from ensemble_deid.text.tags import TagScheme

BOUNDS = (2.0, 5.0, 10.0, 20.0)


def recall_at(
    name: str, train: Sequence[Document], dev: Sequence[Document], *, config: Config
) -> tuple[list[float], float]:
    """Return token recall (PHI or not) at each bound on false positives per 1000 tokens, and at any number of them."""
    documents = in_fold_groups(train, config=config)
    scheme = TagScheme.from_labels({span.label for note in train for span in note.spans})
    plain, extractor = fit_feature_extractor(documents, scheme.labels, config=config)
    batch = training_view(with_lexicon(plain, extractor.lexicon, leave_own_patient_out=True))
    tagger = submodel_class(name).fit(
        batch,
        None,
        scheme=scheme,
        config=config.of_submodel(name),
        seed=config.seed,
        device=config.device,
        progress=lambda message: print(f"    {message}", file=sys.stderr),
    )
    found = tagger.propose(extractor.extract(dev), n_best=config.stack.n_best).candidates
    system = [document.with_spans(spans) for document, spans in zip(dev, found, strict=True)]
    points = [curve.point(k) for curve in [trace_curve(dev, system)] for k in range(len(curve))]
    best = [max((p.counts.recall or 0.0 for p in points if (p.fp_per_1000 or 0.0) <= b), default=0.0) for b in BOUNDS]
    return best, max((p.counts.recall or 0.0 for p in points), default=0.0)


def main() -> None:
    """Train once for every setting and print a row of each."""
    name, train, dev, *settings = sys.argv[1:]
    corpora = read_corpus(train).documents, read_corpus(dev).documents
    print(f"{name}, {train} -> {dev}: token recall at false positives per 1000 tokens")
    print(f"{'':<36}" + "".join(f"{bound:>8g}" for bound in BOUNDS) + f"{'all':>8}{'seconds':>9}")
    for setting in settings or [""]:
        begun = time.process_time()
        config = load_config(overrides=[part for part in setting.split(",") if part])
        best, everything = recall_at(name, *corpora, config=config)
        row = "".join(f"{100 * value:>8.2f}" for value in [*best, everything])
        print(f"{setting or 'defaults':<36}{row}{time.process_time() - begun:>9.0f}")


if __name__ == "__main__":
    main()
