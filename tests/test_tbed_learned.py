"""The rule list in `rules/learned` is what training on the demo corpus learns, byte for byte."""

import pytest

from ensemble_deid.config import Config, TbedConfig
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.features.batch import training_view, with_lexicon
from ensemble_deid.model.feature_extractor import fit_feature_extractor
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.resources import rules_directory
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.taggers.tbed.rulelist import RuleList
from ensemble_deid.taggers.tbed.tagger import TbedTagger
from ensemble_deid.training.training_notes import in_fold_groups


@pytest.mark.long
def test_training_on_the_demo_corpus_learns_the_committed_rules() -> None:
    corpus = read_corpus("demo:train")
    scheme = TagScheme.from_labels(corpus.labels)
    documents = in_fold_groups(corpus.documents, config=Config())
    plain, extractor = fit_feature_extractor(documents, scheme.labels, config=Config())
    batch = training_view(with_lexicon(plain, extractor.lexicon, leave_own_patient_out=True))
    learned = TbedTagger.fit(batch, None, FitOptions(scheme, TbedConfig(), seed=13))
    path = rules_directory() / "learned" / "demo.rules"
    # After a change of notes, patterns, templates or limits: ensemble-deid train demo --submodels regex,tbed
    # --out M, then ensemble-deid rules show M > rules/learned/demo.rules.
    assert learned.rules.text() == path.read_bytes().decode()
    assert RuleList.load(path).text() == learned.rules.text()
