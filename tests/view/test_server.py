"""The viewer's server answers its own pages, on this machine, to who knows the token, and nothing else."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import pytest

from actfirst.errors import ConfigError
from actfirst.view.catalogue import Catalogue
from actfirst.view.server import ViewServer
from tests.view.made_runs import CONTROL, NASTY, make_run


@contextmanager
def serving(*paths: Path) -> Iterator[ViewServer]:
    with ViewServer(Catalogue(paths)) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ViewServer]:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "secret.txt").write_text("secret")
    make_run(folder / "one", updates=4)
    make_run(folder / "two", updates=4, whole=False, finished=False, text=NASTY + CONTROL)
    with serving(folder) as running:
        yield running


def ask(server: ViewServer, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    with closing(connection):
        sent = {
            "Cookie": f"{server.cookie}={server.token}",
            **{k.replace("_", "-"): v for k, v in headers.items()},
        }
        connection.request(method, path, headers=sent)
        answer = connection.getresponse()
        answer.body = answer.read()  # type: ignore[attr-defined]
        return answer


def data(server: ViewServer, path: str) -> object:
    answer = ask(server, path)
    assert answer.status == 200, answer.body  # type: ignore[attr-defined]
    return json.loads(answer.body)  # type: ignore[attr-defined]


def test_it_listens_on_this_machine_only(server: ViewServer) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"


def test_the_address_that_is_printed_opens_the_pages_and_leaves_the_token_behind(server: ViewServer) -> None:
    first = ask(server, server.address.removeprefix(f"http://127.0.0.1:{server.server_port}"), Cookie="")
    assert (first.status, first.headers["Location"]) == (303, "/")
    cookie = first.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
    page = ask(server, "/", Cookie=cookie.split(";")[0])
    assert page.status == 200
    assert b"app.js" in page.body  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", ["/", "/app.js", "/api/runs", "/api/line?run=0&kind=episodes&row=0"])
@pytest.mark.parametrize(
    "cookie",
    ["", "actfirst=wrong", "{name}=", "{name}=wrong", "{name}=ä", "{name}={token}x", "=;;==", "other={token}"],
)
def test_without_the_token_nothing_is_answered(server: ViewServer, path: str, cookie: str) -> None:
    text = cookie.format(name=server.cookie, token=server.token)
    answer = ask(server, path, Cookie=text.encode().decode("latin-1"))
    assert answer.status == 403
    assert b"token" in answer.body  # type: ignore[attr-defined]


def test_a_wrong_token_in_the_address_is_refused_even_with_the_right_cookie(server: ViewServer) -> None:
    assert ask(server, "/?token=wrong").status == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", ""])
def test_another_host_name_is_refused(server: ViewServer, host: str) -> None:
    """A page elsewhere may let its own name point to this machine."""
    assert ask(server, "/api/runs", Host=host.format(port=server.server_port)).status == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"]
)
def test_another_origin_is_refused(server: ViewServer, origin: str) -> None:
    assert ask(server, "/api/runs", Origin=origin.format(port=server.server_port)).status == 403


def test_a_request_that_the_browser_calls_cross_site_is_refused(server: ViewServer) -> None:
    assert ask(server, "/api/runs", Sec_Fetch_Site="cross-site").status == 403
    assert ask(server, "/api/runs", Sec_Fetch_Site="same-origin").status == 200
    assert ask(server, "/api/runs", Origin=f"http://127.0.0.1:{server.server_port}").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_it_is_read_only(server: ViewServer, method: str) -> None:
    assert ask(server, "/api/runs", method).status == 501


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "//etc/passwd",
        "/secret.txt",
        "/static/index.html",
        "/api/line?run=0&kind=../secret.txt&row=0",
        "/api/line?run=0&kind=" + quote("/etc/passwd") + "&row=0",
        "/api/rows?run=0&kind=config",
        "/api/rows?run=../0&kind=episodes",
        "/api/line?run=-1&kind=episodes&row=0",
        "/api/line?run=99&kind=episodes&row=0",
        "/api/line?run=0&kind=episodes&row=-1",
        "/api/line?run=0&kind=episodes&row=" + "9" * 500,
        "/api/line?run=0&kind=episodes&row=²",
        "/api/nothing",
    ],
)
def test_no_request_names_a_path(server: ViewServer, path: str) -> None:
    answer = ask(server, quote(path, safe="/?&=%."))
    assert answer.status in (400, 404)
    assert b"secret\n" not in answer.body + b"\n"  # type: ignore[attr-defined]
    assert b"root:" not in answer.body  # type: ignore[attr-defined]


def test_every_answer_forbids_what_the_pages_do_not_need(server: ViewServer) -> None:
    for path in ("/", "/api/runs", "/missing"):
        headers = ask(server, path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"


def test_the_page_loads_nothing_from_outside_and_has_no_script_of_its_own(server: ViewServer) -> None:
    page = ask(server, "/").body.decode()  # type: ignore[attr-defined]
    assert "//" not in page.replace("<!doctype", "")
    assert page.count("<script") == page.count('<script defer src="app.js">')
    assert "style=" not in page


def test_nonsense_does_not_end_the_server(server: ViewServer) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as raw:
        raw.sendall(b"\x00\xff nonsense\r\n\r\n")
        raw.recv(1000)
    assert ask(server, "/api/runs").status == 200


def test_a_lab_is_the_runs_below_its_folder(server: ViewServer) -> None:
    one, two = data(server, "/api/runs")  # type: ignore[misc]
    assert one["name"].endswith("/one")
    assert (one["state"], two["state"]) == ("finished", "stopped")
    assert one["method"] == "actfirst"
    assert "started at update 0" in two["log"][0]


def test_rows_are_what_lists_need_and_lines_are_whole(server: ViewServer) -> None:
    answer = data(server, "/api/rows?run=0&kind=episodes&from=3")
    assert isinstance(answer, dict)
    row = dict(zip(answer["columns"], answer["rows"][0]))
    line = data(server, "/api/line?run=0&kind=episodes&row=0")
    assert isinstance(line, dict)
    assert (answer["from"], answer["total"], answer["behind"]) == (0, 16, 0)
    assert row["task"] == line["task"]["id"]
    assert row["turns"] == len(line["turns"])
    again = data(server, "/api/rows?run=0&kind=episodes&from=3&generation=1")
    assert isinstance(again, dict)
    assert again["rows"] == answer["rows"][3:]


def test_text_of_a_model_crosses_as_json_and_never_as_a_page(server: ViewServer) -> None:
    answer = ask(server, "/api/line?run=1&kind=episodes&row=0")
    assert answer.headers["Content-Type"] == "application/json"
    assert json.loads(answer.body)["turns"][0]["observation"] == NASTY + CONTROL  # type: ignore[attr-defined]


def test_a_run_of_an_older_version_has_no_responses(server: ViewServer) -> None:
    for kind in ("responses", "evaluation", "utilisation"):
        answer = data(server, f"/api/rows?run=1&kind={kind}")
        assert isinstance(answer, dict)
        assert answer["total"] == 0


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run in"):
        Catalogue([tmp_path])


def test_a_run_that_a_lab_begins_while_somebody_looks_is_found(tmp_path: Path) -> None:
    make_run(tmp_path / "b", updates=2)
    catalogue = Catalogue([tmp_path])
    make_run(tmp_path / "a", updates=2)
    names = [run["name"] for run in json.loads(catalogue.runs())]
    assert [name.rsplit("/")[-1] for name in names] == ["b", "a"]


def test_a_link_inside_a_folder_is_not_followed_out_of_it(tmp_path: Path) -> None:
    make_run(tmp_path / "outside", updates=2)
    make_run(tmp_path / "lab" / "one", updates=2)
    (tmp_path / "lab" / "link").symlink_to(tmp_path / "outside")
    assert len(Catalogue([tmp_path / "lab"])) == 1


def test_a_port_that_is_taken_is_said(server: ViewServer) -> None:
    with pytest.raises(ConfigError, match="--port"):
        ViewServer(server.catalogue, server.server_port)
