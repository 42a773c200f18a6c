"""The HTTP server of `actfirst view`: this machine only, read only, and only for who knows the token.

A request is answered if it names this server as its host, comes from its own pages, and shows the token: in the
address the first time, in a cookie afterwards. Nothing that a request says becomes a path.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from urllib.parse import parse_qs, urlsplit

from actfirst.errors import ActfirstError, ConfigError
from actfirst.view.catalogue import Catalogue

HOST = "127.0.0.1"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def static_files() -> dict[str, bytes]:
    """The built pages, by name."""
    folder = resources.files("actfirst.view") / "static"
    found = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith(tuple(TYPES))}
    if "index.html" not in found:
        raise ConfigError("the viewer's pages are missing; in a checkout, `make viewer` builds them")
    return found


class ViewServer(ThreadingHTTPServer):
    """Serves a catalogue of runs. Port 0 takes a free one."""

    daemon_threads = True

    def __init__(self, catalogue: Catalogue, port: int = 0) -> None:
        self.catalogue = catalogue
        self.static = static_files()
        self.token = secrets.token_urlsafe(32)
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on port {port}: {error.strerror}; choose another with --port"
            ) from error

    @property
    def address(self) -> str:
        """Opens the pages."""
        return f"http://{HOST}:{self.server_port}/?token={self.token}"

    @property
    def hosts(self) -> tuple[str, str]:
        return f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"

    @property
    def cookie(self) -> str:
        """Its name: browsers share cookies between the ports of a machine."""
        return f"actfirst-{self.server_port}"


class _Refused(Exception):
    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: ViewServer
    protocol_version = "HTTP/1.1"
    server_version = "actfirst"
    sys_version = ""
    timeout = 60
    wbufsize = -1  # head and body leave together
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        try:
            url = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(url.query).items()}
            self._refuse_strangers(query)
            if "token" in query:
                self._remember()
            else:
                self._send(*self._answer(url.path, query))
        except _Refused as refused:
            self._send(str(refused).encode(), "text/plain; charset=utf-8", refused.status)
        except ActfirstError as error:
            self._send(str(error).encode(errors="replace"), "text/plain; charset=utf-8", HTTPStatus.NOT_FOUND)
        except OSError:
            self.close_connection = True  # the browser left

    def _refuse_strangers(self, query: Mapping[str, str]) -> None:
        host = self.headers.get("Host", "")
        if host not in self.server.hosts:
            raise _Refused(HTTPStatus.FORBIDDEN, "this server answers to its own address only")
        origin = self.headers.get("Origin")
        site = self.headers.get("Sec-Fetch-Site", "none")
        if (origin is not None and origin != f"http://{host}") or site == "cross-site":
            raise _Refused(HTTPStatus.FORBIDDEN, "this server answers to its own pages only")
        shown = query.get("token") or self._cookie()
        if not secrets.compare_digest(shown.encode(errors="replace"), self.server.token.encode()):
            raise _Refused(
                HTTPStatus.FORBIDDEN, "the token is missing or wrong: open the address that was printed"
            )

    def _cookie(self) -> str:
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie)
        except CookieError:
            return ""
        return found.value if found else ""

    def _remember(self) -> None:
        """The token leaves the address, where it would stay in the browser's history."""
        cookie = f"{self.server.cookie}={self.server.token}; HttpOnly; SameSite=Strict; Path=/"
        self._send(b"", "text/plain", HTTPStatus.SEE_OTHER, {"Location": "/", "Set-Cookie": cookie})

    def _answer(self, path: str, query: Mapping[str, str]) -> tuple[bytes, str]:
        name = path.lstrip("/") or "index.html"
        if name in self.server.static:
            return self.server.static[name], TYPES[name[name.rindex(".") :]]
        return self._data(path, query), "application/json"

    def _data(self, path: str, query: Mapping[str, str]) -> bytes:
        def number(name: str) -> int:
            text = query.get(name, "0")
            if not (text.isascii() and text.isdigit() and len(text) < 16):
                raise _Refused(HTTPStatus.BAD_REQUEST, f"{name} is not a number")
            return int(text)

        runs = self.server.catalogue
        match path:
            case "/api/runs":
                return runs.runs()
            case "/api/rows":
                return runs.rows(number("run"), query.get("kind", ""), number("from"), number("generation"))
            case "/api/line":
                return runs.line(number("run"), query.get("kind", ""), number("row"))
            case "/api/prompts":
                return runs.prompts(number("run"), query.get("kind", ""), number("row"))
        raise _Refused(HTTPStatus.NOT_FOUND, "there is no such page")

    def _send(
        self,
        body: bytes,
        kind: str,
        status: HTTPStatus = HTTPStatus.OK,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: addresses hold the token."""
