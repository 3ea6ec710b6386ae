"""Only the page itself may ask: other sites that a browser has open are kept out, by whatever name they call us."""

import ipaddress
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from ensemble_deid.service.refusal import Refused


class OwnSite:
    """An ASGI application that refuses requests to other host names (DNS rebinding) and from other origins."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            host = headers.get(b"host", b"").decode("latin-1")
            origin = headers.get(b"origin")
            if not _is_loopback_name(host):
                raise Refused(403, "the review is at 127.0.0.1 or localhost only")
            if origin is not None and origin.decode("latin-1") != f"http://{host}":
                raise Refused(403, "requests of other sites are refused")
            if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
                raise Refused(403, "requests of other sites are refused")
        await self._app(scope, receive, send)


def _is_loopback_name(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
