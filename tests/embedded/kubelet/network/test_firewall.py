import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.kubelet.machines import Machines
from pytest_kscen.embedded.kubelet.network import Flow, Network
from pytest_kscen.embedded.kubelet.network.firewall import FilterTable, Packet
from pytest_kscen.embedded.kubelet.network.flows import BLOCKED, NO_IMPAIRMENT, OUTSIDE
from pytest_kscen.embedded.kubelet.network.hosts import NetworkHosts
from pytest_kscen.embedded.kubelet.network.iptables import run_iptables

FROM, TO = "10.0.0.1", "10.0.0.2"
HALF = "-m statistic --mode random --probability 0.5"


def call(tables, text):
    words = text.split()
    return run_iptables(tables, [word.replace("_", " ") for word in words])


def lost(*rules, protocol="TCP", sport=0, dport=7000, policy="ACCEPT"):
    tables = FilterTable()
    call(tables, f"-P INPUT {policy}")
    for rule in rules:
        assert call(tables, f"-A INPUT {rule}").code == 0, call(tables, f"-A INPUT {rule}")
    return round(tables.dropped_share("INPUT", Packet(FROM, TO, protocol, sport, dport)), 6)


@pytest.mark.parametrize(
    ("rule", "share"),
    [
        ("-j DROP", 1),
        ("-j REJECT", 1),
        ("-j ACCEPT", 0),
        ("", 0),
        (f"-s {FROM} -j DROP", 1),
        ("-s 10.0.0.0/24 -j DROP", 1),
        (f"-s {TO} -j DROP", 0),
        (f"! -s {TO} -j DROP", 1),
        (f"-d {TO} -j DROP", 1),
        ("-p tcp -j DROP", 1),
        ("-p 6 -j DROP", 1),
        ("-p udp -j DROP", 0),
        ("! -p udp -j DROP", 1),
        ("-p tcp --dport 7000 -j DROP", 1),
        ("-p tcp -m tcp --dport 6999:7001 -j DROP", 1),
        ("-p tcp --dport 7001: -j DROP", 0),
        ("-p tcp ! --dport 7000 -j DROP", 0),
        ("-p tcp -m multiport --dports 1,7000 -j DROP", 1),
        ("-p tcp --sport 7000 -j DROP", 0),
        ("-i eth0 -j DROP", 1),
        ("-i eth+ -j DROP", 1),
        ("! -i lo -j DROP", 1),
        ("-i lo -j DROP", 0),
        (f"{HALF} -j DROP", 0.5),
        ("-m statistic --mode nth --every 4 --packet 0 -j DROP", 0.25),
        ("-m statistic --mode random --probability 0.001 -m comment --comment x -j DROP", 0.001),
    ],
)
def test_rule_matches(rule, share):
    assert lost(rule) == share


@pytest.mark.parametrize(
    ("rules", "policy", "share"),
    [
        (["-j ACCEPT", "-j DROP"], "ACCEPT", 0),
        ([f"{HALF} -j DROP", f"{HALF} -j DROP"], "ACCEPT", 0.75),
        ([f"{HALF} -j ACCEPT", "-j DROP"], "ACCEPT", 0.5),
        ([f"{HALF} -j ACCEPT"], "DROP", 0.5),
        ([], "DROP", 1),
        (["-p udp -j ACCEPT"], "DROP", 1),
        ([f"-s {FROM}", "-j DROP"], "ACCEPT", 1),
    ],
)
def test_rules_apply_in_order(rules, policy, share):
    assert lost(*rules, policy=policy) == share


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("-D INPUT 1", 1, "iptables: Index of deletion too big."),
        ("-D INPUT -j DROP", 1, "iptables: Bad rule (does a matching rule exist in that chain?)."),
        ("-C INPUT -j DROP", 1, "iptables: Bad rule (does a matching rule exist in that chain?)."),
        ("-I INPUT 2 -j DROP", 1, "iptables: Index of insertion too big."),
        ("-A OTHER -j DROP", 1, "iptables: No chain/target/match by that name."),
        ("-A INPUT --dport 80 -j DROP", 2, 'unknown option "--dport"'),
        ("-A INPUT --foo", 2, 'unknown option "--foo"'),
        ("-A INPUT -s nowhere -j DROP", 2, "host/network `nowhere' not found"),
        ("-A INPUT -p tcp --dport http -j DROP", 2, "invalid port/service `http' specified"),
        ("-A INPUT -p blue -j DROP", 2, 'unknown protocol "blue" specified'),
        (
            "-A INPUT -m statistic --mode random --probability 5 -j DROP",
            2,
            "out of range 0.00 to 1.00",
        ),
        ("-A INPUT -m statistic --mode often", 2, "Bad mode `often'"),
        ("-A INPUT -m conntrack", 2, "Couldn't load match `conntrack'"),
        ("-A INPUT -j LOG", 2, "Couldn't load target `LOG'"),
        ("-A INPUT -t nat -j DROP", 2, "table nat is not simulated (supported: filter)"),
        ("-A INPUT -A INPUT", 2, "Cannot use -A with -A"),
        ("-s 10.0.0.1", 2, "no command specified"),
        ("-A INPUT -j", 2, 'option "-j" requires an argument'),
        ("-P INPUT LOSE", 1, "iptables: Bad policy name."),
    ],
)
def test_invalid_command_is_refused(text, code, words):
    outcome = call(FilterTable(), text)
    assert outcome.code == code
    assert words in outcome.stderr


