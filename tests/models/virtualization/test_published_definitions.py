"""What we make is taken by the definitions that real parent clusters have."""

from __future__ import annotations

import contextlib
import functools

import pytest
from published import published

from pytest_kscen.chaos.network_blocks import deny_policy
from pytest_kscen.chaos.vm_operations import operation
from pytest_kscen.clusters import simulated_parent as parents
from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.models.virtualization.assembly import install_definitions
from pytest_kscen.models.virtualization.objects import DEFINITIONS, virtual_machine
from pytest_kscen.objects.resources import CILIUM_NETWORK_POLICIES
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINE_OPERATIONS, VIRTUAL_MACHINES

LABELS = {"kscen.io/run": "r"}
RESOURCES = {
    one.kind: one for one in (VIRTUAL_MACHINES, VIRTUAL_MACHINE_OPERATIONS, CILIUM_NETWORK_POLICIES)
}
OBJECTS = [
    virtual_machine("node-1", "default"),
    operation("restart", "default", "Restart", "node-1", LABELS),
    operation("stop", "default", "Stop", "node-1", LABELS),
    operation("start", "default", "Start", "node-1", LABELS),
    deny_policy("everything", "default", ["node-1"], ["node-2"], labels=LABELS),
    deny_policy(
        "two-ports",
        "default",
        ["node-1"],
        ["node-2", "node-3"],
        ports=([7000, 7001], [7000, 7001]),
        labels=LABELS,
    ),
    deny_policy(
        "one-link", "default", ["node-1"], ["node-2"], ports=([7000], [7001]), labels=LABELS
    ),
]


def real():
    return published("virtualization", "cilium")


def make_all(cluster, definitions):
    """Create objects of every kind; return them as the server stores them."""
    api, call = cluster.api("test"), cluster.runner.call
    call(install_definitions(api, cluster.runner.clock, definitions))
    return [call(api.create(RESOURCES[obj["kind"]], obj, "default")) for obj in OBJECTS]


def without_origin(obj):
    return {
        **obj,
        "metadata": {
            key: obj["metadata"][key] for key in ("name", "labels") if key in obj["metadata"]
        },
    }


def test_embedded_server_accepts_them_and_keeps_every_field():
    with contextlib.closing(EmbeddedCluster("published", nodes=0)) as cluster:
        made = make_all(cluster, real())
    for kept, obj in zip(made, OBJECTS, strict=True):
        assert {**kept["spec"], **obj["spec"]} == kept["spec"]


@pytest.mark.controlplane
def test_real_server_accepts_them_and_keeps_the_same_fields():
    with contextlib.closing(ControlPlaneCluster("published", nodes=0)) as cluster:
        theirs = make_all(cluster, real())
    with contextlib.closing(EmbeddedCluster("published", nodes=0)) as cluster:
        ours = make_all(cluster, real())
    assert [without_origin(obj) for obj in ours] == [without_origin(obj) for obj in theirs]


@pytest.mark.controlplane
def test_real_server_accepts_our_definitions_and_valid_objects():
    with contextlib.closing(ControlPlaneCluster("published", nodes=0)) as cluster:
        theirs = make_all(cluster, DEFINITIONS)
    with contextlib.closing(EmbeddedCluster("published", nodes=0)) as cluster:
        ours = make_all(cluster, DEFINITIONS)
    assert [without_origin(obj) for obj in ours] == [without_origin(obj) for obj in theirs]


def test_parent_works_with_them_as_with_our_definitions(monkeypatch):
    monkeypatch.setattr(
        parents, "install_definitions", functools.partial(install_definitions, definitions=real())
    )
    with contextlib.closing(EmbeddedCluster("published", nodes=1)) as cluster:
        parent = cluster.parent()
        api, call = parent.api_for("test"), cluster.runner.call
        call(
            api.create(
                VIRTUAL_MACHINE_OPERATIONS, operation("op", "vms", "Restart", "node-1", LABELS)
            )
        )
        cluster.advance("2m")
        assert (
            call(api.get(VIRTUAL_MACHINE_OPERATIONS, "op", "vms"))["status"]["phase"] == "Completed"
        )
        status = call(api.get(VIRTUAL_MACHINES, "node-1", "vms"))["status"]
        assert status["phase"] == "Running"
        assert status["guestOSInfo"]["hostname"] == "node-1"
        assert [one["active"] for one in status["virtualMachinePods"]] == [True]


def fields(schema, path=""):
    """Return every field of a schema by path, with its type."""
    for name, inner in (schema.get("properties") or {}).items():
        yield f"{path}.{name}", inner.get("type", "int-or-string")
        yield from fields(inner, f"{path}.{name}")
        yield from fields(inner.get("items") or {}, f"{path}.{name}[]")


@pytest.mark.parametrize("ours", DEFINITIONS, ids=lambda one: one["spec"]["names"]["kind"])
def test_our_definitions_have_only_published_fields(ours):
    (theirs,) = [one for one in real() if one["metadata"]["name"] == ours["metadata"]["name"]]

    def reported(definition):
        (version,) = definition["spec"]["versions"]
        return (
            dict(fields(version["schema"]["openAPIV3Schema"])),
            version["name"],
            definition["spec"]["scope"],
        )

    (mine, *rest), (their, *their_rest) = reported(ours), reported(theirs)
    assert rest == their_rest
    assert {path: type_ for path, type_ in mine.items() if their.get(path) != type_} == {}
    assert ours["spec"]["names"] == {"categories": [], **theirs["spec"]["names"]}
