"""The answer to a request that is not served; it never quotes the request."""

from collections.abc import Mapping

from starlette.responses import JSONResponse


class Refused(Exception):  # noqa: N818 (nothing went wrong: it is an answer)
    """Ends a request with this status and message. `close` ends the connection too, since its body was not read."""

    def __init__(self, status: int, message: str, *, retry: bool = False, close: bool = False) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.headers: Mapping[str, str] = {
            **({"retry-after": "1"} if retry else {}),
            **({"connection": "close"} if close else {}),
            **({"www-authenticate": "Bearer"} if status == 401 else {}),
        }

    def response(self) -> JSONResponse:
        """Return the answer: `{"error": message}`, as Presidio's services answer."""
        return JSONResponse({"error": self.message}, self.status, dict(self.headers))
