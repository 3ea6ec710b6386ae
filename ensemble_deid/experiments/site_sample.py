"""The notes of some sites, drawn by a seed: for a shorter training, and for learning curves over sites."""

from collections.abc import Sequence

from ensemble_deid.errors import ConfigError
from ensemble_deid.seeding import generator
from ensemble_deid.text.document import Document


def sample_sites(documents: Sequence[Document], n_sites: int, *, seed: int) -> tuple[Document, ...]:
    """Return the notes of `n_sites` sites, in their order; a larger sample of the same seed includes a smaller one.

    Raises ConfigError where a note names no site, or where there are fewer sites than asked for.
    """
    sites = {document.site for document in documents}
    if None in sites:
        raise ConfigError("only notes that all name their site can be drawn by site")
    names = sorted(site for site in sites if site is not None)
    if not 1 <= n_sites <= len(names):
        raise ConfigError(f"{n_sites} sites cannot be drawn: the notes are of {len(names)}")
    order = generator(seed, "sites").permutation(len(names))
    chosen = {names[k] for k in order[:n_sites].tolist()}
    return tuple(document for document in documents if document.site in chosen)
