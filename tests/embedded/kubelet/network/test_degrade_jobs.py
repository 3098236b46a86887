"""Scripts of the network Jobs on simulated kubelets: packet loss rules and load."""

import pytest

from pytest_kscen.chaos.clients import (
    add_rule,
    dropped_packets,
    load_link,
    pushed_bytes,
    remove_rule,
    sweep_rules,
    swept_rules,
)
from pytest_kscen.embedded.kubelet.network import Flow

A, B = "172.18.0.2", "172.18.0.3"
SEEDS_LOOP = """\
set -e
sleep 30
COMMENT="kscen/add"
while iptables -L INPUT --line-numbers | grep -q "$COMMENT"; do
  NUMBER=$(iptables -L INPUT --line-numbers | grep -F "$COMMENT" | head -n1 | awk '{print $1}')
  echo "delete rule number $NUMBER"
  iptables -D INPUT $NUMBER
done
"""


@pytest.fixture
def site(build):
    return build(nodes=3)


@pytest.fixture
def job(site):
    """Run a script as the Jobs do."""

    def run(name, script, *, node="node-1", host=True, image="krpsh/iperf3:0.1.0", **security):
        container = {"image": image, "command": ["/bin/sh", "-c"], "args": [script]}
        container["securityContext"] = security or {"privileged": True}
        site.create(
            name,
            node=node,
            hostNetwork=host,
            restartPolicy="Never",
            terminationGracePeriodSeconds=1,
            container=container,
        )

    return run


def impairment(site, source, target, port=7000, protocol="TCP"):
    return site.network.impairment(Flow(source, target, protocol, port))


def loss(site, source, target, **flow):
    return round(impairment(site, source, target, **flow).loss, 6)


def rules(site, node="node-1"):
    tables = site.hosts.firewalls.of(site.machines[node])
    return [
        entry.rule for chain, _, entries in tables.chains() if chain == "INPUT" for entry in entries
    ]


def ended(site, name):
    return site.container(name, "c")["state"]["terminated"]["exitCode"]


def test_job_adds_rule_and_removes_it(site, job):
    job("add", add_rule("add", B, 0.05))
    job("del", remove_rule("add", B, 0.05, 30))
    site.advance(10)
    assert (site.log("add"), ended(site, "add")) == ("iptables rule added\n", 0)
    assert loss(site, "node-2", "node-1") == 0.05
    assert (loss(site, "node-1", "node-2"), loss(site, "node-3", "node-1")) == (0, 0)
    site.advance(30)
    assert ended(site, "del") == 0
    assert loss(site, "node-2", "node-1") == 0
    assert 200 < dropped_packets(site.log("del")) < 250, "150 packets a second for half a minute"
    assert rules(site) == []


def test_rule_is_deleted_by_number(site, job):
    for _ in range(2):
        job(f"add-{_}", add_rule("add", B, 0.05))
    job("other", "iptables -A INPUT -s 10.9.8.7 -j DROP")
    job("del", SEEDS_LOOP)
    site.advance(20)
    assert loss(site, "node-2", "node-1") == 0.0975
    site.advance(30)
    assert (site.log("del"), ended(site, "del")) == ("delete rule number 1\n" * 2, 0)
    assert len(rules(site)) == 1


def test_sweep_removes_rule_of_deleted_job(site, job):
    job("add", add_rule("add", B, 0.05))
    job("del", remove_rule("add", B, 0.05, 30))
    site.advance(10)
    site.delete("del")
    site.advance(60)
    assert loss(site, "node-2", "node-1") == 0.05
    job("foreign", "iptables -A INPUT -s 10.9.8.7 -j DROP -m comment --comment other")
    job("sweep", sweep_rules())
    site.advance(10)
    assert (swept_rules(site.log("sweep")), ended(site, "sweep")) == (1, 0)
    assert [rule.comment for rule in rules(site)] == ["other"]
    assert loss(site, "node-2", "node-1") == 0


def test_reboot_removes_rule(site, job):
    job("add", add_rule("add", B, 0.05))
    job("del", remove_rule("add", B, 0.05, 60))
    site.advance(10)
    site.power_off()
    assert impairment(site, "node-2", "node-1").blocked
    site.advance(20)
    site.power_on()
    site.advance(5)
    assert loss(site, "node-2", "node-1") == 0
    assert rules(site) == []