def test_delete_by_specification_removes_first_match():
    tables = FilterTable()
    for rule in ("-s 10.0.0.9 -j DROP", f"{HALF} -j DROP", f"{HALF} -j DROP"):
        call(tables, f"-A INPUT {rule}")
    assert call(tables, f"-C INPUT {HALF} -j DROP").code == 0
    assert call(tables, f"-w -D INPUT -j DROP {HALF}").code == 0
    call(tables, "-I INPUT -s 10.0.0.8 -j DROP")
    call(tables, "-I INPUT 2 -s 10.0.0.7 -j DROP")
    assert call(tables, "-S INPUT").text.splitlines() == [
        "-P INPUT ACCEPT",
        "-A INPUT -s 10.0.0.8/32 -j DROP",
        "-A INPUT -s 10.0.0.7/32 -j DROP",
        "-A INPUT -s 10.0.0.9/32 -j DROP",
        "-A INPUT -m statistic --mode random --probability 0.50000000000 -j DROP",
    ]
    call(tables, "-F")
    assert call(tables, "-S").text == "-P INPUT ACCEPT\n-P FORWARD ACCEPT\n-P OUTPUT ACCEPT\n"


class Link:
    """Link between two machines, and its clock."""

    def __init__(self):
        self.runner = VirtualRunner()
        self.machines = Machines(Chance("x").stream("machines"))
        self.a, self.b = self.machines.add("a"), self.machines.add("b")
        self.network = Network(self.machines)
        self.hosts = NetworkHosts(self.machines, self.network, self.runner.clock)
        self.tables = self.hosts.firewalls.of(self.a)

    def ask(self, text):
        outcome = call(self.tables, text)
        assert outcome.code == 0, outcome
        return outcome.text

    def counters(self, chain="INPUT"):
        rows = self.ask(f"-L {chain} -n -v -x").splitlines()[2:]
        return [int(row.split()[0]) for row in rows]

    def impairment(self, source, target, protocol="TCP", port=7000):
        return self.network.impairment(Flow(source, target, protocol, port))


@pytest.fixture
def link():
    link = Link()
    yield link
    link.runner.close()


def test_counters_follow_traffic(link):
    link.runner.advance(1000)
    link.ask(f"-A INPUT -s {link.b.address} {HALF} -j DROP")
    link.ask("-A INPUT -p udp")
    link.ask("-A INPUT -s 10.9.9.9 -j DROP")
    link.runner.advance(10)
    assert link.counters() == [750, 250, 0]
    assert link.counters() == [750, 250, 0]
    link.ask("-I INPUT -p tcp -j ACCEPT")
    link.runner.advance(10)
    assert link.counters() == [1000, 1000, 500, 0]
    link.machines.power_off("b")
    link.runner.advance(10)
    assert link.counters() == [1000, 1000, 500, 0]
    link.ask("-Z INPUT")
    assert link.counters() == [0, 0, 0, 0]


def test_packets_filtered_earlier_are_not_counted(link):
    link.ask("-A INPUT -j DROP")
    link.ask("-A OUTPUT -p udp -j DROP")
    cut = []
    link.network.add_filter(lambda flow: BLOCKED if flow.source in cut else NO_IMPAIRMENT)
    link.runner.advance(10)
    cut.append("b")
    link.network.changed()
    link.runner.advance(10)
    assert (link.counters(), link.counters("OUTPUT")) == ([1500], [1000])


