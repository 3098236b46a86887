from pytest_kscen.embedded.apiserver.rules.service_addresses import (
    FIRST_NODE_PORT,
    LAST_NODE_PORT,
    SERVICE_CIDR,
)
from pytest_kscen.objects.resources import SERVICES

PORTS = [{"port": 80}]


def service(**spec):
    return {"metadata": {"name": "s"}, "spec": {"clusterIP": "10.0.0.220", **spec}}


def test_cluster_ips_are_unique(judge):
    made = [
        judge.made(SERVICES, {"metadata": {"name": f"s{n}"}, "spec": {"ports": PORTS}})
        for n in range(254)
    ]
    given = {one["spec"]["clusterIP"] for one in made}
    assert given == {str(host) for host in SERVICE_CIDR.hosts()}
    low = {f"10.0.0.{n}" for n in range(1, 17)}
    assert {one["spec"]["clusterIP"] for one in made[-16:]} == low


def test_allocated_address_is_refused(judge):
    judge.made(SERVICES, service(ports=PORTS))
    wrong = judge.create(
        SERVICES, {"metadata": {"name": "t"}, "spec": {"ports": PORTS, "clusterIP": "10.0.0.220"}}
    )
    assert wrong == [
        (
            'spec.clusterIPs: Invalid value: ["10.0.0.220"]: failed to allocate IP '
            "10.0.0.220: provided IP is already allocated"
        )
    ]


def test_released_address_is_reused(judge):
    judge.made(SERVICES, service(ports=PORTS))
    judge.site.delete(SERVICES, "s", namespace=judge.namespace)
    assert judge.made(SERVICES, service(ports=PORTS))["spec"]["clusterIP"] == "10.0.0.220"


def test_node_ports(judge):
    made = judge.made(
        SERVICES,
        service(type="NodePort", ports=[{"name": "a", "port": 80}, {"name": "b", "port": 81}]),
    )
    first, second = (port["nodePort"] for port in made["spec"]["ports"])
    assert FIRST_NODE_PORT <= first <= LAST_NODE_PORT
    assert FIRST_NODE_PORT <= second <= LAST_NODE_PORT
    assert first != second
    taken = {
        "metadata": {"name": "t"},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": first}]},
    }
    assert judge.create(SERVICES, taken) == [
        f"spec.ports[0].nodePort: Invalid value: {first}: provided port is already allocated"
    ]
    low = {
        "metadata": {"name": "t"},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]},
    }
    assert judge.create(SERVICES, low) == [
        (
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. "
            "The range of valid ports is 30000-32767"
        )
    ]


def test_protocols_share_node_port(judge):
    given = [{"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}]
    made = judge.made(SERVICES, service(type="NodePort", ports=given))
    first, second = (port["nodePort"] for port in made["spec"]["ports"])
    assert first == second
