import pytest

from pytest_kscen.objects.resources import (
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    NODES,
    PODS,
    SERVICES,
)

PORTS = [{"name": "http", "port": 80, "targetPort": "web"}, {"name": "metrics", "port": 90}]
SERVICE_NAME = "kubernetes.io/service-name"


@pytest.fixture
def offer(world):
    def offer(name="web", **spec):
        body = {"selector": {"app": "web"}, "ports": PORTS, **spec}
        return world.create(SERVICES, name, body, metadata={"labels": {"l": "v"}})

    return offer


@pytest.fixture
def serve(world):
    def serve(name, port=8080, **spec):
        container = {
            "name": "c",
            "image": "app",
            "ports": [{"name": "web", "containerPort": port}] if port else [],
        }
        world.create(
            PODS, name, {"containers": [container], **spec}, metadata={"labels": {"app": "web"}}
        )

    return serve


def slices(world, name="web"):
    """Return the ports and (address, ready, serving, terminating) of each slice."""
    found = world.list(ENDPOINT_SLICES, labels=f"{SERVICE_NAME}={name}")
    return [
        (
            {port["name"]: port["port"] for port in one.get("ports") or ()},
            [
                (row["addresses"][0], *row["conditions"].values())
                for row in one.get("endpoints") or ()
            ],
        )
        for one in found
    ]


def subsets(world, name="web"):
    return [
        (
            [row["ip"] for row in subset.get("addresses", ())],
            [row["ip"] for row in subset.get("notReadyAddresses", ())],
            [port["port"] for port in subset.get("ports", ())],
        )
        for subset in world.get(ENDPOINTS, name).get("subsets", ())
    ]


def test_service_without_pods_has_no_addresses(world, offer):
    offer()
    assert slices(world) == [({}, [])]
    assert subsets(world) == []


def test_pods_are_listed_with_address_and_readiness(world, offer, serve):
    offer()
    serve("a")
    assert slices(world) == [({}, [])]
    world.advance(1)
    assert slices(world) == [({"http": 8080, "metrics": 90}, [("10.1.0.1", True, True, False)])]
    assert subsets(world) == [(["10.1.0.1"], [], [8080, 90])]
    world.unready("a")
    assert slices(world)[0][1] == [("10.1.0.1", False, False, False)]
    assert subsets(world) == [([], ["10.1.0.1"], [8080, 90])]


def test_terminating_pod_serves_but_is_not_ready(world, offer, serve):
    world.pod_runner.takedown = 5.0
    offer()
    serve("a")
    world.advance(1)
    world.delete(PODS, "a")
    assert slices(world)[0][1] == [("10.1.0.1", False, True, True)]
    assert subsets(world) == []
    world.advance(5)
    assert slices(world) == [({}, [])]


def test_finished_pods_are_excluded(world, offer, serve):
    offer()
    serve("a", restartPolicy="Never")
    world.advance(1)
    world.end("a")
    assert slices(world) == [({}, [])]


def test_publish_not_ready_addresses_marks_all_ready(world, offer, serve):
    offer(publishNotReadyAddresses=True)
    serve("a")
    world.advance(1)
    world.unready("a")
    assert slices(world)[0][1] == [("10.1.0.1", True, False, False)]
    assert subsets(world) == [(["10.1.0.1"], [], [8080, 90])]


def test_pods_with_different_ports_have_separate_slices(world, offer, serve):
    offer()
    serve("a")
    serve("b", 8081)
    serve("c", None)
    world.advance(1)
    assert sorted(slices(world), key=str) == [
        ({"http": 8080, "metrics": 90}, [("10.1.0.1", True, True, False)]),
        ({"http": 8081, "metrics": 90}, [("10.1.0.2", True, True, False)]),
        ({"metrics": 90}, [("10.1.0.3", True, True, False)]),
    ]
    assert sorted(subsets(world)) == [
        (["10.1.0.1"], [], [8080]),
        (["10.1.0.1", "10.1.0.2", "10.1.0.3"], [], [90]),
        (["10.1.0.2"], [], [8081]),
    ]


