"""What TBED is worth, by the strength of the patterns it starts from and the number of annotated notes.

    python -m research.rules_map demo:train demo:dev --out map.jsonl [--parts rules,crf,stack] [--sizes 25] [--seeds 13]

Starts: no patterns, five, twenty (what a hospital writes in a day), all of the package's. Parts: `rules`, the patterns
alone and TBED alone on top of them; `crf`, a CRF alone; `stack`, the final estimator over patterns and CRF with TBED
and without it, from one training; `network` and `encoder`, the same stack with these. Notes are drawn by patient, a
larger sample includes the smaller ones. Every cell is a line of the file, and is run once; a file with cells of other
notes is refused. All cells of a seed come first. Afterwards the tables: the seeds' counts together,
intervals over the sites (or patients) of the dev notes; `--picture` draws them. With `--parts ''` nothing is run.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, product
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.terminal import as_script
from ensemble_deid.config import Config, load_config
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.errors import ConfigError
from ensemble_deid.evaluation.bootstrap import sum_by_group
from ensemble_deid.evaluation.curve import trace_curve
from ensemble_deid.evaluation.operating_points import find_point
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.features.batch import Batch
from ensemble_deid.model.ensemble import as_seen
from ensemble_deid.model.feature_extractor import fit_feature_extractor
from ensemble_deid.model.manifest import fingerprint
from ensemble_deid.note.document import Document
from ensemble_deid.note.reading import as_read
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.reproducible import one_thread
from ensemble_deid.seeds import generator
from ensemble_deid.taggers.base import Proposals
from ensemble_deid.training.fold_training import train_submodels
from ensemble_deid.training.rule_learning import learn_rule_list
from ensemble_deid.training.training_notes import in_fold_groups, training_notes
from ensemble_deid.training.training_points import fit_final_estimators
from research.rules_map_tables import gains, picture, table

ROOT = Path(__file__).parents[1]
WEAK = {
    "en-i2b2": (
        "date-numeric telephone doctor age-yo patient-field",
        "date-month-day date-day-month date-year email chart-number hospital street zip state-before-zip age-of-years "
        "titled-person name-with-credential staff-field relative town-before-state",
    ),
    "es-meddocan": (
        "date-numeric email titled-doctor age-of-years hospital",
        "date-month-name header-first-name header-surnames header-record-number header-address header-town "
        "header-post-code header-age header-sex header-doctor header-licence telephone relative town-after-post-code "
        "country",
    ),
}
"""Of each set the five patterns to begin with, and fifteen more."""
STARTS = ("none", "5", "20", "all")
MEMBERS = {"crf": ("crf",), "network": ("crf", "neural"), "encoder": ("crf", "neural", "transformer")}
RATE = 5.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One training: what is trained, from which patterns, on how many notes, with which seed."""

    part: str
    start: str
    size: int
    seed: int


def weak_patterns(name: str, start: str, folder: Path) -> Path:
    """Write the part of a packaged set that a start has into a file beside the word lists it refers to; return it."""
    source = (ROOT / "rules" / "patterns" / f"{name}.toml").read_text(encoding="utf-8")
    head, *blocks = source.split("\n[[pattern]]\n")
    few, more = (part.split() for part in WEAK[name])
    wanted = few if start == "5" else [*few, *more]
    kept = [block for block in blocks if block.split('"')[1] in wanted]
    if len(kept) != len(wanted):
        raise ValueError(f"{name}: has {len(kept)} of the {len(wanted)} patterns wanted")
    (folder / "patterns").mkdir(exist_ok=True)
    if not (folder / "words").exists():
        (folder / "words").symlink_to(ROOT / "rules" / "words")
    path = folder / "patterns" / f"{name}-{start}.toml"
    path.write_text("\n[[pattern]]\n".join([head, *kept]), encoding="utf-8")
    return path


def sampled(notes: Sequence[Document], size: int, seed: int) -> list[Document]:
    """Return about `size` notes of patients drawn at random, in the order of the corpus."""
    patients: dict[str, list[Document]] = {}
    for note in notes:
        patients.setdefault(note.patient, []).append(note)
    names = sorted(patients)
    chosen: list[Document] = []
    for row in generator(seed, "map of TBED").permutation(len(names)).tolist():
        if len(chosen) >= size:
            break
        chosen += patients[names[row]]
    ids = {note.id for note in chosen[:size]}
    return [note for note in notes if note.id in ids]


