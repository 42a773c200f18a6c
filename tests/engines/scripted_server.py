"""An OpenAI-compatible server on this machine that does what a test tells it, right or wrong.

Its model is a table: the log-probs of the next token depend on the last one only.
"""

from __future__ import annotations

import gzip
import json
import math
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast

from tests.support.tiny_models import make_tiny_tokenizer

MODEL = "the-teacher"
CUT_OFF = -9999.0


@dataclass
class Script:
    """What a server does. `failures` are used up one by one, by completions only, before it behaves."""

    failures: deque[str] = field(default_factory=deque)
    always: str = ""
    dies_after: int = 1_000_000
    dialects: tuple[str, ...] = ("prompt_logprobs", "echo")
    seed: int = 0
    temperature: str = "ignored"
    top_k: int = 0
    positions: int | None = 4096
    tokenizes: bool = True
    delay: float = 0.0
    together: int = 0  # completions wait until so many were there at the same time, however busy the machine is
    key: str = ""


class TableModel:
    def __init__(self, size: int, seed: int) -> None:
        self.logits = 2.0 * np.random.default_rng(seed).standard_normal((size, size))

    def logprobs(self, ids: list[int], temperature: float = 1.0) -> list[float]:
        """Of all ids but the first."""
        rows = self.logits[ids[:-1]] / temperature
        rows = rows - np.log(np.exp(rows).sum(-1, keepdims=True))
        return [float(row[i]) for row, i in zip(rows, ids[1:], strict=True)]


