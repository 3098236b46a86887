import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kscen.embedded.node_matching import (
    first_untolerated_taint,
    parse_canonical_int64,
    tolerates,
)
from pytest_kscen.embedded.node_matching import parse_int64 as number
from pytest_kscen.embedded.pod_resources import HostPort, NodeUsage, demand_of

GI = 1024**3


def pod(*containers, inits=(), **spec):
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": list(containers), "initContainers": list(inits), **spec},
    }


def asks(cpu, memory=None, **more):
    requests = {"cpu": cpu, **({"memory": memory} if memory else {})}
    return {"name": "c", "resources": {"requests": requests}, **more}


class TestNumbers:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("10", 10),
            ("-3", -3),
            ("+3", 3),
            ("007", 7),
            ("-0", 0),
            ("0" * 9999 + "1", 1),
            (str(2**63 - 1), 2**63 - 1),
            (str(-(2**63)), -(2**63)),
        ],
    )
    def test_valid_numbers(self, text, value):
        assert number(text) == value

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "-",
            "1_0",
            " 1",
            "1\n",
            "1.0",
            "0x1",
            "\u0661",
            str(2**63),
            str(2**70),
            str(-(2**63) - 1),
            "9" * 9999,
        ],
    )
    def test_invalid_numbers(self, text):
        assert number(text) is None

    @pytest.mark.parametrize(
        ("text", "value"),
        [("0", 0), ("-3", -3), ("10", 10), ("+3", None), ("007", None), ("-0", None)],
    )
    def test_toleration_numbers_have_one_form(self, text, value):
        assert parse_canonical_int64(text) == value
        toleration = {"key": "k", "operator": "Lt", "value": "11"}
        assert tolerates(toleration, {"key": "k", "value": text, "effect": "NoSchedule"}) == (
            value is not None
        )


class TestDemand:
    def test_containers_add_up(self):
        assert demand_of(pod(asks("500m", "1Gi"), asks("1", "2Gi"))).requests == {
            "cpu": 1500,
            "memory": 3 * GI,
        }

    def test_init_containers_use_maximum(self):
        assert demand_of(pod(asks("1"), inits=[asks("3"), asks("2")])).requests == {"cpu": 3000}

    def test_sidecar_adds_to_later_containers(self):
        sidecar = asks("1", restartPolicy="Always")
        assert demand_of(pod(asks("1"), inits=[sidecar])).requests == {"cpu": 2000}
        assert demand_of(pod(asks("1"), inits=[sidecar, asks("4")])).requests == {"cpu": 5000}
        assert demand_of(pod(asks("1"), inits=[asks("4"), sidecar])).requests == {"cpu": 4000}

    def test_overhead_and_pod_level_requests(self):
        assert demand_of(pod(asks("1"), overhead={"cpu": "250m"})).requests == {"cpu": 1250}
        assert demand_of(pod(asks("1"), resources={"requests": {"cpu": "3"}})).requests == {
            "cpu": 3000
        }

    def test_missing_requests_have_score_defaults(self):
        demand = demand_of(pod({"name": "c"}))
        assert (demand.requests, demand.scored) == ({}, {"cpu": 100, "memory": 200 * 1024 * 1024})

    def test_ports_of_containers_and_of_sidecars(self):
        listening = {"name": "c", "ports": [{"hostPort": 80}, {"containerPort": 1}]}
        sidecar, init = (
            {**listening, "restartPolicy": "Always"},
            {"name": "i", "ports": [{"hostPort": 82}]},
        )
        ports = demand_of(
            pod({"name": "c", "ports": [{"hostPort": 81}]}, inits=[sidecar, init])
        ).ports
        assert [port.port for port in ports] == [80, 81]

    def test_equal_demands_are_shared(self):
        assert demand_of(pod(asks("1"))) is demand_of(pod(asks("1000m")))

    @pytest.mark.parametrize(
        ("one", "other", "clash"),
        [
            (HostPort("TCP", 80, "0.0.0.0"), HostPort("TCP", 80, "10.0.0.1"), True),
            (HostPort("TCP", 80, "10.0.0.1"), HostPort("TCP", 80, "10.0.0.2"), False),
            (HostPort("TCP", 80, "0.0.0.0"), HostPort("UDP", 80, "0.0.0.0"), False),
            (HostPort("TCP", 80, "0.0.0.0"), HostPort("TCP", 81, "0.0.0.0"), False),
        ],
    )
    def test_host_ports_conflict(self, one, other, clash):
        assert one.clashes(other) is clash
        assert other.clashes(one) is clash


quantities = st.fixed_dictionaries(
    {}, optional={"cpu": st.sampled_from(["100m", "1", "2.5"]), "memory": st.just("1Gi")}
)
ports = st.lists(st.integers(1, 3), max_size=2, unique=True)
demands = st.builds(
    lambda requests, numbers: demand_of(
        pod(
            {
                "name": "c",
                "resources": {"requests": requests},
                "ports": [{"hostPort": number} for number in numbers],
            }
        )
    ),
    quantities,
    ports,
)


class TestLoad:
    @given(st.lists(demands, max_size=8), st.randoms(use_true_random=False))
    def test_removed_pods_leave_no_load(self, wanted, random):
        load = NodeUsage()
        for demand in wanted:
            load.add(demand)
        assert load.pods == len(wanted)
        assert load.used.get("cpu", 0) == sum(demand.requests.get("cpu", 0) for demand in wanted)
        random.shuffle(wanted)
        for demand in wanted:
            load.remove(demand)
        assert (load.pods, load.ports) == (0, {})
        assert not any(load.used.values())
        assert not any(load.scored.values())

    @given(st.lists(demands, max_size=20))
    def test_admitted_pods_never_exceed_capacity(self, wanted):
        load, room = NodeUsage(), {"cpu": 4000, "memory": 4 * GI, "pods": 6}
        for demand in wanted:
            if not list(load.shortages(demand, room)) and not load.ports_clash(demand):
                load.add(demand)
        assert load.pods <= 6
        assert load.used.get("cpu", 0) <= 4000
        assert load.used.get("memory", 0) <= 4 * GI
        assert all(count == 1 for count in load.ports.values())


class TestTaints:
    @pytest.mark.parametrize(
        ("toleration", "held"),
        [
            ({"key": "k", "operator": "Exists"}, True),
            ({"operator": "Exists"}, True),
            ({"key": "k", "value": "v"}, True),
            ({"key": "k", "value": "w"}, False),
            ({"key": "k", "value": "v", "effect": "NoExecute"}, False),
            ({"key": "other", "operator": "Exists"}, False),
        ],
    )
    def test_one_toleration(self, toleration, held):
        assert tolerates(toleration, {"key": "k", "value": "v", "effect": "NoSchedule"}) is held

    def test_only_hard_taints_count(self):
        taints = [{"key": "a", "effect": "PreferNoSchedule"}, {"key": "b", "effect": "NoExecute"}]
        assert first_untolerated_taint(taints, []) == taints[1]
        assert first_untolerated_taint(taints, [{"key": "b", "operator": "Exists"}]) is None
        assert first_untolerated_taint(taints, [], ("NoSchedule",)) is None
