"""Random failures of machines, network and roles: no data loss, no divergence, full recovery."""

import itertools

from drbd_kernels import MEBI, DrbdKernels
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.kubelet.network import Impairment
from pytest_kscen.models.storage.drbd import DiskState, DrbdRefused, Role
from pytest_kscen.models.storage.drbd.timers import PARAMETERS

LAYOUTS = [
    ("abc", {"quorum": 2, "redundancy": 2}),
    ("abc", {"quorum": 2, "diskless": "c"}),
    ("abcde", {"quorum": 3, "redundancy": 2, "diskless": "de"}),
    ("abc", {"quorum": 2, "redundancy": 2, "rule": "tie-break"}),
    ("abc", {"quorum": 2, "diskless": "c", "rule": "tie-break"}),
    ("abcde", {"quorum": 2, "diskless": "cde", "rule": "tie-break"}),
    ("abcde", {"quorum": 3, "redundancy": 2, "diskless": "e", "rule": "tie-break"}),
    ("ab", {"quorum": 2, "redundancy": 2, "rule": "tie-break"}),
    ("ab", {"quorum": 0, "diskless": "b"}),
]
NODES = st.integers(0, 4)
ADVANCES = st.sampled_from([0.5, 3.0, 7.0, 12.0, 30.0, 61.0])


