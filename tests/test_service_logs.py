"""What the service writes to standard error quotes no note, whichever library writes it and however."""

import asyncio
import gc
import logging
from collections.abc import Iterator

import pytest

from ensemble_deid.errors import CorpusError
from ensemble_deid.service.logs import set_up

# Stands in every text that is given here.
MARKER = "Zyxwvutsr"
LIBRARY = logging.getLogger("some.library")


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Take back what `set_up` changes; tests call it themselves, since it takes the standard error of that moment."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_an_exception_that_a_library_logs_is_described_without_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    set_up()
    try:
        try:
            raise KeyError(MARKER)
        except KeyError as error:
            raise ValueError(f"cannot parse {MARKER}") from error
    except ValueError:
        LIBRARY.exception("Task failed")
    said = capsys.readouterr().err
    assert said.startswith("ensemble-deid: Task failed\nunforeseen ValueError; its message is left out")
    assert "test_service_logs.py" in said
    assert MARKER not in said


def test_an_error_of_ours_is_logged_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    set_up()
    try:
        raise CorpusError("note 1: is empty")
    except CorpusError:
        LIBRARY.exception("Task failed")
    assert capsys.readouterr().err == "ensemble-deid: Task failed\nnote 1: is empty\n"


class NoteError(ValueError):
    """An exception whose message quotes a note, as a parser's may."""


def test_what_asyncio_says_of_an_exception_that_nobody_awaited_quotes_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up()

    async def fail() -> None:
        raise NoteError(MARKER)

    async def main() -> None:
        task = asyncio.ensure_future(fail())
        future = asyncio.get_running_loop().create_future()
        future.set_exception(NoteError(MARKER))
        await asyncio.sleep(0)
        del task, future
        gc.collect()
        # A callback's arguments stand in the first line.
        asyncio.get_running_loop().call_soon(int, MARKER)
        await asyncio.sleep(0)

    asyncio.run(main())
    said = capsys.readouterr().err
    assert MARKER not in said
    for message in ("Task exception was never retrieved", "Future exception was never retrieved"):
        assert f"ensemble-deid: {message}\nunforeseen NoteError; its message is left out" in said
    assert "ensemble-deid: Exception in callback int\nunforeseen ValueError" in said


def test_a_traceback_in_a_message_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """As uvicorn logs what goes wrong while it starts."""
    set_up()
    LIBRARY.error(f"Traceback (most recent call last):\n  ...\nValueError: {MARKER}\n")
    LIBRARY.info(f"POST /{MARKER}")
    assert capsys.readouterr().err == "ensemble-deid: an error in a library\n"
