"""The package is layered as docs/architecture.md says: imports run one way, and heavy or unsafe libraries stay out."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "ensemble_deid"

FLOORS = (
    (
        "arrays",
        "compiled",
        "errors",
        "resources",
        "mapped",
        "word_tables",
        "reproducible",
        "seeds",
        "atomic",
        "keys",
        "parallel",
        "parsing",
        "submodels",
        "config",
        "config_sections",
    ),
    ("note",),
    ("features",),
    ("taggers",),
    ("stacking",),
    ("model",),
    ("deidentify",),
    ("training",),
    ("service", "integrations"),
    ("audit",),
    ("cli", "__main__"),
)
FLOOR = {part: number for number, parts in enumerate(FLOORS, start=1) for part in parts}
BESIDE = ("corpora", "evaluation", "surrogates")
# What stands beside the main line sees the first floors only, and is seen from the last ones only; the corpora are
# resampled with surrogates.
BESIDE_SEES, SEES_BESIDE = 2, 6
BESIDE_SEES_BESIDE = {("corpora", "surrogates")}

ONLY_UNDER = {
    "torch": tuple(f"{PACKAGE}.taggers.{part}" for part in ("neural", "transformer", "device", "inherit")),
    "transformers": (f"{PACKAGE}.taggers.transformer",),
    "tokenizers": (f"{PACKAGE}.taggers.transformer",),
    "torchcrf": (f"{PACKAGE}.taggers.neural", f"{PACKAGE}.taggers.transformer"),
    "safetensors.torch": (f"{PACKAGE}.taggers.neural", f"{PACKAGE}.taggers.transformer"),
    "stanza": (f"{PACKAGE}.features",),
    "gensim": (),
    "fastapi": (f"{PACKAGE}.service", f"{PACKAGE}.integrations"),
    "flask": (f"{PACKAGE}.service", f"{PACKAGE}.integrations"),
    "starlette": (f"{PACKAGE}.service", f"{PACKAGE}.integrations"),
    "prometheus_client": (f"{PACKAGE}.service",),
    "uvicorn": (f"{PACKAGE}.service", f"{PACKAGE}.integrations"),
    "pyspark": (f"{PACKAGE}.integrations",),
    "spacy": (f"{PACKAGE}.integrations",),
    "presidio_analyzer": (f"{PACKAGE}.integrations",),
    "duckdb": (f"{PACKAGE}.integrations",),
}
# Whatever reads these can run code that a file brings along.
UNSAFE_MODULES = {"pickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal"}
UNSAFE_CALLS = {"joblib.load", "joblib.dump", "torch.load", "torch.save", "eval", "exec", "yaml.load"}


@cache
def sources() -> dict[str, Path]:
    """Return module name -> file, for every module of the package."""
    modules = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree(path)))


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """Yield (module or module.name, line) of every import of a file, also those inside functions."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{'.' * node.level}{node.module or ''}.{alias.name}", node.lineno) for alias in node.names)


def named_classes(path: Path) -> Iterator[str]:
    """Yield the modules that a file names in strings, as `package.module` or `package.module:Class`."""
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(f"{PACKAGE}."):
            yield node.value.partition(":")[0]


@cache
def module_of(name: str) -> str | None:
    """Return the package's own module that an imported name is or is in; None for other libraries."""
    modules = sources()
    while name:
        if name in modules:
            return name
        name = name.rpartition(".")[0]
    return None


def arrow_against_the_floors(importer: str, target: str) -> str | None:
    """Return why a module may not import another one, or None where it may."""
    here, there = importer.split(".")[1:], target.split(".")[1:]
    if not here or not there or here[0] == there[0] != "taggers":
        # The package's own door imports nothing before it is asked; its version is for all.
        return None
    if here[0] == there[0] == "taggers":
        if len(there) == 1 or is_shared(there) or (len(here) > 1 and here[1] == there[1]):
            return None
        return "taggers do not know each other"
    if (here[0], there[0]) in BESIDE_SEES_BESIDE:
        return None
    if here[0] in BESIDE:
        return None if FLOOR.get(there[0], 99) <= BESIDE_SEES else f"{here[0]} sees floors 1-{BESIDE_SEES} only"
    if there[0] in BESIDE:
        return None if FLOOR[here[0]] >= SEES_BESIDE else f"only floors {SEES_BESIDE}-11 use {there[0]}"
    if FLOOR[here[0]] == FLOOR[there[0]] == 1 or here[0] == "__main__":
        return None
    return None if FLOOR[there[0]] < FLOOR[here[0]] else f"floor {FLOOR[here[0]]} imports floor {FLOOR[there[0]]}"


