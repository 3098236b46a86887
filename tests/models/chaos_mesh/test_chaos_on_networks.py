import pytest

from pytest_kscen.embedded.kubelet.network import NO_IMPAIRMENT, Flow, Impairment, Network
from pytest_kscen.models.chaos_mesh.network_chaos import ExternalNames
from pytest_kscen.objects.resources import SERVICES

TARGET = {"mode": "all", "selector": {"labelSelectors": {"app": "b"}}}


@pytest.fixture
def pair(mesh_cluster):
    mesh_cluster.pod("a", node="node-1")
    mesh_cluster.pod("b", node="node-2")
    mesh_cluster.cluster.advance(10)
    return mesh_cluster


ACTIONS = {
    "delay": (
        {"delay": {"latency": "90ms", "jitter": "10ms"}},
        Impairment(delay=0.09, jitter=0.01),
    ),
    "loss": ({"loss": {"loss": "25", "correlation": "10"}}, Impairment(loss=0.25)),
    "duplicate": ({"duplicate": {"duplicate": "40"}}, Impairment(duplicate=0.4)),
    "corrupt": ({"corrupt": {"corrupt": "5"}}, Impairment(corrupt=0.05)),
    "bandwidth": (
        {"bandwidth": {"rate": "10mbps", "limit": 100, "buffer": 100}},
        Impairment(rate=80e6),
    ),
    "netem": (
        {"delay": {"latency": "1s"}, "loss": {"loss": "50"}, "rate": {"rate": "1kbit"}},
        Impairment(loss=0.5, delay=1, rate=1e3),
    ),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_actions_affect_packets_as_specified(pair, action):
    spec, wanted = ACTIONS[action]
    pair.chaos("NetworkChaos", app="a", action=action, target=TARGET, **spec)
    pair.cluster.advance(0)
    assert pair.conditions("NetworkChaos") == "SI"
    assert pair.impairment("a", "b") == wanted
    assert pair.impairment("b", "a") == NO_IMPAIRMENT
    pair.delete("NetworkChaos")
    pair.cluster.advance(0)
    assert pair.impairment("a", "b") == NO_IMPAIRMENT


@pytest.mark.parametrize(
    ("direction", "cut"),
    [("to", (True, False)), ("from", (False, True)), ("both", (True, True))],
    ids=["to", "from", "both"],
)
def test_directions(pair, direction, cut):
    pair.chaos("NetworkChaos", app="a", action="partition", direction=direction, target=TARGET)
    pair.cluster.advance(0)
    assert pair.conditions("NetworkChaos") == "SI"
    assert (pair.cut("a", "b"), pair.cut("b", "a")) == cut


def test_host_network_pods_are_matched_by_their_machine(mesh_cluster):
    mesh_cluster.pod("a", node="node-1", hostNetwork=True)
    mesh_cluster.pod("b", node="node-2", hostNetwork=True)
    mesh_cluster.pod("other", node="node-1")
    mesh_cluster.cluster.advance(10)
    mesh_cluster.chaos("NetworkChaos", app="a", action="partition", target=TARGET)
    mesh_cluster.cluster.advance(0)
    assert mesh_cluster.conditions("NetworkChaos") == "SI"
    assert mesh_cluster.cluster.site.network.impairment(Flow("node-1", "node-2", port=7000)).blocked
    assert not mesh_cluster.cluster.site.network.impairment(
        Flow("node-2", "node-1", port=7000)
    ).blocked
    assert not mesh_cluster.cut("other", "b")


def test_missing_target_means_all_packets(pair):
    pair.chaos("NetworkChaos", app="a", action="partition")
    pair.cluster.advance(0)
    assert pair.conditions("NetworkChaos") == "SI"
    assert (pair.cut("a", "b"), pair.cut("b", "a")) == (True, False)


SERVICE = {
    "metadata": {"name": "db"},
    "spec": {"clusterIP": "10.0.0.77", "ports": [{"port": 5432}]},
}


@pytest.mark.parametrize(
    "given", ["1.2.3.4", "1.2.3.0/24", "1.2.3.4:80", "db.default.svc.cluster.local"]
)
def test_external_targets(pair, given):
    pair.call(pair.api.create(SERVICES, SERVICE, "default"))
    pair.chaos("NetworkChaos", app="a", action="loss", loss={"loss": "10"}, externalTargets=[given])
    pair.cluster.advance(0)
    assert pair.conditions("NetworkChaos") == "SI"
    assert pair.impairment("a", "b") == NO_IMPAIRMENT
    source = pair.pods()["a"]["status"]["podIP"]

    def loss(address, port):
        return pair.cluster.site.network.impairment(
            Flow("node-1", "", "TCP", port, source, address)
        ).loss

    met = "10.0.0.77" if given.startswith("db") else "1.2.3.4"
    assert (loss(met, 80), loss("1.2.4.4", 80)) == (0.1, 0)
    assert loss(met, 443) == (0 if ":" in given else 0.1)


def test_external_names_have_their_own_addresses(pair):
    pair.chaos(
        "NetworkChaos",
        app="a",
        action="partition",
        externalTargets=["www.example.com", "1.1.1.1", "10.0.0.0/8"],
    )
    pair.chaos(
        "NetworkChaos",
        "other",
        app="b",
        action="partition",
        direction="both",
        externalTargets=["Example.org.:443"],
    )
    pair.cluster.advance(0)
    assert (pair.conditions("NetworkChaos"), pair.conditions("NetworkChaos", "other")) == (
        "SI",
        "SI",
    )

    def cut(pod, name, port=80):
        flow = Flow("node-1", "", "TCP", port, pair.pods()[pod]["status"]["podIP"], name)
        return pair.cluster.site.network.impairment(flow).blocked

    names = ExternalNames(pair.api)
    www, org = (
        str(pair.call(names.resolve(name)).network.network_address)
        for name in ("www.example.com", "example.org")
    )
    assert www == "2001:db8:80fc:fb9:266d:b7b8:3f85:850f"
    assert [cut("a", each) for each in (www, org, "1.1.1.1", "1.1.1.2")] == [
        True,
        False,
        True,
        False,
    ]
    assert [cut("b", org, port) for port in (443, 80)] == [True, False]


@pytest.mark.parametrize(
    "name",
    [
        "db",
        "db.default",
        "db.default.svc",
        "db.x.svc.cluster.local",
        "registry.invalid",
        "www..com",
    ],
)
def test_unknown_name_is_refused(pair, name):
    with pytest.raises(ValueError, match=f"lookup {name}: no such host"):
        pair.call(ExternalNames(pair.api).resolve(name))


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (
            {"action": "partition", "externalTargets": ["nobody.invalid"]},
            "lookup nobody.invalid: no such host",
        ),
        ({"action": "partition", "device": "eth7"}, 'Cannot find device "eth7"'),
        ({"action": "delay"}, "spec.delay is needed for action delay"),
        (
            {"action": "loss", "loss": {"loss": "101"}},
            "'101' is not a percentage: write a number from 0 to 100",
        ),
        ({"action": "netem"}, "action netem does nothing to the packets"),
        (
            {"action": "bandwidth", "bandwidth": {"rate": "fast", "limit": 1, "buffer": 1}},
            "'fast' is not a rate: write 10mbit, or in bytes 1mbps",
        ),
    ],
    ids=["host", "device", "delay", "loss", "netem", "rate"],
)
def test_impossible_action_is_not_reported_as_injected(pair, spec, why):
    pair.chaos("NetworkChaos", app="a", **spec)
    pair.cluster.advance(1)
    assert pair.conditions("NetworkChaos") == "S"
    assert ("Failed", f"Failed to apply chaos: {why}") in pair.events()
    pair.delete("NetworkChaos")
    pair.cluster.advance(1)
    assert pair.see("NetworkChaos") is None