class ScriptedServer:
    """Runs while the `with` block does. `completions` counts requests, `most` those at the same time."""

    def __init__(self, script: Script | None = None, tokenizer: PreTrainedTokenizerFast | None = None) -> None:
        self.script = script or Script()
        self.tokenizer = tokenizer or make_tiny_tokenizer()
        self.model = TableModel(len(self.tokenizer), self.script.seed)
        self.completions = self.now = self.most = 0
        self.bodies: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        self.arrived = threading.Condition(self.lock)
        self.ended = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.listed(self)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.posted(self, body)

            def log_message(self, format: str, *args: object) -> None: ...

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()
        with self.lock:
            self.arrived.notify_all()
        self._http.shutdown()
        self._http.server_close()

    def listed(self, to: BaseHTTPRequestHandler) -> None:
        entry: dict[str, object] = {"id": MODEL, "object": "model"}
        if self.script.positions is not None:
            entry["max_model_len"] = self.script.positions
        _send(to, 200, {"object": "list", "data": [entry]})

    def posted(self, to: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        if self.script.key and to.headers.get("Authorization") != f"Bearer {self.script.key}":
            _send(to, 401, {"error": {"message": "a key, please"}})
        elif to.path == "/v1/completions":
            self.completed(to, body)
        elif to.path == "/tokenize" and self.script.tokenizes:
            ids = self.tokenizer(body["prompt"], add_special_tokens=body["add_special_tokens"])["input_ids"]
            _send(to, 200, {"count": len(ids), "tokens": ids})
        else:
            _send(to, 404, {"detail": "Not Found"})

    def completed(self, to: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        with self.lock:
            self.completions += 1
            self.now += 1
            self.most = max(self.most, self.now)
            self.bodies.append(body)
            failure = self.script.failures.popleft() if self.script.failures else self.script.always
            if self.completions > self.script.dies_after:
                failure = "drop"
            self.arrived.notify_all()
            self.arrived.wait_for(lambda: self.most >= self.script.together or self.ended.is_set())
        try:
            time.sleep(self.script.delay)
            self.misbehave(to, failure) if failure else _send(to, 200, self.completion(body))
        finally:
            with self.lock:
                self.now -= 1

    def misbehave(self, to: BaseHTTPRequestHandler, failure: str) -> None:
        match failure:
            case "hang":
                self.ended.wait()
            case "drop":
                to.close_connection = True
            case "no json":
                _send(to, 200, b"<html>a proxy says hello</html>")
            case "deep":
                _send(to, 200, b'{"choices":' + b"[" * 100_000)
            case "bomb":
                _send(
                    to,
                    200,
                    gzip.compress(b'{"choices": [' + b" " * 30_000_000, 1),
                    {"Content-Encoding": "gzip"},
                )
            case "no gzip":
                _send(to, 200, b"no gzip", {"Content-Encoding": "gzip"})
            case "unasked encoding":
                _send(to, 200, b"?", {"Content-Encoding": "br"})
            case "redirect":
                _send(to, 307, b"", {"Location": f"{self.url}/elsewhere"})
            case "echo the key":
                _send(to, 500, {"error": {"message": f"no such key: {to.headers.get('Authorization')}"}})
            case "huge":
                _send(to, 200, b"[" + b" " * 300_000)
            case "refuse":
                _send(to, 400, {"error": {"message": "this prompt is too long"}})
            case status if status.isdigit():
                _send(to, int(status), {"error": {"message": "out of memory"}})
            case _:
                _send(to, 200, {"choices": [{"index": 0, "text": "", **MALFORMED[failure]}]})

    def completion(self, body: dict[str, Any]) -> dict[str, object]:
        ids: list[int] = body["prompt"]
        choice: dict[str, object] = {"index": 0, "text": "x", "finish_reason": "length", "stop_reason": None}
        honoured = self.script.temperature
        temperature = {"ignored": 1.0, "honoured": body["temperature"], "wrong": body["temperature"] ** 2}[
            honoured
        ]
        values = self.cut(ids, self.model.logprobs(ids, temperature))
        texts = [self.tokenizer.decode([i]) for i in ids]
        if "prompt_logprobs" in body and "prompt_logprobs" in self.script.dialects:
            rows = [
                {str(i): {"logprob": value, "rank": 1, "decoded_token": text}}
                for i, value, text in zip(ids[1:], values, texts[1:], strict=True)
            ]
            choice["prompt_logprobs"] = [None, *rows]
        if body.get("echo") and "echo" in self.script.dialects:
            choice["logprobs"] = {"tokens": [*texts, "x"], "token_logprobs": [None, *values, -1.0]}
        if body.get("return_token_ids"):
            choice |= {"token_ids": [5, 6, 7], "logprobs": {"token_logprobs": [-0.5, -0.25, -1.0]}}
            if body.get("stop"):
                choice |= {"finish_reason": "stop", "stop_reason": body["stop"][0]}
        return {"id": "cmpl-1", "object": "text_completion", "choices": [choice]}

    def cut(self, ids: list[int], values: list[float]) -> list[float]:
        if not self.script.top_k:
            return values
        best = np.argsort(-self.model.logits, axis=-1)[:, : self.script.top_k]
        return [v if i in best[last] else CUT_OFF for v, last, i in zip(values, ids[:-1], ids[1:], strict=True)]


MALFORMED: dict[str, dict[str, object]] = {
    "too few": {"prompt_logprobs": [None]},
    "another token": {"prompt_logprobs": [None, {"9999": {"logprob": -1.0}}, {"9999": {"logprob": -1.0}}]},
    "no numbers": {"prompt_logprobs": [None, {"4": {"logprob": None}}, {"5": {"logprob": "low"}}]},
    "no choice": {"index": 1},
    "above 0": {"prompt_logprobs": [None, {"4": {"logprob": -1.0}}, {"5": {"logprob": 50.0}}]},
    "below everything": {"prompt_logprobs": [None, {"4": {"logprob": -(10**400)}}, {"5": {"logprob": -1.0}}]},
    "far below": {"prompt_logprobs": [None, {"4": {"logprob": -1e300}}, {"5": {"logprob": -1.0}}]},
    "infinite": {"prompt_logprobs": [None, {"4": {"logprob": -math.inf}}, {"5": {"logprob": -1.0}}]},
    "no number": {"prompt_logprobs": [None, {"4": {"logprob": math.nan}}, {"5": {"logprob": True}}]},
}


def _send(to: BaseHTTPRequestHandler, status: int, answer: object, more: Mapping[str, str] = {}) -> None:
    content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    to.send_response(status)
    to.send_header("Content-Type", "application/json")
    to.send_header("Content-Length", str(len(content)))
    for name, value in more.items():
        to.send_header(name, value)
    to.end_headers()
    try:
        to.wfile.write(content)
    except (BrokenPipeError, ConnectionResetError):
        to.close_connection = True  # the other side has given up
