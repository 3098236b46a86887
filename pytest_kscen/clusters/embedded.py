"""Embedded backend: API server, controllers and machines in this process, in virtual time.

A cluster starts in milliseconds, is ready when the constructor returns, and repeats exactly from
its seed.
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.clusters import simulated_parent as parents
from pytest_kscen.clusters.cluster import TimedCluster
from pytest_kscen.embedded.actors import actors
from pytest_kscen.embedded.apiserver.admission.plugins import SYSTEM_CLASSES, standard_admission
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kinds
from pytest_kscen.embedded.apiserver.patching.managed_fields import last_manager
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.embedded.controllers.provisioner import BUILT_IN_CLASSES
from pytest_kscen.embedded.kubelet.nodes import Site
from pytest_kscen.embedded.kubelet.pod_http import PodHttpClient
from pytest_kscen.kube.in_process import InProcessApi
from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.resources import (
    NAMESPACES,
    NODES,
    PRIORITY_CLASSES,
    SERVICES,
    STORAGE_CLASSES,
)

if TYPE_CHECKING:
    from pytest_kscen.clusters.cluster import ChangeFeed, NoteChange
    from pytest_kscen.embedded.apiserver.admission import Admission
    from pytest_kscen.embedded.apiserver.http import HttpsPort as Port
    from pytest_kscen.embedded.apiserver.store import Key, Store
    from pytest_kscen.embedded.apiserver.wire import Wire
    from pytest_kscen.kube.actor import ParentCluster
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

INITIAL_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
API_SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {
        "name": "kubernetes",
        "namespace": "default",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
    },
    "spec": {
        "clusterIP": "10.0.0.1",
        "ports": [{"name": "https", "port": 443, "targetPort": 6443}],
    },
}
BOOT_TIMEOUT = 60.0  # seconds of cluster time within which every node must be ready


class EmbeddedCluster(TimedCluster[VirtualRunner]):
    """Cluster of simulated machines with an API server in this process. `site` has the machines,
    `server` the API server; neither needs a network unless `kubeconfig` is requested.
    """

    backend = "embedded"
    owned = True

    def __init__(self, seed: int | str = 0, *, nodes: int = 6) -> None:
        self.runner = VirtualRunner()
        self.chance = Chance(seed)
        self.site = Site.of(self.runner.clock, self.chance, nodes=nodes)
        self._start_server()

    def _start_server(self) -> None:
        """Create the server and start the actors, in the runner's time and on the site's
        machines.
        """
        self.server = ApiServer(
            self.runner.clock, self.chance, Kinds(builtin_kinds()), standard_admission()
        )
        self.server.core.logs = self.site.logs
        self.server.core.web = PodHttpClient(
            self.site, self.runner.clock, self.chance.stream("packets that are sent again")
        )
        self._port: Port | None = None
        self._folder: pathlib.Path | None = None
        self._host: EmbeddedParent | None = None
        try:
            self.runner.call(self._create_initial_objects())
        except BaseException:
            self.close()
            raise

    async def _create_initial_objects(self) -> None:
        api, clock = self.api("kube-apiserver"), self.runner.clock
        for name in INITIAL_NAMESPACES:
            await api.create(
                NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        for each in SYSTEM_CLASSES:
            await api.create(PRIORITY_CLASSES, each)
        for each in BUILT_IN_CLASSES:
            await api.create(STORAGE_CLASSES, each)
        await api.create(SERVICES, API_SERVICE)
        for name, life in actors("embedded", self.api, clock, self.chance, site=self.site):
            self.runner.start(life, name)
        for machine in self.site.machines:
            await wait_for(
                api,
                clock,
                NODES,
                machine.name,
                condition=lambda node: is_true(node, "Ready"),
                timeout=BOOT_TIMEOUT,
            )

    def _open_parent(self, _: pathlib.Path | None, namespace: str) -> ParentCluster:
        """Start a second API server in the same virtual time, with nodes of its own on which this
        cluster's machines are virtual machines.
        """
        self._host = EmbeddedParent(self)
        return parents.virtualize(
            self.runner,
            self._host.api,
            self._host.chance,
            host=self._host.site,
            nested=self.site,
            namespace=namespace or parents.DEFAULT_NAMESPACE,
        )

    def api(self, agent: str = "") -> Api:
        return InProcessApi(self.server, agent=agent)

    def follow_changes(self, note: NoteChange) -> ChangeFeed:
        return StoreChanges(self.server.core.store, note)

    @functools.cached_property
    def wire(self) -> Wire:
        from pytest_kscen.embedded.apiserver.wire import Wire

        return Wire(self.server)

    @functools.cached_property
    def client(self) -> Any:
        from pytest_kscen.kube.official import sync_client

        return sync_client(self.wire, self.runner)

    @functools.cached_property
    def aio_client(self) -> Any:
        from pytest_kscen.kube.official import aio_client

        return aio_client(self.wire, self.runner.loop)

    @property
    def kubeconfig(self) -> pathlib.Path:
        if self._port is None:
            from pytest_kscen.embedded.apiserver.http import HttpsPort as Port

            self._folder = pathlib.Path(tempfile.mkdtemp(prefix="kscen-"))
            self._port = Port(self.wire, self.runner, self._folder)
        return self._port.kubeconfig

    @property
    def admission(self) -> Admission:
        return self.server.core.admission

    @property
    def replayable(self) -> bool:
        return self.runner.replayable

    def close(self) -> None:
        """Close ports first, then servers and actors; each is closed even if another close
        fails.
        """
        with contextlib.ExitStack() as closing:
            clusters = [self, self._host] if self._host else [self]
            for cluster in clusters:
                closing.callback(cluster.server.close)
            closing.callback(self.runner.close)
            for cluster in clusters:
                cluster._register_cleanup(closing)  # noqa: SLF001  # same class

    def _register_cleanup(self, closing: contextlib.ExitStack) -> None:
        if "client" in self.__dict__:
            closing.callback(self.client.close)
        if self._folder:
            closing.callback(shutil.rmtree, self._folder, ignore_errors=True)
        if self._port:
            closing.callback(self._port.close)


class StoreChanges:
    """Changes of an API server's store, of every resource, until `stop` is called."""

    def __init__(self, store: Store, note: NoteChange) -> None:
        self._store = store
        self._note = note
        for key, obj in store.everything():
            note(_qualified(*key[:2]), None, obj, initial=True)
        store.recorders.append(self._changed)

    def include(self, kind: str) -> None:
        """Do nothing: every resource is followed."""

    def stop(self) -> None:
        self._store.recorders.remove(self._changed)

    def _changed(self, key: Key, old: Obj | None, new: Obj | None) -> None:
        self._note(_qualified(*key[:2]), old, new, last_manager(new, old) if new else "")


@functools.cache
def _qualified(group: str, plural: str) -> str:
    """Return a resource's name as `Resource.qualified` has it."""
    return f"{plural}.{group}" if group else plural


class EmbeddedParent(EmbeddedCluster):
    """Parent of an embedded cluster; it shares the nested cluster's runner and ends with it."""

    def __init__(self, nested: EmbeddedCluster) -> None:
        self.runner = nested.runner
        self.chance = parents.parent_chance(nested.chance.seed)
        self.site = parents.make_parent_site(self.runner.clock, self.chance, nested.site)
        self._start_server()

    def close(self) -> None:
        with contextlib.ExitStack() as closing:
            closing.callback(self.server.close)
            self._register_cleanup(closing)
