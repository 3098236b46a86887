"""Scripts of chaos Jobs on real iptables and iperf3, between two hosts made of namespaces."""

from __future__ import annotations

import namespaces
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

pytestmark = pytest.mark.netns

SENT = 2000
POLICY = "-P INPUT ACCEPT\n"
FOREIGN = ["-s 10.9.8.7/32 -j DROP", "-s 10.9.8.6/32 -m comment --comment other -j DROP"]


@pytest.fixture(scope="module", autouse=True)
def rights():
    namespaces.demand_rights()


@pytest.fixture(scope="module")
def hosts(rights):
    with namespaces.two_hosts() as hosts:
        yield hosts


@pytest.fixture(params=["dash", "busybox"])
def shell(request):
    namespaces.demand_tool(request.param)
    return request.param


@pytest.fixture(params=["nft", "legacy"])
def path(request, shell, tmp_path):
    namespaces.demand_backend(request.param)
    return namespaces.programs(tmp_path, shell, request.param)


@pytest.fixture
def host(hosts, path):
    """The host that gets the rules; it starts without any."""
    yield hosts[0]
    hosts[0].run("iptables -w -F INPUT", path)


def rules(host, path):
    return host.run("iptables -w -S INPUT 2>/dev/null", path)


def test_packets_before_during_and_after(host, hosts, path):
    other = hosts[1]
    assert host.receives(other, SENT) == SENT

    assert "iptables rule added\n" in host.run(add_rule("worker-1", other.address, 0.2), path)
    arrived = host.receives(other, SENT)
    assert SENT * 0.7 < arrived < SENT * 0.9
    assert other.receives(host, SENT) == SENT, "the other direction loses nothing"

    log = host.run(remove_rule("worker-1", other.address, 0.2, 0.1), path)
    assert SENT - arrived <= dropped_packets(log) < SENT - arrived + 50, (
        "what says the end may be lost as well"
    )
    assert rules(host, path) == POLICY
    assert host.receives(other, SENT) == SENT


@pytest.mark.parametrize("loss", [0.001, 0.01, 0.05, 1 / 3, 1.0])
def test_all_rules_of_a_job_and_no_others_are_removed(host, path, loss):
    for rule in FOREIGN:
        host.run(f"iptables -w -A INPUT {rule}", path)
    theirs = rules(host, path)
    for job in ("worker-1", "worker-10", "worker-1"):
        host.run(add_rule(job, "10.99.0.2", loss), path)
    log = host.run(remove_rule("worker-1", "10.99.0.2", loss, 0), path)
    assert log.count("dropped 0 packets\n") == 2
    left = rules(host, path)
    assert left.startswith(theirs)
    assert left.count("\n") == theirs.count("\n") + 1
    host.run(remove_rule("worker-10", "10.99.0.2", loss, 0), path)
    assert rules(host, path) == theirs


def test_sweep_without_rules_prints_nothing(host, path):
    assert dropped_packets(host.run(remove_rule("worker-1", "10.99.0.2", 0.01, 0), path)) is None


def test_sweep_finds_all_our_rules_and_no_others(host, path):
    host.run(f"iptables -w -A INPUT {FOREIGN[0]}", path)
    for job in ("worker-1", "worker-10", "worker-1"):
        host.run(add_rule(job, "10.99.0.2", 0.01), path)
    host.run(f"iptables -w -A INPUT {FOREIGN[1]}", path)
    assert swept_rules(host.run(sweep_rules(), path)) == 3
    assert rules(host, path) == POLICY + "".join(f"-A INPUT {rule}\n" for rule in FOREIGN)
    assert swept_rules(host.run(sweep_rules(), path)) == 0


def test_both_sides_load_the_link_and_no_process_remains(hosts, shell, tmp_path):
    namespaces.demand_tool("iperf3")
    path = namespaces.programs(tmp_path, shell, "nft")
    containers = [
        one.container(load_link(other.address, 3), path) for one, other in (hosts, hosts[::-1])
    ]
    for container in containers:
        log, _ = container.communicate(timeout=20)
        assert container.returncode == 0
        assert pushed_bytes(log) > 2**20, log


GO = "-s 10.0.0.1 -m statistic --mode random --probability 0.01 -m comment --comment"


@pytest.mark.parametrize("mark", ["node-1-add-iptables", "node 1 add", "worker_1.add"])
def test_sweep_finds_rules_in_every_comment_format(host, path, mark):
    for comment in (mark, f"{mark}-not", mark, f"not-{mark}"):
        host.run(f'iptables -w -A INPUT {GO} "{comment}" -j DROP', path)
    assert swept_rules(host.run(sweep_rules(mark), path)) == 2
    left = rules(host, path)
    assert left.count("\n") == 3
    assert f"{mark}-not" in left
    assert f"not-{mark}" in left


def test_sweep_fails_if_rules_cannot_be_listed_or_remain(host, path, tmp_path):
    hostile = 'kscen/$(touch "$BAIT")'
    host.run(f"iptables -w -A INPUT {GO} '{hostile}' -j DROP", path)
    bait = tmp_path / "bait"
    for mark in ("kscen/", hostile):
        with pytest.raises(AssertionError, match="there are rules that stay"):
            host.run(f"export BAIT={bait}\n{sweep_rules(mark)}", path)
    assert not bait.exists()
    real = (path / "iptables").rename(path / "real-iptables")
    (path / "iptables").write_text("#!/bin/sh\necho 'iptables: no such table' >&2\nexit 3\n")
    (path / "iptables").chmod(0o755)
    with pytest.raises(AssertionError, match="no such table"):
        host.run(sweep_rules(), path)
    real.rename(path / "iptables")
