"""Fixtures for probes: a small embedded cluster, an actor and helpers."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.objects.resources import CONFIG_MAPS
from pytest_kscen.workflow.probes import Probe, ProbeRunner

SUBJECT = {"workflow": "w", "namespace": "default", "node": "w-node"}


class ProbeSetup:
    """Cluster, actor and helpers for probes."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.runner = cluster.runner
        self.journal = Journal(cluster.runner.clock)
        context = RunContext(
            cluster.api, cluster.runner.clock, cluster.chance, self.journal, "run-1"
        )
        self.actor = context.actor("prober")
        self.api = cluster.api("test")
        self.failed: list[tuple[float, str, str]] = []

    def call(self, coroutine) -> Any:
        return self.runner.call(coroutine)

    def at(self) -> float:
        return self.journal.now

    def probing(self, *bodies, **options) -> ProbeRunner:
        probes = [Probe.of({"name": "p", "when": "Edges", **body}) for body in bodies]

        def failed(probe: Probe, message: str) -> None:
            self.failed.append((self.at(), probe.name, message))

        return ProbeRunner(self.actor, probes, SUBJECT, failed, **options)

    def ask(self, **form) -> tuple[bool, str]:
        """Return the verdict and message of one probe of this form."""
        timeout = {"timeout": form.pop("timeout")} if "timeout" in form else {}
        (verdict,) = self.call(self.probing({**form, **timeout}).at_start())
        return verdict.passed, verdict.message

    def notes(self) -> list[tuple[float, str, str, bool, int]]:
        reported = [entry for entry in self.journal if entry.what == "workflow-probe"]
        return [
            (entry.at, *(entry.data[key] for key in ("probe", "when", "passed", "attempt")))
            for entry in reported
        ]

    def make(self, resource, name, **rest) -> Any:
        metadata = {"name": name, "namespace": "default", **rest.pop("metadata", {})}
        obj = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            **rest,
        }
        return self.call(self.api.create(resource, obj))

    def flag(self, value: str) -> None:
        """Set the object that `flag_is` reads."""
        self.call(self.api.patch(CONFIG_MAPS, "flag", {"data": {"is": value}}, "default"))


@pytest.fixture
def probe_setup():
    cluster = EmbeddedCluster(nodes=1)
    probe_setup = ProbeSetup(cluster)
    probe_setup.make(CONFIG_MAPS, "flag", data={"is": "up"})
    yield probe_setup
    cluster.close()
    probe_setup.journal.close()


@pytest.fixture
def flag_is():
    def flag_is(value: str) -> dict[str, Any]:
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "name": "flag"}
        return {"kubernetes": {**config_map, "expression": f"object.data['is'] == '{value}'"}}

    return flag_is