def test_connection_requires_both_directions(link):
    link.ask(f"-A INPUT -s {link.b.address} -j DROP")
    assert link.impairment("b", "a").blocked
    assert link.impairment("a", "b").blocked
    assert not link.impairment("a", "b", "UDP").blocked
    link.ask("-F")
    link.ask(f"-A INPUT -s {link.b.address} -m statistic --mode random --probability 0.1 -j DROP")
    assert (round(link.impairment("b", "a").loss, 6), link.impairment("a", "b").loss) == (0.1, 0)
    link.ask("-F")
    link.ask("-A OUTPUT -p tcp --dport 7000 -j REJECT")
    assert link.impairment("a", "b").blocked
    assert not link.impairment("b", "a").blocked
    assert not link.impairment("a", "b", port=7001).blocked


def test_changes_are_notified(link):
    told = []
    link.network.on_change(lambda: told.append(link.impairment("b", "a").blocked))
    link.ask("-P INPUT DROP")
    link.ask("-L")
    link.ask("-A INPUT -j ACCEPT")
    assert told == [True, False]


def test_power_off_clears_rules(link):
    link.ask("-P INPUT DROP")
    link.ask("-A INPUT -s 10.9.9.9 -j DROP")
    link.machines.power_off("a")
    link.machines.power_on("a")
    assert link.ask("-S INPUT") == "-P INPUT ACCEPT\n"


def test_recreated_machine_has_no_rules(link):
    link.ask("-A INPUT -j DROP")
    link.machines.remove("a")
    link.machines.add("a")
    link.network.changed()
    assert not link.impairment("b", "a").blocked


ADDRESSES = st.sampled_from(
    ["", "-s 10.0.0.1", "! -s 10.0.0.0/30", "-d 10.0.0.2", "-s 10.0.0.9 -d 10.0.0.2"]
)
PORTS = st.sampled_from(
    [
        "",
        "-p tcp",
        "! -p udp",
        "-p tcp -m tcp --dport 7000:7999",
        "-p tcp -m multiport ! --dports 1,7000",
        "-p udp --sport 53",
    ]
)
CHANCES = st.one_of(
    st.just(""),
    st.integers(0, 10**6).map(
        lambda share: f"-m statistic --mode random --probability {share / 10**6:.6f}"
    ),
    st.integers(1, 9).map(lambda every: f"-m statistic --mode nth --every {every} --packet 0"),
)
TARGETS = st.sampled_from(["", "-j DROP", "-j ACCEPT", "-j REJECT"])
REMARKS = st.sampled_from(["", "-m comment --comment kscen/x", "-m comment --comment two_words"])
RULES = st.tuples(ADDRESSES, PORTS, CHANCES, REMARKS, TARGETS).map(" ".join)


@given(st.lists(RULES, max_size=6))
def test_printed_rules_restore_table(rules):
    tables, again = FilterTable(), FilterTable()
    for rule in rules:
        call(tables, f"-A INPUT {rule}")
    printed = call(tables, "-S INPUT").text
    for line in printed.splitlines()[1:]:
        assert run_iptables(again, shlex.split(line)).code == 0
    assert call(again, "-S INPUT").text == printed
    assert lost(*rules) == round(again.dropped_share("INPUT", Packet(FROM, TO, "TCP", 0, 7000)), 6)


@given(st.lists(RULES, min_size=1, max_size=6), st.data())
def test_delete_undoes_append(rules, data):
    tables = FilterTable()
    for rule in rules:
        call(tables, f"-A INPUT {rule}")
    for rule in data.draw(st.permutations(rules)):
        assert call(tables, f"-D INPUT {rule}").code == 0
    assert not tables


@given(st.lists(RULES, max_size=6), st.sampled_from(["TCP", "UDP", "ICMP"]))
def test_packet_is_counted_at_most_once(rules, protocol):
    tables = FilterTable()
    for rule in rules:
        call(tables, f"-A INPUT {rule}")
    packet = Packet(FROM, TO, protocol, 0, 7000)
    tables.count("INPUT", packet, 1000, 100)
    entries = next(entries for chain, _, entries in tables.chains() if chain == "INPUT")
    ended = sum(entry.packets for entry in entries if entry.rule.target)
    dropped = sum(entry.packets for entry in entries if entry.rule.target in {"DROP", "REJECT"})
    assert ended <= 1000.0001
    assert dropped == pytest.approx(1000 * tables.dropped_share("INPUT", packet))


def test_external_peer_has_no_address(link):
    link.ask("-A INPUT -j DROP")
    assert link.impairment("b", "a").blocked
    assert [link.impairment(OUTSIDE, "a"), link.impairment("a", OUTSIDE)] == [
        NO_IMPAIRMENT,
        NO_IMPAIRMENT,
    ]
