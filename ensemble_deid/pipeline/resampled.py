"""More to learn from: the training notes of a submodel, with copies of them in which other values stand for the PHI."""

from dataclasses import replace

from ensemble_deid.config import Config
from ensemble_deid.corpora.resample import resample_corpus
from ensemble_deid.features.batch import Batch, word_column
from ensemble_deid.features.table import FeatureTable
from ensemble_deid.features.words import word_columns
from ensemble_deid.text.tokens import tokenize


def with_resampled_copies(train: Batch, *, copies: int, config: Config) -> Batch:
    """Return the notes and `copies` resampled copies of each, with the columns that words alone decide.

    An encoder that reads the notes of a few sites several times learns their names by heart; with other names each time
    it learns where names stand. Within a copy and a patient the values are consistent (`corpora/resample.py`), and they
    come from other sources than the public lists. Raises ConfigError where Faker is not installed.
    """
    # Folds may keep sites together; who is replaced by whom is decided patient by patient.
    notes = [replace(document, fold_group=None) for document in train.documents]
    documents = (*notes, *resample_corpus(notes, copies=copies, seed=config.seed))
    tokens = tokenize(documents, split_lines=config.text.split_lines)
    columns = word_columns(word_column(documents, tokens))
    nothing_found = tuple(() for _ in documents)
    return Batch(documents, tokens, FeatureTable(columns), nothing_found, columns["lower"].codes)