class Storage(RuleBasedStateMachine):
    """One volume. Data are tokens: peers connected to the writer get each, resynced peers get all."""

    def __init__(self):
        super().__init__()
        self.runner = VirtualRunner()
        self.acknowledged = set()
        self.has = {}
        self.sources = {}
        self.seen = {}
        self.broken = []

    def teardown(self):
        try:
            self.heal_everything()
        finally:
            self.runner.close()

    @initialize(
        layout=st.sampled_from(LAYOUTS),
        primaries=st.sampled_from([1, 1, 2]),
        seed=st.integers(0, 9),
    )
    def begin(self, layout, primaries, seed):
        self.nodes, self.options = (
            layout[0],
            {**layout[1], "primaries": primaries, "size": 500 * MEBI},
        )
        self.disks = [node for node in self.nodes if node not in layout[1].get("diskless", "")]
        self.kernels = DrbdKernels(self.runner, self.nodes, PARAMETERS, seed)
        self.kernels.form(self.nodes, **self.options)
        self.has = {node: set() for node in self.disks}
        self.seen = {node: self.face(node) for node in self.nodes}
        self.kernels.drbd.on_change(self.hear)

    # --- what happens ---

    @rule(one=NODES, other=NODES)
    def cut(self, one, other):
        if one != other:
            self.kernels.cut((self.node(one), self.node(other)))

    @rule(one=NODES)
    def isolate(self, one):
        self.kernels.cut(
            *[(self.node(one), other) for other in self.nodes if other != self.node(one)]
        )

    @rule(one=NODES)
    def reach(self, one):
        self.kernels.repair(
            *[(self.node(one), other) for other in self.nodes if other != self.node(one)]
        )

    @rule(one=NODES, other=NODES, loss=st.sampled_from([0.05, 0.6, 1.0]))
    def lose(self, one, other, loss):
        if one != other:
            self.kernels.impair(self.node(one), self.node(other), Impairment(loss=loss, load=0.5))

    @rule(one=NODES)
    def power_off(self, one):
        self.kernels.machines.power_off(self.node(one))

    @rule(one=NODES, agent=st.booleans())
    def power_on(self, one, agent):
        self.kernels.machines.power_on(self.node(one))
        if agent:
            self.come(one)

    @rule(one=NODES)
    def come(self, one):
        if self.kernels.machines[self.node(one)].powered:
            self.kernels.start_resource(self.node(one), self.nodes, **self.options)

    @rule(one=NODES, other=NODES)
    def forget(self, one, other):
        """Remove a peer from an agent's configuration."""
        known = [node for node in self.nodes if node != self.node(other)]
        if self.node(one) in known and self.kernels.machines[self.node(one)].powered:
            self.kernels.start_resource(self.node(one), known, **self.options)

    @rule(one=NODES)
    def go(self, one):
        if self.kernels.machines[self.node(one)].powered:
            self.kernels.do("down", self.node(one), "v")

    @rule(one=NODES)
    def replace(self, one):
        """Recreate a replica while others have the data."""
        node = self.node(one)
        if self.kernels.machines[node].powered and any(
            self.disk(other) == DiskState.UP_TO_DATE for other in self.nodes if other != node
        ):
            self.kernels.do("down", node, "v", wipe=True)
            self.has[node] = set()
            self.come(one)

    @rule(one=NODES)
    def promote(self, one):
        try:
            self.kernels.do("primary", self.node(one), "v")
        except DrbdRefused:
            return

    @rule(one=NODES)
    def demote(self, one):
        if self.kernels.status(self.node(one)):
            self.kernels.do("secondary", self.node(one), "v")

    @rule(seconds=ADVANCES)
    def wait(self, seconds):
        self.kernels.advance(seconds)

    @rule()
    def write(self):
        writer = self.writer()
        if writer is None:
            return
        self.kernels.rest()
        reported = len(self.kernels.reported)
        self.kernels.advance(0.01)
        if len(self.kernels.reported) != reported or self.writer() != writer:
            return
        token = len(self.acknowledged)
        self.acknowledged.add(token)
        connected = [
            node
            for node, link in self.kernels.status(writer).connections.items()
            if link.state == "Connected"
        ]
        for node in (writer, *connected):
            if self.disk(node) not in (None, DiskState.DISKLESS):
                self.has[node].add(token)

    # --- what must hold ---

    @invariant()
    def acknowledged_data_is_present(self):
        for node in self.has:
            if self.disk(node) == DiskState.UP_TO_DATE:
                assert self.has[node] == self.acknowledged, node

    @invariant()
    def no_divergent_writers(self):
        writers = self.writers()
        if self.has and self.options["quorum"] > 1:
            assert all(
                self.are_connected(one, other) for one, other in itertools.combinations(writers, 2)
            )

    @invariant()
    def writers_have_quorum(self):
        for writer in self.writers():
            seen = [
                link.peer_disk
                for link in self.kernels.status(writer).connections.values()
                if link.state == "Connected"
            ]
            disks = [self.disk(writer), *seen]
            assert disks.count(DiskState.UP_TO_DATE) >= self.options.get("redundancy", 1)
            assert len(disks) >= self.options["quorum"]

    @invariant()
    def two_primaries_only_where_allowed(self):
        assert not self.has or self.options["primaries"] > 1 or len(self.writers()) < 2

    @invariant()
    def peers_agree(self):
        volume = self.has and self.kernels.drbd._volumes.get("v")
        if volume:
            self.kernels.rest()
            before = [self.face(node) for node in self.nodes], [*volume.resolver.resyncs]
            volume.update_state()
            assert ([self.face(node) for node in self.nodes], [*volume.resolver.resyncs]) == before

    @invariant()
    def listeners_receive_changes_only(self):
        assert not self.broken

    @precondition(lambda self: self.has)
    @rule()
    def heal_everything(self):
        if not self.has:
            return
        kernels = self.kernels
        kernels.passages.clear()
        kernels.network.changed()
        for node in self.nodes:
            kernels.machines.power_on(node)
        for node in self.nodes:
            kernels.start_resource(node, self.nodes, **self.options)
        kernels.advance(200)
        assert kernels.is_whole(self.nodes), {node: kernels.status(node) for node in self.nodes}
        assert kernels.drbd.pending == 0
        for node in self.nodes:
            status = kernels.status(node)
            assert status.quorum
            assert not status.suspended

    # --- how it is seen ---

    def node(self, number):
        return self.nodes[number % len(self.nodes)]

    def disk(self, node):
        status = self.kernels.status(node)
        return status and status.disk_state

    def face(self, node):
        status = self.kernels.status(node)
        if status is None:
            return None
        links = {
            peer: (link.state, link.peer_role, link.peer_disk, link.replication)
            for peer, link in status.connections.items()
        }
        return status.role, status.disk_state, status.size, status.quorum, status.suspended, links

    def hear(self, node, volume):
        face = self.face(node)
        if face == self.seen[node]:
            self.broken.append((self.kernels.now, node))
        before, self.seen[node] = self.seen[node], face
        source = (
            next((peer for peer, link in face[5].items() if link[3] == "SyncTarget"), None)
            if face
            else None
        )
        was = self.sources.pop(node, None)
        if source:
            self.sources[node] = source
        if face and was and face[1] == DiskState.UP_TO_DATE and before[1] == DiskState.INCONSISTENT:
            self.has[node] = set(
                self.acknowledged & self.has[was]
                if self.disk(was) == DiskState.UP_TO_DATE
                else self.acknowledged
            )

    def writers(self):
        statuses = {node: self.kernels.status(node) for node in self.nodes} if self.has else {}
        return [
            node
            for node, status in statuses.items()
            if status and status.role == Role.PRIMARY and not status.suspended
        ]

    def writer(self):
        """Return the first node whose writes all its connected peers acknowledge."""
        writers = [node for node in self.writers() if self.is_answered(node)]
        return writers[0] if len(self.writers()) == 1 and writers else None

    def is_answered(self, node):
        links = self.kernels.status(node).connections
        connected = [
            peer
            for peer, link in links.items()
            if link.state == "Connected" and link.peer_disk != DiskState.DISKLESS
        ]
        return all(self.passes(node, peer) and self.kernels.status(peer) for peer in connected)

    def passes(self, one, other):
        impairment = self.kernels.passages.get((one, other))
        return impairment is None or not (impairment.blocked or impairment.loss == 1)

    def are_connected(self, one, other):
        found, waiting = {one}, [one]
        while waiting:
            status = self.kernels.status(waiting.pop())
            for peer, link in status.connections.items() if status else ():
                if link.state == "Connected" and peer not in found:
                    found.add(peer)
                    waiting.append(peer)
        return other in found


Storage.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
test_whatever_happens = Storage.TestCase