def test_chaos_is_injected_when_both_ends_exist(mesh_cluster):
    mesh_cluster.pod("a")
    mesh_cluster.cluster.advance(10)
    mesh_cluster.pod("b", node="node-2")
    mesh_cluster.chaos("NetworkChaos", app="a", action="partition", target=TARGET)
    mesh_cluster.cluster.advance(0)
    assert mesh_cluster.phases("NetworkChaos") == {
        "default/a": "Not Injected/Wait",
        "default/b": "Not Injected/Wait",
    }
    mesh_cluster.cluster.advance(10)
    assert mesh_cluster.conditions("NetworkChaos") == "SI"
    assert mesh_cluster.cut("a", "b")


def test_chaos_is_injected_when_packets_are_affected(pair, monkeypatch):
    with monkeypatch.context() as as_before:
        as_before.setattr(
            Network, "impairment", lambda _network, _flow, **_: NO_IMPAIRMENT
        )  # somebody has flushed the rules
        pair.chaos("NetworkChaos", app="a", action="partition", target=TARGET)
        pair.cluster.advance(1)
        assert pair.conditions("NetworkChaos") == "S"
        assert ("Failed", "Failed to apply chaos: packets still pass as before") in pair.events()
    pair.patch("NetworkChaos", {"metadata": {"annotations": {"look": "again"}}})
    pair.cluster.advance(1)
    assert pair.conditions("NetworkChaos") == "SI"


