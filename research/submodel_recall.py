"""One submodel by itself, trained with and without an option: token recall at bounds on false positives.

The final estimator can only accept what some submodel proposes, so what matters of a submodel is how much PHI is among
its candidates, and at what price. Run, for what public lists bring the CRF:

    python research/submodel_recall.py crf demo:train demo:dev text.knowledge=none text.knowledge=auto

Each setting after the corpora is one training; several of one training are joined with a comma.
"""

import math
import os
import sys
import time
from collections.abc import Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")

from ensemble_deid.cli.terminal import as_script
from ensemble_deid.config import Config, load_config
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.evaluation.curve import Curve, trace_curve
from ensemble_deid.evaluation.operating_points import find_point
from ensemble_deid.features.batch import training_view, with_lexicon
from ensemble_deid.model.feature_extractor import fit_feature_extractor
from ensemble_deid.model.submodels import fit_submodel
from ensemble_deid.note.digits import percent
from ensemble_deid.note.document import Document
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.training.training_notes import in_fold_groups

BOUNDS = (2.0, 5.0, 10.0, 20.0)


def curve_of(name: str, train: Sequence[Document], dev: Sequence[Document], *, config: Config) -> Curve:
    """Train a submodel, and return what its candidates in the dev notes are at every threshold: tokens, PHI or not."""
    documents = in_fold_groups(train, config=config)
    scheme = TagScheme.from_labels({span.label for note in train for span in note.spans})
    plain, extractor = fit_feature_extractor(documents, scheme.labels, config=config)
    batch = training_view(with_lexicon(plain, extractor.lexicon, leave_own_patient_out=True))
    tagger = fit_submodel(
        name,
        batch,
        None,
        scheme=scheme,
        config=config,
        progress=lambda message: print(f"    {message}", file=sys.stderr),
    )
    found = tagger.propose(extractor.extract(dev), n_best=config.stack.n_best).candidates
    system = [document.with_spans(spans) for document, spans in zip(dev, found, strict=True)]
    return trace_curve(dev, system)


def recalls_on(curve: Curve) -> list[float | None]:
    """Return recall at each bound on false positives per 1000 tokens, and at any number of them; None without PHI."""
    # A threshold that nothing reaches keeps within every bound.
    within = [find_point(curve, rule="false-positives", wanted=bound) or curve.at(math.inf) for bound in BOUNDS]
    return [point.counts.recall for point in [*within, curve.at(0.0)]]


@as_script
def main() -> None:
    """Train once for every setting and print a row of each."""
    name, train, dev, *settings = sys.argv[1:]
    corpora = read_corpus(train).documents, read_corpus(dev).documents
    print(f"{name}, {train} -> {dev}: token recall at false positives per 1000 tokens")
    print(f"{'':<36}" + "".join(f"{bound:>10g}" for bound in BOUNDS) + f"{'all':>10}{'seconds':>9}")
    for setting in settings or [""]:
        begun = time.process_time()
        config = load_config(overrides=[part for part in setting.split(",") if part])
        recalls = recalls_on(curve_of(name, *corpora, config=config))
        row = "".join(f"{percent(value, sign=''):>10}" for value in recalls)
        print(f"{setting or 'defaults':<36}{row}{time.process_time() - begun:>9.0f}")


if __name__ == "__main__":
    sys.exit(main())
