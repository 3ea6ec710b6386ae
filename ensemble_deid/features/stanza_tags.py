"""Parts of speech and named entities by stanza (Qi et al. 2020), where they are asked for: the extra `nlp`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ensemble_deid.errors import ConfigError
from ensemble_deid.features.table import Column
from ensemble_deid.text.document import Document
from ensemble_deid.text.tokens import TokenTable

COLUMNS = ("pos", "ner")
NONE = "-"
# A text -> stanza's own Document, as a stanza Pipeline gives it.
Annotate = Callable[[str], Any]


def load_pipeline(name: str) -> Annotate:
    """Return stanza's pipeline `language` or `language/package`, of models that were downloaded before.

    Nothing is downloaded here. Raises ConfigError when stanza or the models are missing.
    """
    try:
        # Imported here: it takes seconds, and only those who ask for it have it.
        import stanza
    except ImportError:
        raise ConfigError("text.stanza: stanza is not installed; it comes with the extra ensemble_deid[nlp]") from None
    language, _, package = name.partition("/")
    try:
        pipeline: Annotate = stanza.Pipeline(
            language,
            package=package or "default",
            processors="tokenize,pos,ner",
            download_method=None,
            use_gpu=False,
            verbose=False,
        )
    except (OSError, ValueError, KeyError, stanza.pipeline.core.PipelineRequirementsException) as error:
        raise ConfigError(
            f"text.stanza: no usable models {name!r} on this machine ({type(error).__name__}); "
            f"fetch them with stanza.download({language!r})"
        ) from None
    return pipeline


def stanza_columns(documents: Sequence[Document], tokens: TokenTable, annotate: Annotate) -> dict[str, Column]:
    """Return the columns `pos` and `ner`: the tags of the stanza token that holds a token's first character.

    `pos` is the universal part of speech, those of all its words where stanza parts a token (`ADP+DET`); `ner` is
    stanza's entity tag (`S-PER`). Both are `-` where stanza sees no token or gives no tag.
    """
    pos, ner = [NONE] * len(tokens), [NONE] * len(tokens)
    for d, document in enumerate(documents):
        low, high = int(tokens.document_starts[d]), int(tokens.document_starts[d + 1])
        found = [] if low == high else [t for s in annotate(document.text).sentences for t in s.tokens]
        begins = np.array([token.start_char for token in found], dtype=np.int64)
        for row, start in enumerate(tokens.start[low:high].tolist(), low):
            k = int(np.searchsorted(begins, start, side="right")) - 1
            if k >= 0 and start < found[k].end_char:
                pos[row] = "+".join(word.upos or NONE for word in found[k].words)
                ner[row] = found[k].ner or NONE
    return {"pos": Column.from_strings(pos), "ner": Column.from_strings(ner)}