def is_shared(parts: list[str]) -> bool:
    """Whether a module under taggers is a file beside the taggers' folders."""
    return not (ROOT / PACKAGE / "taggers" / parts[1]).is_dir()


def under(module: str, roots: tuple[str, ...]) -> bool:
    return any(module == root or module.startswith(f"{root}.") for root in roots)


def own_imports(module: str) -> set[str]:
    """Return the package's own modules that a module imports, or names to import on demand."""
    names = [name for name, _ in imported(sources()[module])] + list(named_classes(sources()[module]))
    found = {module_of(name) for name in names}
    return {name for name in found if name is not None and name != module}


def test_every_part_has_a_floor() -> None:
    parts = {name.split(".")[1] for name in sources() if "." in name}
    assert parts <= {*FLOOR, *BESIDE}, f"no floor for {sorted(parts - {*FLOOR, *BESIDE})}"


def test_imports_run_one_way() -> None:
    wrong = []
    for module, path in sources().items():
        for name, line in imported(path):
            target = module_of(name)
            reason = arrow_against_the_floors(module, target) if target else None
            if reason:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: imports {target}: {reason}")
    assert not wrong, "\n".join(wrong)


def test_imports_are_absolute() -> None:
    relative = [f"{path}:{line}" for path in sources().values() for name, line in imported(path) if name[0] == "."]
    assert not relative


def test_heavy_libraries_stay_where_they_belong() -> None:
    wrong = []
    for module, path in sources().items():
        for name, line in imported(path):
            for library, roots in ONLY_UNDER.items():
                if (name == library or name.startswith(f"{library}.")) and not under(module, roots):
                    wrong.append(f"{path.relative_to(ROOT)}:{line}: {name} belongs under {' or '.join(roots)}")
    assert not wrong, "\n".join(wrong)


def test_nothing_read_can_run_code() -> None:
    wrong = []
    for path in sources().values():
        wrong += [f"{path}:{line}: {n}" for n, line in imported(path) if n.split(".")[0] in UNSAFE_MODULES]
        wrong += [f"{path}:{line}: {n}" for n, line in imported(path) if n in UNSAFE_CALLS]
        for node in nodes(path):
            if isinstance(node, ast.Call):
                pickled = any(key.arg == "allow_pickle" for key in node.keywords)
                if ast.unparse(node.func) in UNSAFE_CALLS or pickled:
                    wrong.append(f"{path}:{node.lineno}: {ast.unparse(node.func)}")
    assert not wrong, "\n".join(wrong)


def test_no_call_has_more_than_five_positional_values() -> None:
    """In the package, the research and the tools. Functions that take any number of values (`*values`) are exempt."""
    paths = [path for folder in (PACKAGE, "research", "tools") for path in sorted((ROOT / folder).rglob("*.py"))]
    functions = [n for p in paths for n in nodes(p) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    exempt = {"ignore_patterns", *(function.name for function in functions if function.args.vararg)}
    wrong = []
    for path in paths:
        for call in (node for node in nodes(path) if isinstance(node, ast.Call) and len(node.args) > 5):
            name = ast.unparse(call.func)
            if name.rpartition(".")[2] not in exempt:
                wrong.append(f"{path.relative_to(ROOT)}:{call.lineno}: {name} with {len(call.args)} positional values")
    assert not wrong, "\n".join(wrong)


def public_names(path: Path) -> Iterator[str]:
    """Yield the classes, functions and type aliases that a module makes; constants and what begins with _ are not."""
    for node in tree(path).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name) and not target.id.isupper()]
        else:
            names = []
        yield from (name for name in names if not name.startswith("_"))


