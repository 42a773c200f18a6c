"""A cluster that a run starts for itself: nobody from outside can reach it, and nobody gets in without its token."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

pytest.importorskip("ray")

import ray
from ray._raylet import AuthenticationMode, get_authentication_mode

from actfirst.config.runtime_sections import RuntimeSection
from actfirst.training.ray.cluster import Demand, Demands, cluster

NOTHING = Demand("nothing", 0, 0.0, 0.0)
LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")


def listening() -> set[str]:
    """The addresses on which this process and all that it started accept connections."""
    here = psutil.Process()
    found = set()
    for process in (here, *here.children(recursive=True)):
        try:
            connections = process.net_connections(kind="inet")
        except psutil.Error:
            continue
        found |= {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}
    return found


@pytest.mark.slow
def test_it_listens_on_the_loopback_address_only_and_asks_for_a_token() -> None:
    settings = RuntimeSection(kind="ray", object_store_mb=100)
    with cluster(settings, Demands(NOTHING, NOTHING, NOTHING, NOTHING)):
        ray.get(ray.remote(lambda: 1).remote())
        assert listening()
        assert listening() <= set(LOOPBACK)
        assert get_authentication_mode() == AuthenticationMode.TOKEN
        token = Path.home() / ".ray" / "auth_token"
        assert not token.exists() or not token.stat().st_mode & 0o077
