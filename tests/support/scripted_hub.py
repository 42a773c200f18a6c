"""A Hugging Face hub on this machine's loopback: models from folders, refusals by name, and what was uploaded."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

COMMIT = "c0ffee" + "0" * 34


class ScriptedHub:
    """`models` are served at COMMIT; the name in `gated` is refused. `uploaded` maps path to content."""

    def __init__(self, models: dict[str, Path], gated: str = "") -> None:
        self.models, self.gated = models, gated
        self.uploaded: dict[str, bytes] = {}
        self.created: list[str] = []
        self.asked: list[str] = []
        self.address = ""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(f"{method} {path}")
        parts = path.strip("/").split("/")
        if path == "/api/repos/create":
            given = json.loads(body)
            self.created.append(f"{given['organization']}/{given['name']}")
            return _json({"url": f"{self.address}/{self.created[-1]}"})
        if path == "/api/validate-yaml":
            return _json({"errors": [], "warnings": []})
        if parts[:2] == ["api", "models"] and method == "POST":
            return self._take(parts[4], body)
        name = "/".join(parts[2:4] if parts[:2] == ["api", "models"] else parts[:2])
        if name == self.gated:
            return 403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "restricted"}, b"{}"
        if name in self.created:
            return _json([] if "tree" in parts else {"id": name, "sha": COMMIT, "siblings": []})
        if name not in self.models:
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        folder = self.models[name]
        revision = next(
            (parts[i + 1] for i, part in enumerate(parts[:-1]) if part in ("revision", "resolve", "tree")),
            "main",
        )
        if revision not in ("main", COMMIT):
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        if parts[:2] == ["api", "models"]:
            files = [p.name for p in folder.iterdir()]
            if "tree" in parts:
                return _json(
                    [
                        {
                            "type": "file",
                            "path": f,
                            "oid": _etag(folder / f),
                            "size": (folder / f).stat().st_size,
                        }
                        for f in files
                    ]
                )
            return _json({"id": name, "sha": COMMIT, "siblings": [{"rfilename": file} for file in files]})
        file = folder / parts[-1]
        if not file.is_file():
            return 404, {"X-Error-Code": "EntryNotFound"}, b""
        return 200, {"ETag": f'"{_etag(file)}"', "X-Repo-Commit": COMMIT}, file.read_bytes()

    def _take(self, what: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if what == "preupload":
            files = json.loads(body)["files"]
            return _json(
                {"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files]}
            )
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                self.uploaded[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        return _json(
            {
                "commitUrl": f"{self.address}/{self.created[-1]}/commit/{COMMIT}",
                "commitOid": COMMIT,
                "hookOutput": "",
                "success": True,
            }
        )


@contextmanager
def served(hub: ScriptedHub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedHub]:
    """The hub at an address of its own, which huggingface_hub is told of, with an empty cache."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, content = hub.answer(self.command, urlsplit(self.path).path, body)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_HEAD = do_POST = _reply

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hub.address = f"http://127.0.0.1:{server.server_port}"
    direct(monkeypatch, hub.address, cache)
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def direct(monkeypatch: pytest.MonkeyPatch, address: str, cache: Path, *, offline: bool = False) -> None:
    """Point huggingface_hub at an address and a cache. It reads its variables once, when it is imported."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", address)
    monkeypatch.setenv("HF_TOKEN", "nobody")


def _json(value: object) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()


def _etag(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()