def test_headless_service_has_hostnames_without_ports(world, offer, serve):
    offer(clusterIP="None", ports=None)
    serve("a", hostname="h", subdomain="web")
    world.advance(1)
    [one] = world.list(ENDPOINT_SLICES)
    assert one["ports"] is None
    assert one["endpoints"][0]["hostname"] == "h"
    assert one["metadata"]["labels"] == {
        "l": "v",
        SERVICE_NAME: "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "service.kubernetes.io/headless": "",
    }
    assert one["metadata"]["ownerReferences"][0]["name"] == "web"


def test_endpoints_have_node_and_zone(world, offer, serve):
    world.create(NODES, "n1", {}, metadata={"labels": {"topology.kubernetes.io/zone": "east"}})
    offer()
    serve("a")
    world.advance(1)
    [endpoint] = world.list(ENDPOINT_SLICES)[0]["endpoints"]
    assert (endpoint["nodeName"], endpoint["zone"]) == ("n1", "east")
    target = world.get(PODS, "a")["metadata"]["uid"]
    assert endpoint["targetRef"] == {
        "kind": "Pod",
        "namespace": "default",
        "name": "a",
        "uid": target,
    }


def test_slice_has_at_most_hundred_endpoints(world, offer, template):
    offer(ports=[{"port": 80}])
    world.create(
        DEPLOYMENTS,
        "web",
        {"replicas": 150, "selector": {"matchLabels": {"app": "web"}}, "template": template()},
    )
    world.advance(1)
    assert sorted(len(endpoints) for _, endpoints in slices(world)) == [50, 100]
    world.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 120}})
    world.advance(1)
    assert sum(len(endpoints) for _, endpoints in slices(world)) == 120


def test_service_without_selector_keeps_manual_endpoints(world, offer):
    offer(selector=None)
    world.create(ENDPOINTS, "web", subsets=[{"addresses": [{"ip": "10.0.0.9"}]}])
    world.advance(1)
    assert slices(world) == []
    assert subsets(world) == [(["10.0.0.9"], [], [])]


def test_endpoints_are_deleted_with_service(world, offer):
    offer()
    world.delete(SERVICES, "web")
    world.advance(1)
    assert world.names(ENDPOINTS) == world.names(ENDPOINT_SLICES) == []


def test_deleted_slice_is_recreated(world, offer):
    offer()
    world.delete(ENDPOINT_SLICES, world.names(ENDPOINT_SLICES)[0])
    assert slices(world) == [({}, [])]


def test_pod_heartbeats_cause_no_writes(world, offer, serve):
    offer()
    serve("a")
    world.advance(1)
    before = [one["metadata"]["resourceVersion"] for one in world.list(ENDPOINT_SLICES)]
    world.ask(world.api.patch(PODS, "a", {"metadata": {"annotations": {"x": "y"}}}, "default"))
    world.advance(1)
    assert [one["metadata"]["resourceVersion"] for one in world.list(ENDPOINT_SLICES)] == before


def test_last_change_trigger_time_is_pod_change(world, offer, serve):
    mark = "endpoints.kubernetes.io/last-change-trigger-time"
    offer()
    world.advance(10)
    serve("a")
    world.advance(1)
    marked = [
        world.list(row)[0]["metadata"]["annotations"][mark] for row in (ENDPOINTS, ENDPOINT_SLICES)
    ]
    assert marked == ["2026-01-01T00:00:11Z"] * 2
    world.delete(PODS, "a")
    assert [
        mark in (world.list(row)[0]["metadata"].get("annotations") or {})
        for row in (ENDPOINTS, ENDPOINT_SLICES)
    ] == [False] * 2


def test_unknown_named_port_is_omitted(world, offer, serve):
    offer(ports=[{"port": 80, "targetPort": "web"}])
    serve("a", None)
    world.advance(1)
    assert slices(world) == [({}, [("10.1.0.1", True, True, False)])]
    assert subsets(world) == []
