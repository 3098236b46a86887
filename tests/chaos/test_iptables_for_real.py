"""Comparison of the simulated iptables with the real one: same commands, tables and refusals."""

from __future__ import annotations

import re

import namespaces
import pytest

from pytest_kscen.embedded.kubelet.network.firewall import FilterTable
from pytest_kscen.embedded.kubelet.network.iptables import run_iptables

pytestmark = pytest.mark.netns

CALLS = [
    ["-A", "INPUT", "-s", "10.0.0.1", "-j", "DROP"],
    [
        "-A",
        "INPUT",
        "-s",
        "10.0.0.1",
        "-m",
        "statistic",
        "--mode",
        "random",
        "--probability",
        "0.001",
        "-j",
        "DROP",
    ],
    [
        "-A",
        "INPUT",
        "-m",
        "statistic",
        "--mode",
        "nth",
        "--every",
        "3",
        "--packet",
        "0",
        "-j",
        "DROP",
    ],
    [
        "-A",
        "INPUT",
        "-p",
        "tcp",
        "--dport",
        "7000:7999",
        "-m",
        "comment",
        "--comment",
        "kscen/a b",
        "-j",
        "DROP",
    ],
    [
        "-A",
        "INPUT",
        "-p",
        "udp",
        "-m",
        "udp",
        "--sport",
        "53",
        "-m",
        "comment",
        "--comment",
        "plain",
        "-j",
        "ACCEPT",
    ],
    ["-I", "INPUT", "2", "!", "-i", "lo", "-d", "10.0.0.0/8", "-j", "REJECT"],
    ["-I", "OUTPUT", "-o", "eth0", "-p", "icmp", "-j", "DROP"],
    ["-A", "INPUT", "-p", "tcp", "-m", "multiport", "--dports", "1,2:3", "-j", "DROP"],
    ["-C", "INPUT", "-s", "10.0.0.1", "-j", "DROP"],
    ["-C", "INPUT", "-s", "10.0.0.2", "-j", "DROP"],
    ["-D", "INPUT", "-s", "10.0.0.2", "-j", "DROP"],
    ["-D", "INPUT", "17"],
    ["-I", "INPUT", "17", "-j", "DROP"],
    ["-A", "OTHER", "-j", "DROP"],
    ["-A", "INPUT", "--foo"],
    ["-A", "INPUT", "--dport", "80", "-j", "DROP"],
    ["-A", "INPUT", "-m", "statistic", "--mode", "random", "--probability", "5", "-j", "DROP"],
    ["-D", "INPUT", "1"],
    [
        "-D",
        "INPUT",
        "-s",
        "10.0.0.1",
        "-m",
        "statistic",
        "--mode",
        "random",
        "--probability",
        "0.001",
        "-j",
        "DROP",
    ],
    ["-P", "FORWARD", "DROP"],
    ["-P", "INPUT", "LOSE"],
]
LISTINGS = (
    ["-S"],
    ["-S", "INPUT"],
    ["-L", "-n"],
    ["-nL", "INPUT", "--line-numbers"],
    ["-nvxL", "INPUT", "--line-numbers"],
)
NUMBERS = {
    "0": "all",
    "1": "icmp",
    "6": "tcp",
    "17": "udp",
}  # as some versions print a protocol with -n


@pytest.fixture(scope="module")
def host():
    namespaces.demand_rights()
    with namespaces.two_hosts() as hosts:
        yield hosts[0]


@pytest.mark.parametrize("backend", ["nft", "legacy"])
def test_same_commands_make_the_same_table(host, backend):
    namespaces.demand_backend(backend)
    tables = FilterTable()
    host.iptables(backend, "-F")
    for words in CALLS:
        real, simulated = host.iptables(backend, *words), run_iptables(tables, words)
        assert real.returncode == simulated.code, (words, real.stderr, simulated)
        for listing in LISTINGS:
            theirs, ours = (
                host.iptables(backend, *listing).stdout,
                run_iptables(tables, listing).text,
            )
            assert plain(ours) == plain(theirs), (words, listing)


def plain(text):
    """Normalise line ends and names of protocols."""
    lines = [line.rstrip() for line in text.splitlines()]
    return [
        re.sub(r"^((?:[\d ]+)?(?:DROP|ACCEPT|REJECT)? +)(\d+)( +)--", _named, line)
        for line in lines
    ]


def _named(match):
    name = NUMBERS[match[2]]
    return f"{match[1]}{name}{match[3][len(name) - len(match[2]) :]}--"
