"""Submodels made of others: of several models by type of PHI, or of one that reads every word in lower case.

Each of several models learns some types (Murugadoss et al. 2021, "Ensemble of models framework"): what any of them
claims is a claim of the submodel.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

import numpy as np

from ensemble_deid.errors import ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.knowledge import PLACES
from ensemble_deid.features.knowledge import PREFIX as KNOWLEDGE
from ensemble_deid.note.overlaps import drop_overlaps
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.taggers.base import Proposals, Tagger, TokenScores

Groups = Sequence[tuple[str, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class ByTypeTagger:
    """The models of one submodel, `members`, and the labels of each; `scheme` has the labels of all."""

    scheme: TagScheme
    groups: tuple[tuple[str, ...], ...]
    members: tuple[Tagger, ...] = field(repr=False)

    @classmethod
    def fit(
        cls,
        fit_one: Callable[[TagScheme, Batch, Batch | None], Tagger],
        train: Batch,
        dev: Batch | None,
        *,
        scheme: TagScheme,
        groups: Groups,
    ) -> "ByTypeTagger":
        """Let `fit_one` train a model for each group; it sees the annotations with the group's labels alone."""
        members = [
            fit_one(TagScheme(group), _annotated(train, group), None if dev is None else _annotated(dev, group))
            for group in groups
        ]
        return cls(scheme, tuple(groups), tuple(members))

    def start_for(self, group: tuple[str, ...]) -> Tagger | None:
        """Return the model that shares most labels with a group, for another to start from; None where none does."""
        shared = [len(set(group) & set(own)) for own in self.groups]
        return self.members[shared.index(max(shared))] if any(shared) else None

    def propose(self, batch: Batch, *, n_best: int) -> Proposals:
        """Return the claims of all models; of predictions that overlap, the one with the highest score is kept."""
        found = [member.propose(batch, n_best=n_best) for member in self.members]
        notes = range(len(batch.documents))
        best = tuple(drop_overlaps(span for proposals in found for span in proposals.best[d]) for d in notes)
        candidates: tuple[tuple[Span, ...], ...] = tuple(
            tuple(sorted(span for proposals in found for span in proposals.candidates[d])) for d in notes
        )
        scored = all(proposals.tokens for proposals in found)
        return Proposals(best, candidates, tuple(self._tokens(found, d) for d in notes) if scored else ())

    def _tokens(self, found: Sequence[Proposals], d: int) -> TokenScores:
        """Return what the model most certain of PHI thinks of each token of a note."""
        index = {label: k for k, label in enumerate(self.scheme.labels)}
        phi = np.stack([proposals.tokens[d].phi for proposals in found])
        label = np.stack(
            [
                np.array([index[name] for name in group], dtype=np.int16)[proposals.tokens[d].label]
                for group, proposals in zip(self.groups, found, strict=True)
            ]
        )
        most = phi.argmax(axis=0)
        tokens = np.arange(phi.shape[1])
        return TokenScores(phi[most, tokens], label[most, tokens])

    def save(self, directory: Path) -> None:
        """Write the files of every model, with its number before their names."""
        for number, member in enumerate(self.members, 1):
            with TemporaryDirectory(dir=directory) as folder:
                member.save(Path(folder))
                for path in Path(folder).iterdir():
                    path.rename(directory / f"{_prefix(number)}{path.name}")

    @classmethod
    def load(
        cls, load_one: Callable[[TagScheme, Path], Tagger], directory: Path, *, scheme: TagScheme, groups: Groups
    ) -> "ByTypeTagger":
        """Read what `save` wrote; `load_one` reads one model. Raises ModelError, which names the damaged file."""
        members = []
        for number, group in enumerate(groups, 1):
            with _unpacked(directory, number) as folder:
                members.append(load_one(TagScheme(group), folder))
        return cls(scheme, tuple(groups), tuple(members))


def change_files(directory: Path, groups: Groups, change: Callable[[Path], None]) -> None:
    """Let `change` rewrite the saved files of each model, as it would those of a submodel that is one model."""
    for number in range(1, len(groups) + 1):
        with _unpacked(directory, number) as folder:
            change(folder)
            for path in directory.glob(f"{_prefix(number)}*"):
                path.unlink()
            for path in folder.iterdir():
                copyfile(path, directory / f"{_prefix(number)}{path.name}")


@contextmanager
def _unpacked(directory: Path, number: int) -> Iterator[Path]:
    files = sorted(directory.glob(f"{_prefix(number)}*"))
    with TemporaryDirectory() as folder:
        for path in files:
            copyfile(path, Path(folder) / path.name.removeprefix(_prefix(number)))
        try:
            yield Path(folder)
        except ModelError as error:
            where = f"{directory}/{_prefix(number)}"
            raise ModelError(str(error).replace(f"{folder}/", where).replace(folder, where)) from None
        except FileNotFoundError as error:
            missing = f"{_prefix(number)}{Path(error.filename or '').name}"
            raise ModelError(f"{directory / missing}: there is no such file") from None


def _prefix(number: int) -> str:
    return f"type{number}."


def _annotated(batch: Batch, labels: tuple[str, ...]) -> Batch:
    wanted = set(labels)
    documents = tuple(d.with_spans(span for span in d.spans if span.label in wanted) for d in batch.documents)
    return replace(batch, documents=documents)


_CAPITAL, _LOWER = PLACES[1:3], PLACES[3:]


def uncased(batch: Batch) -> Batch:
    """Return the batch with words and their shapes in lower case, and nothing that depends on capitals."""
    table = batch.table
    columns = {name: table[name].map_values(str.lower) for name in ("word", "shape")}
    columns["short_shape"] = columns["shape"].map_values(lambda shape: re.sub(r"(.)\1+", r"\1", shape, flags=re.S))
    columns["case"] = table["case"].map_values(lambda case: "none" if case == "none" else "lower")
    # It is filled for capitalised words only.
    columns["in_note"] = table["in_note"].map_values(lambda label: "-")
    places = (name for name in table.names if name.startswith(KNOWLEDGE) and set(table[name].values) <= set(PLACES))
    columns |= {name: table[name].map_values(_place_in_any_case) for name in places}
    return replace(batch, table=table.with_columns(columns))


def _place_in_any_case(place: str) -> str:
    return _CAPITAL[_LOWER.index(place)] if place in _LOWER else place


@dataclass(frozen=True, slots=True, eq=False)
class UncasedTagger:
    """A trained submodel behind `uncased`."""

    tagger: Tagger = field(repr=False)

    @classmethod
    def fit(cls, fit_one: Callable[[Batch, Batch | None], Tagger], train: Batch, dev: Batch | None) -> "UncasedTagger":
        return cls(fit_one(uncased(train), None if dev is None else uncased(dev)))

    def propose(self, batch: Batch, *, n_best: int) -> Proposals:
        """Return what the submodel proposes for the notes in lower case; lower case moves no offsets."""
        return self.tagger.propose(uncased(batch), n_best=n_best)

    def save(self, directory: Path) -> None:
        self.tagger.save(directory)
