import pytest

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.embedded.apiserver.server import ApiServer


def test_failed_start_closes_server(monkeypatch):
    async def fail(cluster):
        raise OSError(f"no power for {len(list(cluster.site.machines))} nodes")

    def close(server):
        closed.append(server)

    closed = []
    monkeypatch.setattr(EmbeddedCluster, "_create_initial_objects", fail)
    monkeypatch.setattr(ApiServer, "close", close)
    with pytest.raises(OSError, match="no power for 2 nodes"):
        EmbeddedCluster(1, nodes=2)
    assert len(closed) == 1