def test_no_two_public_things_have_one_name() -> None:
    """Every file of `cli/` has its `add_commands` and a `run_COMMAND` for each command: those names may repeat."""
    homes: dict[str, list[str]] = {}
    for module, path in sources().items():
        in_cli = module.startswith(f"{PACKAGE}.cli.")
        for name in public_names(path):
            if not (in_cli and re.fullmatch(r"add_(model_)?commands|run_\w+", name)):
                homes.setdefault(name, []).append(module)
    shared = [f"{name}: {', '.join(modules)}" for name, modules in sorted(homes.items()) if len(modules) > 1]
    assert not shared, "\n".join(shared)


def test_no_bare_excepts() -> None:
    handlers = [(p, n) for p in sources().values() for n in nodes(p) if isinstance(n, ast.ExceptHandler)]
    bare = [f"{path}:{handler.lineno}" for path, handler in handlers if handler.type is None]
    assert not bare, "\n".join(bare)


def test_no_assert_decides_anything() -> None:
    asserts = [f"{p}:{n.lineno}" for p in sources().values() for n in nodes(p) if isinstance(n, ast.Assert)]
    assert not asserts, "\n".join(asserts)


def test_no_cycles() -> None:
    """Module by module, over imports at the top of files (those inside functions are there to come later)."""
    graph: dict[str, set[str]] = {}
    for module, path in sources().items():
        names: list[str] = []
        for node in tree(path).body:
            if isinstance(node, ast.ImportFrom):
                names += [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
        graph[module] = {target for name in names if (target := module_of(name)) and target not in (module, PACKAGE)}
    finished: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, " -> ".join((*above, module))
        if module not in finished:
            for target in sorted(graph[module]):
                visit(target, (*above, module))
            finished.add(module)

    for module in graph:
        visit(module, ())


def test_every_module_can_be_reached() -> None:
    """From the command line, the package's own door, an entry point, or an import that a document shows."""
    entry_points = (ROOT / "setup.cfg").read_text(encoding="utf-8").partition("[options.entry_points]")[2]
    shown = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md")))
    reached: set[str] = set()
    waiting = [PACKAGE, f"{PACKAGE}.__main__", *(name for name in sources() if f"from {name} import" in shown)]
    waiting += [name for name in sources() if re.search(rf"\bimport {re.escape(name)}\b(?!\.)", shown)]
    waiting += [name for name in sources() if f"= {name}:" in entry_points]
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += own_imports(module)
    packages = {name for name, path in sources().items() if path.name == "__init__.py"}
    lost = sorted(set(sources()) - reached - packages)
    assert not lost, f"imported by nothing that a user can start: {lost}"


@pytest.mark.parametrize(
    ("importer", "target"),
    [
        ("note.span", "features.table"),
        ("features.table", "taggers.base"),
        ("taggers.crf.tagger", "taggers.neural.network"),
        ("taggers.base", "taggers.crf.tagger"),
        ("taggers.tbed.rulelist", "corpora.write"),
        ("stacking.svm", "evaluation.evaluate"),
        ("corpora.read", "features.table"),
        ("evaluation.evaluate", "corpora.read"),
        ("surrogates.patient", "corpora.read"),
        ("features.table", "surrogates.patient"),
        ("training.train", "cli.main"),
        ("service.app", "cli.main"),
        ("service.app", "integrations.spark"),
        ("errors", "note.span"),
    ],
)
def test_a_wrong_arrow_is_seen(importer: str, target: str) -> None:
    assert arrow_against_the_floors(f"{PACKAGE}.{importer}", f"{PACKAGE}.{target}")


@pytest.mark.parametrize(
    ("importer", "target"),
    [
        ("taggers.crf.tagger", "taggers.crf.windows"),
        ("taggers.crf.tagger", "taggers.base"),
        ("training.train", "evaluation.evaluate"),
        ("corpora.resample", "surrogates.patient"),
        ("deidentify.prediction", "surrogates.patient"),
        ("corpora.read", "note.document"),
        ("config", "errors"),
        ("cli.main", "cli.terminal"),
        ("cli.service", "service.server"),
    ],
)
def test_a_right_arrow_passes(importer: str, target: str) -> None:
    assert arrow_against_the_floors(f"{PACKAGE}.{importer}", f"{PACKAGE}.{target}") is None
