"""How the viewer answers for a large run folder: python -m tests.tools.view_scale FOLDER [EPISODES]

Writes a run of some 10 kB per episode into FOLDER, asks the server for its whole list as the page does, then opens
episodes, and prints how long the answers took and how much memory the server had.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from tests.view.made_runs import episode, make_run


def main(folder: Path, count: int) -> None:
    if not folder.exists():
        run = make_run(folder, updates=2)
        draw = random.Random(0)
        lines = [json.dumps({**episode(draw, n, n, True), "padding": "x" * 2500}) + "\n" for n in range(200)]
        with (run / "episodes.jsonl").open("w") as file:
            file.writelines(lines[n % 200] for n in range(count))
    size = (folder / "episodes.jsonl").stat().st_size
    server = subprocess.Popen(
        [sys.executable, "-m", "actfirst", "view", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout
    address = urlsplit(server.stdout.readline().strip())
    assert address.hostname
    connection = HTTPConnection(address.hostname, address.port or 80)
    cookie = {"Cookie": f"actfirst-{address.port}={address.query.removeprefix('token=')}"}

    def ask(path: str) -> tuple[bytes, float]:
        start = time.perf_counter()
        connection.request("GET", path, headers=cookie)
        body = connection.getresponse().read()
        return body, 1000 * (time.perf_counter() - start)

    try:
        times, received = [], 0
        while True:
            body, milliseconds = ask(f"/api/rows?run=0&kind=episodes&generation=1&from={received}")
            answer = json.loads(body)
            times.append(milliseconds)
            received += len(answer["rows"])
            if not answer["behind"] and received == answer["total"]:
                break
        process = psutil.Process(server.pid)
        memory, busy = process.memory_info().rss, sum(process.cpu_times()[:2])
        again = [
            ask(f"/api/rows?run=0&kind=episodes&generation=1&from={place}")[1]
            for place in range(0, received, 2000)
        ]
        opened = [
            ask(f"/api/line?run=0&kind=episodes&row={place}")[1] for place in range(0, received, received // 50)
        ]
    finally:
        server.terminate()
        server.wait()
    print(f"{received:,} episodes, {size / 1e9:.2f} GB, server memory {memory / 1e6:.0f} MB")
    print(f"processor time to read all of it: {busy:.1f} s, {1000 * busy / len(times):.0f} ms an answer")
    for name, values in (("reading on", times), ("list", again), ("one episode", opened)):
        print(
            f"{name}: {len(values)} answers, median {statistics.median(values):.0f} ms, slowest {max(values):.0f} ms"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
