"""What the service writes to standard error: no request, no note, and no message of an unforeseen error."""

import logging
import traceback

from ensemble_deid.errors import DeidError

LOG = logging.getLogger("ensemble_deid.service")


class _Formatter(logging.Formatter):
    """Shows where an exception arose and its type; its message may quote a note."""

    def formatException(self, ei: object) -> str:  # noqa: N802 (overrides)
        error = ei[1] if isinstance(ei, tuple) else None
        return describe(error) if isinstance(error, BaseException) else ""

    def format(self, record: logging.LogRecord) -> str:
        record.exc_text = None
        if record.levelno >= logging.ERROR and record.name != LOG.name:
            # Libraries put tracebacks into messages, too (uvicorn does when the start fails), and asyncio an
            # exception's repr into the lines after the first, whether or not the exception comes with the record.
            message = _first_line(record.getMessage())
            if record.name == "asyncio":
                # "Exception in callback f('an argument') at file:line".
                message = message.partition("(")[0]
            record = logging.makeLogRecord({**record.__dict__, "msg": message, "args": ()})
        return super().format(record)


def describe(error: BaseException) -> str:
    """Return an error's message where it is one of ours, which quote nothing, else its place and type."""
    if isinstance(error, DeidError):
        return str(error)
    where = "".join(traceback.format_tb(error.__traceback__))
    return (
        f"unforeseen {type(error).__name__}; its message is left out, since it may quote a note. It arose in\n{where}"
    )


def set_up() -> None:
    """Let warnings and errors of all libraries through this formatter, and no record of single requests."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter("ensemble-deid: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)


def _first_line(message: str) -> str:
    first, newline, _ = message.partition("\n")
    return "an error in a library" if newline and first.startswith("Traceback") else first