def by_group(gold: Sequence[Document], system: Sequence[Document], view: str) -> list[list[int]]:
    """Return true positives, false positives and false negatives of each site, or patient where there is none."""
    table = count_view(gold, system, view)
    group = {note.id: note.site or note.group for note in gold}
    counts: list[list[int]] = sum_by_group(table.per_document, [group[name] for name in table.document_ids]).tolist()
    return counts


def counts_of(gold: Sequence[Document], system: Sequence[Document]) -> dict[str, Any]:
    """Return the counts of strict entities and of PHI tokens."""
    return {name: by_group(gold, system, view) for name, view in (("strict", "strict"), ("tokens", "token-binary"))}


@dataclass(frozen=True, slots=True)
class Member:
    """What a submodel proposes in its sample, by folds, and in the dev notes; the processor seconds it took."""

    out_of_fold: Proposals
    on_dev: Proposals
    seconds: float


class Map:
    """The cells of a corpus, run one by one."""

    def __init__(self, notes: Sequence[Document], dev: Sequence[Document], *, patterns: str, folder: Path) -> None:
        known = {note.patient for note in notes}
        self.notes, self.dev = notes, [as_seen(note) for note in dev if note.patient not in known]
        self._files = {start: str(weak_patterns(patterns, start, folder)) for start in ("5", "20")}
        self._files |= {"none": "none", "all": patterns}
        self._learners: dict[tuple[int, int, str], Member] = {}

    def run(self, cell: Cell) -> Iterator[dict[str, Any]]:
        """Train and score a cell; yield a line for each of its systems."""
        sample = sampled(self.notes, cell.size, cell.seed)
        if cell.part == "rules":
            begun = time.process_time()
            learned = learn_rule_list(sample, self.dev, config=self._config(cell, ("regex", "tbed")), notify=_quiet)
            for name, answer in (("patterns", learned.started), ("TBED", learned.found)):
                found = counts_of(learned.gold, answer)
                yield {"system": name, **found, "rules": len(learned.rules), "seconds": _since(begun)}
        elif cell.part == "crf" and cell.start == "none":
            yield from self._train(cell, ("crf",), sample)
        elif cell.part != "crf":
            members = MEMBERS["crf" if cell.part == "stack" else cell.part]
            before = () if cell.start == "none" else ("regex",)
            yield from self._train(cell, (*before, "tbed", *members), sample)

    def _train(self, cell: Cell, members: Sequence[str], sample: Sequence[Document]) -> Iterator[dict[str, Any]]:
        """Train the stack, and yield a line for it and for the same without TBED.

        Learners do not see the patterns: a sample's are trained once, and their seconds count wherever they take part.
        """
        begun = time.process_time()
        config = self._config(cell, members)
        notes = [as_read(note) for note in in_fold_groups(training_notes(sample), config=config)]
        scheme = TagScheme.from_labels({span.label for note in notes for span in note.spans})
        plain, extractor = fit_feature_extractor(notes, scheme.labels, config=config)
        dev = extractor.extract(self.dev)
        seconds = _since(begun)
        trained = {name: self._trained(cell, name, plain, dev, scheme=scheme) for name in members}
        begun = time.process_time()
        proposals = {name: part.out_of_fold for name, part in trained.items()}
        fitted = fit_final_estimators(proposals, plain, labels=scheme.labels, config=config, progress=_quiet)
        seconds = round(seconds + sum(part.seconds for part in trained.values()) + _since(begun), 1)
        on_dev = {name: part.on_dev for name, part in trained.items()}
        for stacker in (fitted.stacker, *fitted.smaller):
            name = "CRF" if cell.part == "crf" else "with TBED" if "tbed" in stacker.submodels else "without TBED"
            everything = self._answer(stacker.predict(on_dev, dev, threshold=0.0))
            found = counts_of(self.dev, _kept(everything, stacker.threshold))
            point = find_point(trace_curve(self.dev, everything), rule="false-positives", wanted=RATE)
            if point is not None:
                found["at_rate"] = by_group(self.dev, _kept(everything, point.threshold), "token-binary")
            yield {"system": name, **found, "seconds": seconds}

    def _trained(self, cell: Cell, name: str, plain: Batch, dev: Batch, *, scheme: TagScheme) -> Member:
        """Return a submodel trained on a sample; a learner that does not see the patterns, from its first training."""
        key = None if name in ("regex", "tbed") else (cell.size, cell.seed, name)
        if key is not None and key in self._learners:
            return self._learners[key]
        begun = time.process_time()
        config = self._config(cell, (name,))
        groups = [note.group for note in plain.documents]
        options: dict[str, Any] = {"report": lambda step: None, "starts": {}}
        taggers, proposals, _ = train_submodels(plain, None, groups, scheme=scheme, config=config, **options)
        with one_thread():
            on_dev = taggers[name].propose(dev, n_best=config.stack.n_best)
        member = Member(proposals[name], on_dev, _since(begun))
        if key is not None:
            self._learners = {known: kept for known, kept in self._learners.items() if known[:2] == key[:2]}
            self._learners[key] = member
        return member

    def _answer(self, spans: Sequence[tuple[Span, ...]]) -> list[Document]:
        return [note.with_spans(found) for note, found in zip(self.dev, spans, strict=True)]

    def _config(self, cell: Cell, members: Sequence[str]) -> Config:
        overrides = [f'regex.patterns="{self._files[cell.start]}"', "folds=2"]
        if cell.start == "none":
            overrides.append('tbed.initial="none"')
        if {"tbed", "crf"} <= set(members):
            overrides.append('stack.also_without=["tbed"]')
        return load_config("small", overrides=overrides, submodels=tuple(members), jobs=1, seed=cell.seed)


