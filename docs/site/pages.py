"""What the site shows, for mkdocs: the documents as they lie in the project, the notebooks, and the reference.

The files keep their places relative to each other, so that links that work on a forge work on the site, and mkdocs
complains of those that do not.
"""

from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

import ensemble_deid

ROOT = Path(__file__).parents[2]
OUTSIDE = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "data/README.md",
    "data/LICENSE",
    "research/sources.md",
)
REPORTS = tuple(f"research/reports/{path.name}" for path in sorted((ROOT / "research" / "reports").glob("*.md")))
CARD = ("data/demo/CARD.md", "data/demo/readings.md", "data/demo/sites/existing.md")
INTEGRATIONS = ("presidio", "spacy", "huggingface", "spark", "duckdb", "sklearn", "series")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Put every file where it lies in the project, add those outside of docs/, and write the reference."""
    theme = [file for file in files if file.src_dir != config.docs_dir]
    own = (file.src_uri for file in files if file.src_dir == config.docs_dir)
    shown = [f"docs/{name}" for name in own if name.endswith((".md", ".png", ".svg"))]
    paths = [*shown, *OUTSIDE, *CARD, *REPORTS]
    made = [File.generated(config, path, abs_src_path=str(ROOT / path), inclusion=_inclusion(path)) for path in paths]
    made += [
        File.generated(config, f"notebooks/{path.stem}.md", content=notebook_page(path))
        for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
    ]
    made.append(File.generated(config, "docs/reference/python.md", content=reference_page()))
    return Files([*theme, *made])


def _inclusion(path: str) -> InclusionLevel:
    return InclusionLevel.NOT_IN_NAV if path.startswith(("data/demo/", "research/")) else InclusionLevel.INCLUDED


def on_page_markdown(markdown: str, **others: Any) -> str:
    """Let links to notebooks lead to their pages."""
    return markdown.replace(".ipynb)", ".md)")


def notebook_page(path: Path) -> str:
    """Return a notebook as Markdown: its text, its code, and what it printed."""
    parts = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        printed = "".join(output.text for output in cell.outputs)
        parts.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def reference_page() -> str:
    """Return the page that lets mkdocstrings show the docstring of every public name."""
    names = [name for name in ensemble_deid.__all__ if name in ensemble_deid._MODULE_OF]
    parts = [
        "# Python",
        "Everything that `from ensemble_deid import ...` gives, then the integrations with other programs. "
        "Submodules that are not named here may change between versions.",
        "## ensemble_deid",
        *(f"::: {ensemble_deid._MODULE_OF[name]}.{name}" for name in names),
    ]
    for name in INTEGRATIONS:
        parts += [f"## ensemble_deid.integrations.{name}", f"::: ensemble_deid.integrations.{name}"]
    return "\n\n".join(parts) + "\n"