def test_pod_at_both_ends_is_cut_off_from_nothing(pair):
    itself = {"mode": "all", "selector": {"labelSelectors": {"app": "a"}}}
    pair.chaos("NetworkChaos", app="a", action="partition", direction="both", target=itself)
    pair.cluster.advance(1)
    assert pair.conditions("NetworkChaos") == "S"
    assert ("Failed", "Failed to apply chaos: no running pod is at the other end") in pair.events()


def test_pods_at_both_ends_are_cut_off_from_each_other(pair):
    pair.pod("a2", app="a")
    pair.cluster.advance(10)
    everybody = {"mode": "all", "selector": {"namespaces": ["default"]}}
    pair.chaos("NetworkChaos", app="b", action="partition", direction="both", target=everybody)
    pair.cluster.advance(1)
    assert pair.conditions("NetworkChaos") == "SI"
    assert (pair.cut("b", "a"), pair.cut("a2", "b"), pair.cut("a", "a2")) == (True, True, False)


def test_two_concurrent_objects_add_up(pair):
    for name in ("one", "two"):
        pair.chaos(
            "NetworkChaos", name, app="a", action="delay", delay={"latency": "50ms"}, target=TARGET
        )
    pair.cluster.advance(0)
    assert pair.impairment("a", "b").delay == pytest.approx(0.1)
    pair.delete("NetworkChaos", "one")
    pair.cluster.advance(0)
    assert pair.impairment("a", "b").delay == 0.05


def test_chaos_follows_a_pod_whose_machine_was_off(pair):
    pair.chaos("NetworkChaos", app="a", action="partition", target=TARGET)
    pair.cluster.advance(1)
    before = pair.pods()["a"]["status"]["podIP"]
    machines = pair.cluster.site.machines
    machines.power_off("node-1")
    pair.cluster.advance(10)
    machines.power_on("node-1")
    pair.cluster.advance(30)
    assert pair.pods()["a"]["status"]["podIP"] != before
    assert pair.cut("a", "b")
    assert not pair.cut("b", "a")


SERVER = [{"name": "c", "image": "iperf3", "args": ["iperf3", "-s"]}]


@pytest.mark.parametrize(
    ("spec", "reported"),
    [
        (
            {"action": "bandwidth", "bandwidth": {"rate": "8mbit", "limit": 100, "buffer": 100}},
            "8.00 Mbits/sec",
        ),
        ({"action": "delay", "delay": {"latency": "48ms"}}, "990 Mbits/sec"),
        ({"action": "partition"}, "Connection timed out"),
    ],
    ids=["bandwidth", "delay", "partition"],
)
def test_program_in_a_pod_is_affected(mesh_cluster, spec, reported):
    mesh_cluster.pod("b", node="node-2", containers=SERVER)
    mesh_cluster.cluster.advance(10)
    call = f"sleep 10; iperf3 -c {mesh_cluster.pods()['b']['status']['podIP']} -t 1"
    for name in ("a", "free"):
        command = [{"name": "c", "image": "iperf3", "command": ["sh", "-c", call]}]
        mesh_cluster.pod(name, containers=command, restartPolicy="Never")
    mesh_cluster.chaos("NetworkChaos", app="a", target=TARGET, **spec)
    mesh_cluster.cluster.advance(200)
    logs = {
        name: mesh_cluster.call(mesh_cluster.api.log(name, "default", container="c"))
        for name in ("a", "free")
    }
    assert reported in logs["a"]
    assert reported not in logs["free"]


def test_deleted_target_removes_its_rules(mesh_cluster):
    mesh_cluster.pod("a")
    mesh_cluster.cluster.advance(10)
    mesh_cluster.pod("b", node="node-2", containers=[{"name": "c", "image": "somewhere.invalid/c"}])
    mesh_cluster.chaos("NetworkChaos", app="a", action="partition", target=TARGET)
    mesh_cluster.cluster.advance(5)
    assert mesh_cluster.phases("NetworkChaos")["default/a"] == "Not Injected/Wait"
    source = mesh_cluster.pods()["a"]["status"]["podIP"]
    mesh_cluster.remove("a")
    mesh_cluster.cluster.advance(10)
    assert mesh_cluster.conditions("NetworkChaos") == "S"
    assert mesh_cluster.phases("NetworkChaos") == {
        "default/a": "Not Injected",
        "default/b": "Not Injected/Wait",
    }
    assert (
        mesh_cluster.cluster.site.network.impairment(Flow("node-1", "", source_address=source))
        == NO_IMPAIRMENT
    )