def test_filtered_packets_are_not_counted(site, job):
    job("add", add_rule("add", B, 0.5))
    site.advance(10)
    site.power_off("node-2")
    site.advance(100)
    job("del", remove_rule("add", B, 0.5, 0))
    site.advance(10)
    assert 300 < dropped_packets(site.log("del")) < 800


def test_unprivileged_job_fails(site, job):
    job("add", add_rule("add", B, 0.05), runAsUser=0)
    site.advance(10)
    assert ended(site, "add") == 4
    assert site.log("add").endswith("Permission denied (you must be root)\n")
    assert rules(site) == []


def test_job_without_host_network_changes_pod_network(site, job):
    job("add", add_rule("add", B, 0.05) + "iptables -S INPUT | wc -l", host=False)
    job("capable", add_rule("capable", B, 0.01), capabilities={"add": ["NET_ADMIN"]})
    site.advance(10)
    assert site.log("add") == "iptables rule added\n2\n"
    assert [rule.comment for rule in rules(site)] == ["kscen/capable"]


def test_load_job_loads_link_in_both_directions(site, job):
    job("one", load_link(B, 30))
    job("other", load_link(A, 30), node="node-2")
    site.advance(15)
    for source, target in ("node-1", "node-2"), ("node-2", "node-1"):
        assert impairment(site, source, target).load == 0.9
        assert impairment(site, source, target).delay == pytest.approx(0.018)
    assert (
        impairment(site, "node-1", "node-3").load,
        impairment(site, "node-3", "node-2").load,
    ) == (
        0.9,
        0.9,
    )
    site.advance(30)
    assert (ended(site, "one"), ended(site, "other")) == (0, 0)
    assert impairment(site, "node-1", "node-2").load == 0
    assert pushed_bytes(site.log("one")) > 20 * 2**30
    assert "Connection refused" not in site.log("other")
    assert site.log("one").splitlines()[:5] == [
        "iperf3: error - unable to connect to server: Connection refused",
        f"Connecting to host {B}, port 5201",
        f"[  5] local {A} port 40000 connected to {B} port 5201",
        "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd",
        "[  5]   0.00-1.00   sec  1.05 GBytes  9.00 Gbits/sec    0   1.12 MBytes       ",
    ]


def test_load_job_continues_without_server(site, job):
    job("one", load_link(B, 20))
    site.advance(60)
    assert ended(site, "one") == 0
    assert site.log("one").count("Connection refused") > 30
    assert pushed_bytes(site.log("one")) is None


def test_client_fails_when_server_container_ends(site, job):
    job("server", "iperf3 -s -D; sleep 10", node="node-2")
    job("client", f"sleep 5; iperf3 -c {B} -t 60 -i 1")
    site.advance(30)
    assert site.log("client").endswith("iperf3: error - control socket has closed unexpectedly\n")
    assert ended(site, "client") == 1
    assert impairment(site, "node-1", "node-2").load == 0


def test_packet_loss_reduces_load(site, job):
    job("server", "iperf3 -s", node="node-2")
    job(
        "drop",
        f"iptables -A INPUT -s {A} -m statistic --mode random --probability 0.01 -j DROP",
        node="node-2",
    )
    site.advance(5)
    job("client", f"iperf3 -c {B} -t 10 -i 0")
    site.advance(30)
    assert "   338 MBytes   284 Mbits/sec 2449" in site.log("client")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("-c 172.18.0.99", "iperf3: error - unable to connect to server: No route to host\n"),
        ("-c 172.18.0.3", "iperf3: error - unable to connect to server: Connection timed out\n"),
        (
            "-s -c 172.18.0.3",
            "sh: iperf3: parameter error - must either be a client (-c) or server (-s)\n",
        ),
        (
            "-c 172.18.0.3 -u",
            "sh: iperf3: -u is not supported (supported: -s, -D, -c, -t, -i, -p)\n",
        ),
    ],
)
def test_client_messages(site, job, words, why):
    site.power_off("node-2")
    job("client", f"iperf3 {words}")
    site.advance(200)
    assert site.log("client") == why
