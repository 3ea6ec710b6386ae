"""What TBED is worth, by the strength of the patterns it starts from and the number of annotated notes.

    python -m research.rules_map demo:train demo:dev --out map.jsonl [--parts rules,crf,stack] [--sizes 25] [--seeds 13]

Starts: no patterns, five, twenty (what a hospital writes in a day), all of the package's. Parts: `rules`, the patterns
alone and TBED alone on top of them; `crf`, a CRF alone; `stack`, the final estimator over patterns and CRF with TBED
and without it; `network` and `encoder`, the same stack with these. Notes are drawn by patient, a larger sample
includes the smaller ones. Every cell is a line of the file, and what is there is not run again. Afterwards the table:
means over the seeds.
"""

import argparse
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from ensemble_deid.config import Config, load_config
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.errors import ModelError
from ensemble_deid.evaluation.curve import trace_curve
from ensemble_deid.evaluation.operating_points import find_point
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.note.digits import percent
from ensemble_deid.note.document import Document
from ensemble_deid.seeds import generator
from ensemble_deid.training.rule_learning import learn_rule_list
from ensemble_deid.training.train import train

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


def figures(gold: Sequence[Document], system: Sequence[Document], *, scored: bool) -> dict[str, float | None]:
    """Return strict F1, token recall and precision, and token recall at few false positives where spans have scores."""
    tokens = count_view(gold, system, "token-binary").total
    point = find_point(trace_curve(gold, system), rule="false-positives", wanted=RATE) if scored else None
    return {
        "strict_f1": count_view(gold, system, "strict").total.f1,
        "token_recall": tokens.recall,
        "token_precision": tokens.precision,
        "recall_at_rate": None if point is None else point.counts.recall,
    }


class Map:
    """The cells of a corpus, run one by one."""

    def __init__(self, notes: Sequence[Document], dev: Sequence[Document], *, patterns: str, folder: Path) -> None:
        self.notes, self.dev = notes, dev
        self._files = {start: str(weak_patterns(patterns, start, folder)) for start in ("5", "20")}
        self._files |= {"none": "none", "all": patterns}

    def run(self, cell: Cell) -> Iterator[dict[str, Any]]:
        """Train and score a cell; yield a line for each of its systems."""
        sample = sampled(self.notes, cell.size, cell.seed)
        begun = time.process_time()
        if cell.part == "rules":
            config = self._config(cell, ("regex", "tbed"))
            learned = learn_rule_list(sample, self.dev, config=config, notify=_quiet)
            for name, point in (("patterns", learned.curve[0]), ("TBED", learned.curve[-1])):
                found = {"strict_f1": point.dev_f1, "token_recall": point.dev_recall, "rules": point.rules}
                yield {"system": name, **found, "seconds": _since(begun)}
        elif cell.part == "crf" and cell.start == "none":
            yield self._train(cell, "CRF", ("crf",), sample)
        elif cell.part != "crf":
            members = MEMBERS["crf" if cell.part == "stack" else cell.part]
            before = () if cell.start == "none" else ("regex",)
            yield self._train(cell, "without TBED", (*before, *members), sample)
            yield self._train(cell, "with TBED", (*before, "tbed", *members), sample)

    def _train(self, cell: Cell, name: str, members: Sequence[str], sample: Sequence[Document]) -> dict[str, Any]:
        begun = time.process_time()
        config = self._config(cell, members)
        try:
            trained = train(sample, config=config, allow_overlap=True)
        except ModelError as error:  # next to nothing was learned
            return {"system": name, "refused": str(error).partition(":")[0], "seconds": _since(begun)}
        everything = trained.deidentifier.predict(self.dev, threshold=0.0)
        threshold = trained.ensemble.stacker.threshold
        answer = [note.with_spans([s for s in note.spans if s.score >= threshold]) for note in everything]
        found = figures(self.dev, answer, scored=False)
        found["recall_at_rate"] = figures(self.dev, everything, scored=True)["recall_at_rate"]
        return {"system": name, **found, "seconds": _since(begun)}

    def _config(self, cell: Cell, members: Sequence[str]) -> Config:
        overrides = [f'regex.patterns="{self._files[cell.start]}"']
        if cell.start == "none":
            overrides.append('tbed.initial="none"')
        return load_config("small", overrides=overrides, submodels=tuple(members), jobs=1, seed=cell.seed)


def _since(begun: float) -> float:
    return round(time.process_time() - begun, 1)


def _quiet(message: str) -> None:
    """Say nothing: a cell is a line."""


def table(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a Markdown table: a row for each system and start, a column for each number of notes."""
    cells: dict[tuple[str, str, str], dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        cells[line["part"], line["system"], line["start"]][line["size"]].append(line)
    sizes = sorted({line["size"] for line in lines})
    yield "| part | system | patterns | " + " | ".join(f"{size} notes" for size in sizes) + " |"
    yield "| --- | --- | --- |" + " --: |" * len(sizes)
    for (part, system, start), found in cells.items():
        row = " | ".join(_shown(found.get(size, [])) for size in sizes)
        yield f"| {part} | {system} | {start} | {row} |"


def _shown(lines: Sequence[dict[str, Any]]) -> str:
    if not lines:
        return ""
    parts = []
    for name in ("strict_f1", "token_recall", "recall_at_rate"):
        values = [line[name] for line in lines if line.get(name) is not None]
        parts.append(percent(fmean(values), sign="") if values else "-")
    return f"{' / '.join(parts)} ({len(lines)})"


def main() -> None:
    """Run the cells that are missing, then print the table: strict F1, token recall, and recall at five in 1000."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("dev")
    parser.add_argument("--patterns", default="en-i2b2", choices=sorted(WEAK))
    parser.add_argument("--parts", default="rules,crf,stack")
    parser.add_argument("--sizes", default="25,50,100,200,500")
    parser.add_argument("--seeds", default="13,14,15")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.out.open(encoding="utf-8")] if options.out.exists() else []
    done = {Cell(line["part"], line["start"], line["size"], line["seed"]) for line in lines}
    with tempfile.TemporaryDirectory() as folder, options.out.open("a", encoding="utf-8") as stream:
        corpora = (read_corpus(name, gold=True).documents for name in (options.train, options.dev))
        cells = Map(*corpora, patterns=options.patterns, folder=Path(folder))
        for part in options.parts.split(","):
            for seed in map(int, options.seeds.split(",")):
                for size in map(int, options.sizes.split(",")):
                    for start in STARTS:
                        cell = Cell(part, start, size, seed)
                        for line in () if cell in done else list(cells.run(cell)):
                            lines.append({**asdict(cell), **line})
                            stream.write(json.dumps(lines[-1]) + "\n")
                            stream.flush()
    print("\n".join(table(lines)))


if __name__ == "__main__":
    main()
