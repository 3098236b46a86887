"""A cluster behind a kubeconfig, on the wall clock: what the three real backends have in common."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pytest_kscen.chance import Chance, draw_seed
from pytest_kscen.clock import WallRunner
from pytest_kscen.clusters.cluster import TimedCluster
from pytest_kscen.kube.remote import Connection, RemoteApi, access_of

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    from pytest_kscen.clusters.given_parent import GivenParent
    from pytest_kscen.kube.actor import Parent
    from pytest_kscen.kube.api import Api


CREDENTIALS = (
    "host",
    "api_key",
    "api_key_prefix",
    "ssl_ca_cert",
    "cert_file",
    "key_file",
    "verify_ssl",
    "tls_server_name",
    "proxy",
)


class LiveCluster(TimedCluster[WallRunner]):
    """A `Cluster` but for its kubeconfig. `configuration` reads the official client's Configuration, again when it expires."""

    replayable = False

    def __init__(
        self, backend: str, runner: WallRunner, configuration: Callable[[], Any], *, seed: int | str, owned: bool, users: str = ""
    ) -> None:
        self.backend = backend
        self.runner = runner
        self.chance = Chance(seed, salt=draw_seed())
        self.owned = owned
        self._configuration = configuration()
        self._connection = Connection(access_of(self._configuration), runner.clock, lambda: access_of(configuration()), users=users)
        self._api = RemoteApi(self._connection)
        self._given_parent: GivenParent | None = None

    def api(self, agent: str = "") -> Api:
        return self._api.named(agent) if agent else self._api

    @functools.cached_property
    def client(self) -> Any:
        from kubernetes.client import ApiClient

        return ApiClient(self._configuration)

    @functools.cached_property
    def aio_client(self) -> Any:
        """It belongs to the loop in which it is first asked for."""
        from kubernetes.aio.client import ApiClient, Configuration

        configuration = Configuration()
        for name in CREDENTIALS:
            setattr(configuration, name, getattr(self._configuration, name))
        configuration.client_session_kwargs = {"trust_env": False}
        return ApiClient(configuration)

    def _open_parent(self, kubeconfig: pathlib.Path | None, namespace: str) -> Parent:
        from pytest_kscen.clusters.given_parent import GivenParent

        self._given_parent = GivenParent(self, kubeconfig, namespace)
        return self._given_parent.as_parent

    def close(self) -> None:
        """End the actors, then the connections that they spoke through."""
        self.runner.close(last=self._put_away_all())
        self._close_client()
        if self._given_parent:
            self._given_parent.close()

    def _close_client(self) -> None:
        if "client" in self.__dict__:
            self.client.close()

    async def _put_away_all(self) -> None:
        if self._given_parent:
            await self._given_parent._put_away()  # noqa: SLF001  # one of its kind
        await self._put_away()

    async def _put_away(self) -> None:
        if "aio_client" in self.__dict__:
            await self.aio_client.close()
        await self._connection.close()
