"""Simulated DRBD kernels whose links and power a test controls."""

import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.embedded.kubelet.machines import Machines
from pytest_kscen.embedded.kubelet.network import NO_IMPAIRMENT, Impairment, Network
from pytest_kscen.models.storage.drbd import (
    ConnectionState,
    DiskState,
    Drbd,
    DrbdRefused,
    PeerConfig,
    QuorumRule,
    ResourceConfig,
)
from pytest_kscen.models.storage.drbd.timers import DrbdParameters

START = 1767225600
MEBI = 2**20
EXACT = DrbdParameters(
    silence_timeout=(8.0, 8.0), reconnect_after_block=(50.0, 50.0), connect_time=(2.0, 2.0)
)


class DrbdKernels:
    """Machines, a network with configurable impairments, and the DRBD kernels."""

    def __init__(self, runner, names="abc", parameters=EXACT, seed="drbd"):
        chance = Chance(seed)
        self.names = list(names)
        self.runner, self.machines = runner, Machines(chance.stream("machines"))
        for name in names:
            self.machines.add(name)
        self.network = Network(self.machines)
        self.passages = {}
        self.network.add_filter(
            lambda flow: self.passages.get((flow.source, flow.target), NO_IMPAIRMENT)
        )
        self.drbd = Drbd(self.machines, self.network, runner.clock, chance, parameters)
        self.reported = []
        self.drbd.on_change(lambda node, resource: self.reported.append((self.now, node, resource)))

    @property
    def now(self):
        return round(self.runner.clock.now() - START, 6)

    def advance(self, seconds):
        self.runner.advance(seconds)

    def rest(self):
        """Process all events of this instant."""
        self.runner.advance(0)
        self.runner.advance(0)

    def do(self, verb, *args, **options):
        async def command():
            return getattr(self.drbd, verb)(*args, **options)

        return self.runner.ask(command())

    def refused(self, verb, *args):
        with pytest.raises(DrbdRefused) as refusal:
            self.do(verb, *args)
        return str(refusal.value)

    def start_resource(
        self,
        node,
        nodes,
        volume="v",
        *,
        quorum=0,
        redundancy=1,
        size=100 * MEBI,
        diskless="",
        primaries=1,
        rule="votes",
    ):
        """Start the resource on a node that knows these peers."""
        peers = {
            name: PeerConfig(
                self.names.index(name), 7000 + self.names.index(name), name not in diskless
            )
            for name in nodes
        }
        me = peers.pop(node)
        options = {"two_primaries": primaries > 1, "peers": peers, "quorum_rule": QuorumRule(rule)}
        self.do(
            "up",
            node,
            volume,
            ResourceConfig(me.node_id, me.port, me.diskful, size, quorum, redundancy, **options),
        )

    def spread(self, nodes, volume="v", *, quorum=None, **options):
        """Start the resource on these nodes."""
        quorum = quorum if quorum is not None else (len(nodes) // 2 + 1 if len(nodes) > 1 else 0)
        for node in nodes:
            self.start_resource(node, nodes, volume, quorum=quorum, **options)

    def form(self, nodes, volume="v", **options):
        """Start the resource and wait until all nodes have the data of the first."""
        self.spread(nodes, volume, **options)
        self.do("initialize", nodes[0], volume)
        self.advance(60)
        assert self.is_whole(nodes, volume)
        self.reported.clear()

    def is_whole(self, nodes, volume="v"):
        return all(
            self.disk(node, volume) in (DiskState.UP_TO_DATE, DiskState.DISKLESS) for node in nodes
        ) and all(
            (link.state, link.out_of_sync) == (ConnectionState.CONNECTED, 0)
            for node in nodes
            for link in self.status(node, volume).connections.values()
        )

    def status(self, node, volume="v"):
        return self.drbd.status(node, volume)

    def disk(self, node, volume="v"):
        return self.status(node, volume).disk_state

    def link(self, one, other, volume="v"):
        return self.status(one, volume).connections[other]

    def state(self, one, other, volume="v"):
        return str(self.link(one, other, volume).state)

    # --- what a test does to it ---

    def impair(self, one, other, impairment):
        self.passages[one, other] = self.passages[other, one] = impairment
        self.network.changed()

    def cut(self, *pairs):
        for one, other in pairs:
            self.impair(one, other, Impairment(blocked=True))

    def repair(self, *pairs):
        for one, other in pairs:
            self.impair(one, other, NO_IMPAIRMENT)

    def when(self, held, timeout=3600):
        """Return the seconds from now until this first holds."""
        began = self.now
        assert self.runner.until(held, timeout)
        return round(self.now - began, 6)
