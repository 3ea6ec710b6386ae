"""What a command names as a system: a folder of annotations, or a model that is run on gold's notes."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.cli.terminal import say, warn
from ensemble_deid.corpora.read import Corpus, read_corpus
from ensemble_deid.deidentify.outputs import Input, refuse_output_files
from ensemble_deid.errors import ConfigError
from ensemble_deid.model.installed import model_of
from ensemble_deid.model.options import as_compared
from ensemble_deid.note.document import Document

if TYPE_CHECKING:
    from ensemble_deid.evaluation.render.results import Results
    from ensemble_deid.model.seen_notes import Overlap

Documents = tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class System:
    """A system's answer; `scored` has what operating points need, `threshold` is where the answer was cut.

    `overlap` says which of the notes a model was trained on; None where none were, and for annotations from a folder.
    `seen` has the strings annotated in a model's training notes, as `evaluation.subgroups.seen_key` gives them.
    """

    answer: Documents = field(repr=False)
    scored: Documents = field(repr=False)
    threshold: float = 0.0
    votes: dict[str, Documents] = field(default_factory=dict, repr=False)
    overlap: "Overlap | None" = None
    seen: frozenset[str] | None = field(default=None, repr=False)

    @property
    def warnings(self) -> list[str]:
        """What whoever reads the system's figures must know first."""
        return [] if self.overlap is None else [overlap_warning(self.overlap)]


def training_overlap(model: Path, documents: Documents) -> "Overlap | None":
    """Return how many of the notes and patients a model was trained on; None for none. Raises ModelError."""
    from ensemble_deid.model.manifest import read_manifest
    from ensemble_deid.model.seen_notes import SeenNotes

    return SeenNotes.from_record(read_manifest(model).seen_notes).overlap(documents) or None


def overlap_warning(overlap: "Overlap", *, where: str = "scored here") -> str:
    """Say that a model's figures come from notes that it was trained on."""
    return (
        f"{overlap} {where} are among the model's training notes: the figures say how well it remembers them, "
        "not what it finds in others"
    )


def read_gold(name: str, *, model: Path | None = None) -> Corpus:
    """Read a corpus and pass on the reader's warnings; warn of notes that the model to be scored was trained on."""
    corpus = read_corpus(name)
    for warning in corpus.warnings:
        warn(warning)
    overlap = None if model is None else training_overlap(model, corpus.documents)
    if overlap:
        warn(overlap_warning(overlap))
    return corpus


def check_out_files(files: Sequence[Path], forms: Sequence[str], *inputs: Input) -> None:
    """Raise ConfigError for a file that would replace an input, or whose name ends in none of the forms."""
    refuse_output_files(files, *inputs)
    for file in files:
        if file.suffix not in forms:
            raise ConfigError(f"--out {file}: the name must end in one of {', '.join(forms)}")


def publish(results: "Results", files: Sequence[Path], *, warnings: Sequence[str] = (), shown: str = "") -> None:
    """Write a command's figures to the files of `--out`, then print the warnings and the figures, or `shown` instead.

    The files come first: a reader such as `head` may close the output before its end.
    """
    for file in files:
        results.write(file)
    say_warnings(warnings)
    say(shown or results.render(".txt"))


def say_warnings(warnings: Sequence[str]) -> None:
    for line in warnings:
        say(f"WARNING: {line}.\n")


def read_system(
    name: str, gold: Documents, *, votes: bool = False, combiner: str = "svm", members: Mapping[str, str] | None = None
) -> System:
    """Read the system's annotations, or let a model annotate gold's texts; `votes` adds each submodel's answer.

    A combiner other than the final estimator leaves nothing to choose a threshold by: what is scored is the answer.
    Raises ConfigError where one is asked of annotations, or of a model that lacks what it needs.
    """
    model = model_of(name)
    if model is None:
        if combiner != "svm":
            raise ConfigError(f"--combiner {combiner}: {name} is not a model; annotations are scored as they are")
        if members:
            raise ConfigError(f"--member: {name} is not a model; annotations are scored as they are")
        documents = read_gold(name).documents
        return System(documents, documents)
    from ensemble_deid.deidentify.deidentifier import Deidentifier
    from ensemble_deid.evaluation.curve import keep_above
    from ensemble_deid.evaluation.subgroups import seen_key

    deidentifier = Deidentifier.load(model, members=members)
    if combiner == "svm":
        threshold = deidentifier.description.threshold
        scored = tuple(map(as_compared, deidentifier.predict(gold, threshold=0.0)))
    else:
        threshold = 0.0
        scored = tuple(deidentifier.predict(gold, combiner=combiner))
    submodels = deidentifier.description.submodels if votes else ()
    phrases = deidentifier.ensemble.feature_extractor.lexicon.phrases
    return System(
        answer=keep_above(scored, threshold),
        scored=scored,
        threshold=threshold,
        votes={submodel: tuple(deidentifier.predict(gold, submodel=submodel)) for submodel in submodels},
        overlap=training_overlap(model, gold),
        seen=frozenset(seen_key(phrase.replace(" ", "")) for phrase in phrases),
    )


def resampling(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of labels and intervals as the evaluation's keyword arguments."""
    labels = options.labels.split(",") if options.labels else None
    return {"labels": labels, "resamples": options.resamples, "seed": options.seed}
