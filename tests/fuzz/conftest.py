"""What the fuzz tests share: their marker, by which `make test` leaves them out, and their share of the time."""

from pathlib import Path

import pytest
from budget import SECONDS, Budget


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.fuzz)


@pytest.fixture
def budget(request: pytest.FixtureRequest, tiny_model: Path) -> Budget:
    """The time of one of the fuzz tests; the model that they share is made before it begins."""
    count = sum(1 for item in request.session.items if item.get_closest_marker("fuzz"))
    return Budget(request.node.originalname, SECONDS / max(1, count))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name, tried in Budget.tried.items():
        terminalreporter.write_line(f"{name}: {tried} inputs")
