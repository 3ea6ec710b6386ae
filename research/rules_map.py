"""What TBED is worth, by the strength of the patterns it starts from and the number of annotated notes.

    python -m research.rules_map demo:train demo:dev --out map.jsonl [--parts rules,crf,stack] [--sizes 25] [--seeds 13]

Starts: no patterns, five, twenty (what a hospital writes in a day), all of the package's. Parts: `rules`, the patterns
alone and TBED alone on top of them; `crf`, a CRF alone; `stack`, the final estimator over patterns and CRF with TBED
and without it, from one training; `network` and `encoder`, the same stack with these. Notes are drawn by patient, a
larger sample includes the smaller ones. Every cell is a line of the file, and what is there is not run again: all
cells of a seed come first. Afterwards the tables: the seeds' counts together, intervals over the sites (or patients)
of the dev notes; `--picture` draws them. With `--parts ''` nothing is run.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.terminal import as_script
from ensemble_deid.config import Config, load_config
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.errors import ModelError
from ensemble_deid.evaluation.bootstrap import (
    Measure,
    bootstrap_interval,
    measure_of,
    paired_difference,
    sum_by_group,
)
from ensemble_deid.evaluation.curve import trace_curve
from ensemble_deid.evaluation.operating_points import find_point
from ensemble_deid.evaluation.render.figures import range_text
from ensemble_deid.evaluation.render.html.markup import Attribute, Html, element
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.note.digits import percent
from ensemble_deid.note.document import Document
from ensemble_deid.note.reading import as_read
from ensemble_deid.note.span import Span
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


def by_group(gold: Sequence[Document], system: Sequence[Document], view: str) -> list[list[int]]:
    """Return true positives, false positives and false negatives of each site, or patient where there is none."""
    table = count_view(gold, system, view)
    group = {note.id: note.site or note.group for note in gold}
    counts: list[list[int]] = sum_by_group(table.per_document, [group[name] for name in table.document_ids]).tolist()
    return counts


def counts_of(gold: Sequence[Document], system: Sequence[Document]) -> dict[str, Any]:
    """Return the counts of strict entities and of PHI tokens."""
    return {name: by_group(gold, system, view) for name, view in (("strict", "strict"), ("tokens", "token-binary"))}


class Map:
    """The cells of a corpus, run one by one."""

    def __init__(self, notes: Sequence[Document], dev: Sequence[Document], *, patterns: str, folder: Path) -> None:
        known = {note.patient for note in notes}
        self.notes, self.dev = notes, [as_read(note) for note in dev if note.patient not in known]
        self._files = {start: str(weak_patterns(patterns, start, folder)) for start in ("5", "20")}
        self._files |= {"none": "none", "all": patterns}

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
        """Train once, and yield a line for the stack and for the same without TBED."""
        begun = time.process_time()
        try:
            ensemble = train(sample, config=self._config(cell, members), allow_overlap=True).ensemble
        except ModelError as error:  # next to nothing was learned
            yield {"system": "refused", "why": str(error).partition(":")[0], "seconds": _since(begun)}
            return
        batch = ensemble.feature_extractor.extract(self.dev)
        proposals = ensemble.propose(batch)
        seconds = _since(begun)
        for stacker in (ensemble.stacker, *ensemble.smaller):
            name = "CRF" if cell.part == "crf" else "with TBED" if "tbed" in stacker.submodels else "without TBED"
            everything = self._answer(stacker.predict(proposals, batch, threshold=0.0))
            found = counts_of(self.dev, _kept(everything, stacker.threshold))
            point = find_point(trace_curve(self.dev, everything), rule="false-positives", wanted=RATE)
            if point is not None:
                found["at_rate"] = by_group(self.dev, _kept(everything, point.threshold), "token-binary")
            yield {"system": name, **found, "seconds": seconds}

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


Lines = Sequence[dict[str, Any]]


def together(lines: Lines, counts: str) -> Int64s | None:
    """Return the counts of some lines by group, summed: (groups, 3); None where a line has none."""
    if not lines or any(counts not in line for line in lines):
        return None
    summed: Int64s = np.sum([line[counts] for line in lines], axis=0, dtype=np.int64)
    return summed


def figure_of(lines: Lines, counts: str, measure: Measure) -> str:
    """Return a figure of the seeds together with its interval, or a dash."""
    summed = together(lines, counts)
    if summed is None:
        return "-"
    value = float(measure_of(summed.sum(axis=0).astype(float), measure))
    if np.isnan(value):
        return "-"
    interval = bootstrap_interval(summed, [str(row) for row in range(len(summed))], measure=measure, resamples=2000)
    ends = "" if interval.low is None else f" [{percent(interval.low, sign='')}, {percent(interval.high, sign='')}]"
    return percent(value, sign="") + ends


def selected(lines: Lines, **wanted: object) -> list[dict[str, Any]]:
    """Return the lines with these values."""
    return [line for line in lines if all(line[key] == value for key, value in wanted.items())]


def table(lines: Lines) -> Iterator[str]:
    """Yield a Markdown table: a row for each system and start, a column for each number of notes."""
    rows = dict.fromkeys((line["part"], line["system"], line["start"]) for line in lines)
    sizes = sorted({line["size"] for line in lines})
    yield "| part | system | patterns | " + " | ".join(f"{size} notes" for size in sizes) + " |"
    yield "| --- | --- | --- |" + " --: |" * len(sizes)
    for part, system, start in rows:
        cells = [selected(lines, part=part, system=system, start=start, size=size) for size in sizes]
        yield f"| {part} | {system} | {start} | {' | '.join(map(_shown, cells))} |"


def _shown(lines: Lines) -> str:
    if not lines:
        return ""
    recall = figure_of(lines, "at_rate" if "at_rate" in lines[0] else "tokens", "recall")
    f1, _, _ = figure_of(lines, "strict", "f1").partition(" ")
    precision, _, _ = figure_of(lines, "tokens", "precision").partition(" ")
    return f"{recall} / {precision} / {f1} ({len(lines)})"


def gains(lines: Lines) -> Iterator[str]:
    """Yield a table of what TBED adds: to the patterns alone, and to the stack, on the same samples."""
    yield "| part | patterns | notes | seeds | token recall | strict F1 |"
    yield "| --- | --- | --: | --: | --: | --: |"
    for part, start, size in dict.fromkeys((line["part"], line["start"], line["size"]) for line in lines):
        pair = ("TBED", "patterns") if part == "rules" else ("with TBED", "without TBED")
        after, before = (selected(lines, part=part, start=start, size=size, system=name) for name in pair)
        if not after or len(after) != len(before):
            continue
        recall = _gain(after, before, "at_rate" if "at_rate" in after[0] else "tokens", "recall")
        yield f"| {part} | {start} | {size} | {len(after)} | {recall} | {_gain(after, before, 'strict', 'f1')} |"


def _gain(after: Lines, before: Lines, counts: str, measure: Measure) -> str:
    a, b = together(after, counts), together(before, counts)
    if a is None or b is None:
        return "-"
    groups = [str(row) for row in range(len(a))]
    difference = paired_difference(a, b, groups, measure=measure, resamples=2000)
    if difference.difference is None:
        return "-"
    return f"{100 * difference.difference:+.2f} [{range_text(difference.interval, sign='+')}]"


_PANELS = (
    ("rules", "patterns", "TBED", "TBED alone (dashed: its patterns)"),
    ("stack", "without TBED", "with TBED", "stack with a CRF (dashed: without TBED)"),
)
_COLOURS = {"none": "#8a4f9e", "5": "#b05a00", "20": "#1f5fa8", "all": "#3a7d34"}
_WIDTH, _HIGH, _LEFT, _TOP = 300, 240, 46, 30


def picture(lines: Lines) -> str:
    """Draw token recall by notes, a panel for TBED alone and one for the stack, a colour for each start."""
    sizes = sorted({line["size"] for line in lines})
    parts: list[Html] = []
    for k, (part, before, after, title) in enumerate(_PANELS):
        left = _LEFT + k * (_WIDTH + _LEFT)
        parts += _frame(left, title, sizes)
        for start, system in product(STARTS, (before, after)):
            points = []
            for size in sizes:
                found = selected(lines, part=part, system=system, start=start, size=size)
                summed = together(found, "at_rate" if part == "stack" else "tokens")
                if summed is not None:
                    recall = float(measure_of(summed.sum(axis=0).astype(float), "recall"))
                    points.append((_x(size, sizes, left), round(_TOP + _HIGH * (1 - recall), 1)))
            colour, dash = _COLOURS[start], "4 3" if system == before else None
            path = " ".join(f"{x},{y}" for x, y in points)
            drawn: dict[str, Attribute] = {
                "points": path,
                "fill": "none",
                "stroke": colour,
                "stroke_width": 2,
                "stroke_dasharray": dash,
            }
            parts.append(element("polyline", **drawn))
            parts += [element("circle", cx=x, cy=y, r=2.5, fill=colour) for x, y in points]
    for k, start in enumerate(STARTS):
        name = {"none": "no patterns", "all": "all patterns"}.get(start, f"{start} patterns")
        parts.append(element("text", name, x=_LEFT + 150 * k, y=_TOP + _HIGH + 52, fill=_COLOURS[start]))
    box: dict[str, Attribute] = {
        "viewBox": f"0 0 {2 * (_WIDTH + _LEFT) + 20} {_TOP + _HIGH + 62}",
        "font_family": "sans-serif",
    }
    named: dict[str, Attribute] = {"role": "img", "aria_label": "Token recall by number of notes", "font_size": 12}
    return str(element("svg", *parts, xmlns="http://www.w3.org/2000/svg", **box, **named)) + "\n"


def _x(size: int, sizes: Sequence[int], left: int) -> float:
    span = np.log(sizes[-1] / sizes[0]) or 1.0
    return round(left + 10 + (_WIDTH - 20) * float(np.log(size / sizes[0]) / span), 1)


def _frame(left: int, title: str, sizes: Sequence[int]) -> list[Html]:
    parts = [element("rect", x=0 if left == _LEFT else left - 40, y=0, width=_WIDTH + 66, height=400, fill="#fff")]
    parts.append(element("text", title, x=left, y=16, fill="#222"))
    for percentage in range(0, 101, 20):
        y = _TOP + _HIGH * (1 - percentage / 100)
        parts.append(element("line", x1=left, x2=left + _WIDTH, y1=y, y2=y, stroke="#ddd"))
        parts.append(element("text", str(percentage), x=left - 6, y=y + 4, text_anchor="end", fill="#555"))
    for size in sizes:
        where: dict[str, Attribute] = {
            "x": _x(size, sizes, left),
            "y": _TOP + _HIGH + 16,
            "text_anchor": "middle",
            "fill": "#555",
        }
        parts.append(element("text", str(size), **where))
    middle: dict[str, Attribute] = {
        "x": left + _WIDTH / 2,
        "y": _TOP + _HIGH + 32,
        "text_anchor": "middle",
        "fill": "#555",
    }
    return [*parts, element("text", "annotated notes", **middle)]


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
    lines = [json.loads(line) for line in options.out.open(encoding="utf-8")] if options.out.exists() else []
    done = {Cell(line["part"], line["start"], line["size"], line["seed"]) for line in lines}
    seeds, sizes = (tuple(map(int, text.split(","))) for text in (options.seeds, options.sizes))
    with tempfile.TemporaryDirectory() as folder, options.out.open("a", encoding="utf-8") as stream:
        corpora = (read_corpus(name, gold=True).documents for name in (options.train, options.dev))
        cells = Map(*corpora, patterns=options.patterns, folder=Path(folder))
        parts, starts = (list(filter(None, text.split(","))) for text in (options.parts, options.starts))
        for seed, size, part, start in product(seeds, sizes, parts, starts):
            cell = Cell(part, start, size, seed)
            for line in () if cell in done else list(cells.run(cell)):
                lines.append({**asdict(cell), **line})
                stream.write(json.dumps(lines[-1]) + "\n")
                stream.flush()
    print("\n".join([*table(lines), "", *gains(lines)]))
    if options.picture is not None:
        write_text_atomically(options.picture, picture(lines))


if __name__ == "__main__":
    sys.exit(main())
