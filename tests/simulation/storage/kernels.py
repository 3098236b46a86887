"""Kernels that do at once what they are told, for tests of those who tell them: links need a second, and so do disks."""

from __future__ import annotations

import asyncio

from pytest_kscen.simulation.storage.drbd import Connection, Disk, Replication, Role, State, Status


class PlainDrbd:
    """`Drbd` without weather."""

    def __init__(self, machines, network, clock, chance):
        self._machines = machines
        self._listeners = []
        self._configs, self._disks, self._roles, self._links = {}, {}, {}, {}

    def on_change(self, listener):
        self._listeners.append(listener)

    def _tell(self, resource):
        for node, name in list(self._configs):
            if name == resource:
                for listener in self._listeners:
                    listener(node, resource)

    def _later(self, action):
        asyncio.get_running_loop().call_later(1.0, action)

    def up(self, node, resource, config):
        self._configs[node, resource] = config
        self._disks.setdefault((node, resource), Disk.INCONSISTENT if config.diskful else Disk.DISKLESS)
        self._roles.setdefault((node, resource), Role.SECONDARY)
        for peer in config.peers:
            link = (resource, *sorted([node, peer]))
            if link not in self._links:
                self._links[link] = False
                self._later(lambda link=link: self._connect(link))
        for link in [one for one in self._links if one[0] == resource and node in one]:
            if not {*link[1:]} - {node} & {*config.peers}:
                del self._links[link]
        self._tell(resource)

    def _connect(self, link):
        if link not in self._links:
            return
        resource, one, other = link
        if not all((node, resource) in self._configs for node in (one, other)):
            self._later(lambda: self._connect(link))
            return
        self._links[link] = True
        self._sync(resource)
        self._tell(resource)

    def _sync(self, resource):
        for (node, name), disk in list(self._disks.items()):
            good = [peer for peer in self._peers(node, resource) if self._disks[peer, resource] == Disk.UP_TO_DATE]
            if name == resource and disk == Disk.INCONSISTENT and good:
                self._later(lambda node=node: self._synced(node, resource))

    def _synced(self, node, resource):
        if (node, resource) in self._disks:
            self._disks[node, resource] = Disk.UP_TO_DATE
            self._sync(resource)
            self._tell(resource)

    def _peers(self, node, resource):
        linked = [link for link, lives in self._links.items() if lives and link[0] == resource and node in link[1:]]
        return [name for link in linked for name in link[1:] if name != node]

    def down(self, node, resource, *, wipe=False):
        for table in (self._configs, self._roles, *([self._disks] if wipe else [])):
            table.pop((node, resource), None)
        self._links = {link: lives for link, lives in self._links.items() if link[0] != resource or node not in link[1:]}
        self._tell(resource)

    def initialize(self, node, resource):
        self._disks[node, resource] = Disk.UP_TO_DATE
        self._tell(resource)

    def primary(self, node, resource):
        self._roles[node, resource] = Role.PRIMARY
        self._tell(resource)

    def secondary(self, node, resource):
        self._roles[node, resource] = Role.SECONDARY
        self._tell(resource)

    def status(self, node, resource):
        config = self._configs.get((node, resource))
        if config is None or not self._machines[node].powered:
            return None
        linked = self._peers(node, resource)
        connections = {peer: self._connection(peer, resource, peer in linked) for peer in config.peers}
        quorum = 1 + len(linked) >= config.quorum
        role, disk = self._roles[node, resource], self._disks[node, resource]
        return Status(role, disk, config.size, quorum, role == Role.PRIMARY and not quorum, connections)

    def _connection(self, peer, resource, lives):
        if not lives:
            return Connection(State.CONNECTING)
        role, disk = self._roles[peer, resource], self._disks[peer, resource]
        return Connection(State.CONNECTED, role, disk, Replication.ESTABLISHED)
