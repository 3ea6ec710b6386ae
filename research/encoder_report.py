"""The tables of `compare-encoders`: as text, and all figures in one long table for other forms."""

from collections.abc import Iterator, Sequence

from ensemble_deid.evaluation.bootstrap import PairedDifference
from ensemble_deid.evaluation.render.figures import interval_text
from ensemble_deid.evaluation.render.results import Block, Point, Results, Table, draw_points
from ensemble_deid.note.digits import figure as four_decimals
from research.encoder_runs import SYSTEMS
from research.encoder_tables import REFERENCE, EncoderTables, Figure, Triple

_NAMES = {
    "none": "-",
    "cnn": "CNN",
    "names": "char2vec of names, frozen",
    "bilstm": "BiLSTM",
    "transformer": "Transformer",
    "transformer-bilstm": "Transformer, BiLSTM",
    "crf": "CRF",
    "softmax": "softmax",
}


def encoder_results(tables: EncoderTables) -> Results:
    """Return tables 1 to 5 in every form; CSV and LaTeX have the figures of tables 3 to 5 in one long table."""
    points = []
    for name, found in tables.networks.items():
        f1, spread = found.micro.f1.mean, found.micro.f1.sd
        ends = (None, None) if f1 is None or spread is None else (f1 - spread, f1 + spread)
        points.append(Point(name, f1, *ends))
    measure = "micro strict F1" + ("" if len(tables.seeds) == 1 else ", one standard deviation over seeds")
    heads = ("network", "PHI", "measure", "P", "R", "F1")
    long = Table("", heads, tuple(_long_rows(tables)))
    return Results(_blocks(tables), tables.to_json(), draw_points(points, measure=measure), csv=long.to_csv())


def _long_rows(tables: EncoderTables) -> Iterator[tuple[str, ...]]:
    for name, found in tables.networks.items():
        yield (name, "all", "macro strict", *_cells(found.macro))
        yield (name, "all", "micro strict", *_cells(found.micro))
        for category, (strict, token) in found.by_category.items():
            yield (name, category, "micro strict", *_cells(strict))
            yield (name, category, "micro token", *_cells(token))
        for group, recall in found.recall.items():
            yield (name, group, "micro strict", "", _cell(recall), "")


def _blocks(tables: EncoderTables) -> list[Block]:
    """Return tables 1 to 5 with what their figures are."""
    seeds = ", ".join(map(str, tables.seeds))
    spread = f"mean and standard deviation over seeds {seeds}" if len(tables.seeds) > 1 else f"seed {seeds}"
    notes = [
        "Macro: means over notes (0 where undefined), F1 their harmonic mean, as the 2014 i2b2 script has it.",
        f"F1 less {REFERENCE}: micro F1, seeds pooled, with the 95% interval of a paired bootstrap over patients.",
        "A string is seen if it is annotated in training; a word is known if it occurs there (case ignored).",
    ]
    found = (_networks(tables), _sizes(tables), _overall(tables, spread), _categories(tables), _strings(tables))
    return [*([table] for table in found), notes]


def _networks(tables: EncoderTables) -> Table:
    rows = [
        (name, *(_NAMES[SYSTEMS[name][part]] for part in ("characters", "encoder", "decoder")))
        for name in tables.networks
    ]
    return Table("Table 1. Networks", ("network", "characters", "context encoder", "decoder"), tuple(rows))


def _sizes(tables: EncoderTables) -> Table:
    rows = [
        (name.replace("_", " "), f"{getattr(tables.train, name):,}", f"{getattr(tables.dev, name):,}")
        for name in tables.train.__slots__
    ]
    return Table("Table 2. The notes", ("", "training", "scored"), tuple(rows))


def _overall(tables: EncoderTables, spread: str) -> Table:
    compared = REFERENCE in tables.networks
    header = ["network", *(f"{mean} {what}" for mean in ("macro", "micro") for what in ("P", "R", "F1"))]
    rows = [
        [name, *_cells(found.macro), *_cells(found.micro), *([_difference(found.difference)] if compared else [])]
        for name, found in tables.networks.items()
    ]
    columns = (*header, f"F1 less {REFERENCE}") if compared else tuple(header)
    return Table(f"Table 3. All PHI, strict ({spread})", columns, tuple(map(tuple, rows)))


def _categories(tables: EncoderTables) -> Table:
    header = ("category", "network", "P", "R", "F1", "token P", "token R", "token F1")
    caption = "Table 4. By category: micro strict figures, then micro token figures"
    return Table(caption, header, tuple(map(tuple, _category_rows(tables))))


def _category_rows(tables: EncoderTables) -> Iterator[Sequence[str]]:
    categories = dict.fromkeys(name for found in tables.networks.values() for name in found.by_category)
    for category in categories:
        for name, found in tables.networks.items():
            strict, token = found.by_category[category]
            yield (category, name, *_cells(strict), *_cells(token))


def _strings(tables: EncoderTables) -> Table:
    names = list(tables.groups)
    rows = [["annotations", *(f"{tables.groups[name]:,}" for name in names)]]
    rows += [[name, *(_cell(found.recall[group]) for group in names)] for name, found in tables.networks.items()]
    caption = "Table 5. Strict recall of annotations whose string training has or has not"
    return Table(caption, ("network", *names), tuple(map(tuple, rows)))


def _cells(triple: Triple) -> list[str]:
    return [_cell(triple.precision), _cell(triple.recall), _cell(triple.f1)]


def _cell(value: Figure) -> str:
    return four_decimals(value.mean) + ("" if value.sd is None else f" ±{value.sd:.4f}")


def _difference(difference: PairedDifference | None) -> str:
    if difference is None or difference.difference is None:
        return "-"
    return f"{difference.difference:+.4f}{interval_text(difference.interval)}"