def _kept(answer: Sequence[Document], threshold: float) -> list[Document]:
    return [note.with_spans([span for span in note.spans if span.score >= threshold]) for note in answer]


def _since(begun: float) -> float:
    return round(time.process_time() - begun, 1)


def _quiet(message: str) -> None:
    """Say nothing: a cell is a line."""


@as_script
def main() -> None:
    """Run the cells that are missing, then print the tables: recall, precision and strict F1; what TBED adds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("dev")
    parser.add_argument("--patterns", default="en-i2b2", choices=sorted(WEAK))
    parser.add_argument("--starts", default=",".join(STARTS))
    parser.add_argument("--parts", default="rules,crf,stack")
    parser.add_argument("--sizes", default="25,50,100,200,500")
    parser.add_argument("--seeds", default="13,14,15")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--picture", type=Path, help="an SVG file")
    options = parser.parse_args()
    corpora = [read_corpus(name, gold=True).documents for name in (options.train, options.dev)]
    drawn_from = fingerprint(list(chain(*corpora)))
    known = options.out.read_text(encoding="utf-8") if options.out.exists() else ""
    lines = [json.loads(line) for line in known.splitlines()]
    if options.parts and any(line["drawn_from"] != drawn_from for line in lines):
        raise ConfigError(f"{options.out}: its cells are of other notes; begin another file")
    done = {Cell(line["part"], line["start"], line["size"], line["seed"]) for line in lines}
    seeds, sizes = (tuple(map(int, text.split(","))) for text in (options.seeds, options.sizes))
    with tempfile.TemporaryDirectory() as folder, options.out.open("a", encoding="utf-8") as stream:
        cells = Map(*corpora, patterns=options.patterns, folder=Path(folder))
        parts, starts = (list(filter(None, text.split(","))) for text in (options.parts, options.starts))
        for seed, size, part, start in product(seeds, sizes, parts, starts):
            cell = Cell(part, start, size, seed)
            for line in () if cell in done else list(cells.run(cell)):
                lines.append({**asdict(cell), **line, "drawn_from": drawn_from})
                stream.write(json.dumps(lines[-1]) + "\n")
                stream.flush()
    print("\n".join([*table(lines), "", *gains(lines)]))
    if options.picture is not None:
        write_text_atomically(options.picture, picture(lines))


if __name__ == "__main__":
    sys.exit(main())
