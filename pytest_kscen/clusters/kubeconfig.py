"""Clusters behind a kubeconfig: reading and merging it as kubectl does, and the backend.

`LiveCluster` is the base of all real backends; `KubeconfigCluster` is a user's cluster, and
`KubeconfigParent` the parent of a real one.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import pathlib
import shutil
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from pytest_kscen.chance import Chance, draw_seed
from pytest_kscen.clock import WallRunner
from pytest_kscen.clusters.cluster import ClusterRefused, TimedCluster
from pytest_kscen.kube.actor import ParentCluster
from pytest_kscen.kube.remote import Connection, RemoteApi, access_of, configuration_of
from pytest_kscen.objects.errors import ApiError, Forbidden, NotFound
from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINES

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.clusters.cluster import ChangeFeed, NoteChange
    from pytest_kscen.kube.api import Api


NAMED_LISTS = ("clusters", "users", "contexts")
FILE_FIELDS = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
    "contexts": (),
}


@dataclass(frozen=True, slots=True)
class ClusterFlags:
    """Command-line options that select a cluster, for use in messages."""

    file: str
    context: str = ""

    @property
    def another_file(self) -> str:
        return f"choose another with {self.file} FILE"

    @property
    def another(self) -> str:
        return f"{self.another_file} and {self.context} NAME" if self.context else self.another_file

    @property
    def a_context(self) -> str:
        return (
            f"Name one with {self.context} NAME"
            if self.context
            else f"Let {self.file} FILE have one of them as its current-context"
        )


TESTED_FLAGS = ClusterFlags("--kubeconfig", "--kscen-context")
COMMAND_FLAGS = ClusterFlags("--kubeconfig", "--context")
PARENT_FLAGS = ClusterFlags("--parent-kubeconfig")


def default_path() -> str:
    return os.environ.get("KUBECONFIG") or "~/.kube/config"


def merged_kubeconfig(path: str, flags: ClusterFlags = TESTED_FLAGS) -> dict[str, Any]:
    """Return the merged content of all files of a path, which are separated as in PATH; earlier
    files win. Relative file names in it become absolute.
    """
    whole: dict[str, Any] = {"apiVersion": "v1", "kind": "Config"}
    files = [pathlib.Path(part).expanduser() for part in path.split(os.pathsep) if part]
    present = [file for file in files if file.is_file()]
    if not present:
        raise ClusterRefused(f"no kubeconfig at {path}: {flags.another_file}")
    for file in present:
        fix = flags.another_file
        try:
            content = yaml.safe_load(file.read_text()) or {}
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ClusterRefused(f"{file} is not a kubeconfig ({error}): {fix}") from error
        except OSError as error:
            raise ClusterRefused(f"{file} cannot be read ({error}): {fix}") from error
        lists = (
            [content.get(kind) or [] for kind in NAMED_LISTS]
            if isinstance(content, dict)
            else [None]
        )
        if not all(
            isinstance(entries, list)
            and all(isinstance(one, dict) and "name" in one for one in entries)
            for entries in lists
        ):
            raise ClusterRefused(
                f"{file} is not a kubeconfig: {', '.join(NAMED_LISTS)} must be lists of "
                f"objects with a name; {fix}"
            )
        for kind in NAMED_LISTS:
            known = whole.setdefault(kind, [])
            names = [entry["name"] for entry in known]
            for entry in content.get(kind) or ():
                if entry["name"] not in names:
                    inner = entry.get(kind[:-1]) or {}
                    paths = {
                        name: str((file.parent / inner[name]).absolute())
                        for name in FILE_FIELDS[kind]
                        if inner.get(name)
                    }
                    known.append({**entry, kind[:-1]: {**inner, **paths}})
        if content.get("current-context"):
            whole.setdefault("current-context", content["current-context"])
    return whole


def chosen_context(
    config: dict[str, Any], context: str, path: str, flags: ClusterFlags = TESTED_FLAGS
) -> str:
    """Return the requested or current context; ClusterRefused lists the existing ones if it is
    missing.
    """
    names = [entry["name"] for entry in config["contexts"]]
    wanted = context or config.get("current-context", "")
    if wanted not in names:
        what = (
            f"there is no context {wanted!r} in {path}"
            if wanted
            else f"{path} has no current context"
        )
        raise ClusterRefused(
            f"{what}; its contexts are: {', '.join(names) or '(none)'}. {flags.a_context}"
        )
    return str(wanted)


def server_of(config: dict[str, Any], context: str) -> str:
    cluster = next(
        (one["context"].get("cluster") for one in config["contexts"] if one["name"] == context),
        None,
    )
    return next(
        (
            str(one["cluster"].get("server", ""))
            for one in config["clusters"]
            if one["name"] == cluster
        ),
        "no server",
    )


COPIED_FIELDS = (
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
    """Real cluster, reached over HTTPS, on the wall clock. `configuration` returns the official
    client's Configuration; it is called again when credentials expire.
    """

    replayable = False

    def __init__(
        self,
        backend: str,
        runner: WallRunner,
        configuration: Callable[[], Any],
        *,
        seed: int | str,
        owned: bool,
        users: str = "",
    ) -> None:
        self.backend = backend
        self.runner = runner
        self.chance = Chance(seed, salt=draw_seed())
        self.owned = owned
        self._configuration = configuration()
        self._connection = Connection(
            access_of(self._configuration),
            runner.clock,
            lambda: access_of(configuration()),
            users=users,
        )
        self._api = RemoteApi(self._connection)
        self._kubeconfig_parent: KubeconfigParent | None = None

    def api(self, agent: str = "") -> Api:
        return self._api.named(agent) if agent else self._api

    @functools.cached_property
    def client(self) -> Any:
        from kubernetes.client import ApiClient

        return ApiClient(self._configuration)

    @functools.cached_property
    def aio_client(self) -> Any:
        """Bound to the event loop in which it is first accessed."""
        from kubernetes.aio.client import ApiClient, Configuration

        configuration = Configuration()
        for name in COPIED_FIELDS:
            setattr(configuration, name, getattr(self._configuration, name))
        configuration.client_session_kwargs = {"trust_env": False}
        return ApiClient(configuration)

    def follow_changes(self, note: NoteChange) -> ChangeFeed:
        """Note changes from watches: of all resources on a cluster that we started, of those
        that are included elsewhere.
        """
        from pytest_kscen.clusters.recording import WatchedChanges

        everything = self.backend == "controlplane"
        api = self.api("change-recorder")
        return WatchedChanges(api, self.runner.clock, note, everything=everything)

    def _open_parent(self, kubeconfig: pathlib.Path | None, namespace: str) -> ParentCluster:

        self._kubeconfig_parent = KubeconfigParent(self, kubeconfig, namespace)
        return self._kubeconfig_parent.as_parent

    def close(self) -> None:
        self.runner.close(last=self._close_all_connections())
        self._close_client()
        if self._kubeconfig_parent:
            self._kubeconfig_parent.close()

    def _close_client(self) -> None:
        if "client" in self.__dict__:
            self.client.close()

    async def _close_all_connections(self) -> None:
        if self._kubeconfig_parent:
            await self._kubeconfig_parent._close_connections()  # noqa: SLF001  # also a LiveCluster
        await self._close_connections()

    async def _close_connections(self) -> None:
        if "aio_client" in self.__dict__:
            await self.aio_client.close()
        await self._connection.close()


VERSION_TIMEOUT = 5.0  # seconds to wait for a cluster's version


class KubeconfigCluster(LiveCluster):
    """User's cluster. It is contacted before anything else, and nothing in it is owned by this run.
    Without a path it is the cluster that kubectl would use.
    """

    def __init__(
        self,
        path: pathlib.Path | str | None = None,
        context: str | None = None,
        *,
        seed: int | str = 0,
        flags: ClusterFlags = TESTED_FLAGS,
        runner: WallRunner | None = None,
    ) -> None:
        self._path, self._flags = str(path or default_path()), flags
        self._config = merged_kubeconfig(self._path, flags)
        self.context = chosen_context(self._config, context or "", self._path, flags)
        self._folder: pathlib.Path | None = None
        own = runner or WallRunner()
        try:
            self._connect(own, seed)
        except BaseException:
            if runner is None:
                own.close()
            raise

    def _connect(self, runner: WallRunner, seed: int | str) -> None:
        from kubernetes.config import ConfigException

        try:
            super().__init__(
                "kubeconfig",
                runner,
                functools.partial(configuration_of, self._path, self.context),
                seed=seed,
                owned=False,
            )
        except (ConfigException, OSError, ValueError) as error:
            raise self._refusal(f"cannot be used: {error}") from error
        try:
            runner.call(_check_reachable(self._connection))
        except BaseException as error:
            runner.call(self._connection.close())
            if isinstance(error, TimeoutError):
                reason = f"did not respond within {VERSION_TIMEOUT:.0f} s"
            elif isinstance(error, ApiError):
                code, message = error.status.get("code"), error.message.rstrip(".")
                reason = f"refuses the request: {code} {message}"
            elif isinstance(error, OSError):
                reason = f"is not reachable: {error}"
            else:
                raise
            raise self._refusal(reason) from error

    def impersonate(self, users: str) -> None:
        """Impersonate a user of its own for each actor from now on, named with this prefix.
        Requires the right to impersonate users.
        """
        self._connection.users = users

    @functools.cached_property
    def kubeconfig(self) -> pathlib.Path:
        """Kubeconfig file as given; a temporary copy if another context is chosen or several files
        were merged.
        """
        file = pathlib.Path(self._path).expanduser()
        if file.is_file() and self.context == self._config.get("current-context"):
            return file
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="kscen-kubeconfig-"))
        copy = self._folder / "kubeconfig"
        copy.write_text(json.dumps({**self._config, "current-context": self.context}))
        return copy

    def close(self) -> None:
        super().close()
        self._remove_copy()

    def _remove_copy(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _refusal(self, why: str, look: str = "version") -> ClusterRefused:
        return ClusterRefused(
            f"the cluster of context {self.context!r} in {self._path} "
            f"({server_of(self._config, self.context)}) {why}. "
            f"Try `kubectl --kubeconfig {self._path} --context {self.context} {look}`, "
            f"or {self._flags.another}"
        )


async def _check_reachable(connection: Connection) -> None:
    async with asyncio.timeout(VERSION_TIMEOUT):
        # Forbidden means reachable and authenticated: missing rights show when they are needed.
        with contextlib.suppress(Forbidden):
            await connection.request("GET", "/version", agent="pytest-kscen", attempts=1)


AGENT = "pytest-kscen"
MAX_NAMES_SHOWN = 5  # names in a message
PARENT_OPTIONS = {
    "--parent-kubeconfig FILE": "kubeconfig of the cluster that runs its nodes as virtual machines",
    "--vm-namespace NAME": "namespace of these virtual machines",
}

logger = logging.getLogger(__name__)


class KubeconfigParent(KubeconfigCluster):
    """Parent of a real cluster, in the same event loop. Only virtual machines that are nodes of the
    tested cluster are touched.
    """

    def __init__(self, nested: LiveCluster, path: pathlib.Path | None, namespace: str) -> None:
        missing = [
            name for name, given in zip(PARENT_OPTIONS, (path, namespace), strict=True) if not given
        ]
        if missing:
            what = " and ".join(f"{name} ({PARENT_OPTIONS[name]})" for name in missing)
            raise ClusterRefused(
                f"the parent of the {nested.backend} cluster is unknown: give {what}"
            )
        super().__init__(path, seed=nested.chance.seed, flags=PARENT_FLAGS, runner=nested.runner)
        try:
            found = self.runner.call(self._find_machines(nested.api(AGENT), namespace))
        except BaseException:
            self.runner.call(self._close_connections())
            raise
        self.as_parent = ParentCluster(self.api, namespace, owned=False, machines=found)

    async def _find_machines(self, nested: Api, namespace: str) -> frozenset[str]:
        """Return the names of virtual machines that are nodes of the tested cluster; ClusterRefused
        if there is none. Others are left alone.
        """
        api = self.api(AGENT)
        try:
            machines = [
                vm["metadata"]["name"] for vm in (await api.list(VIRTUAL_MACHINES, namespace)).items
            ]
        except NotFound:
            raise self._refusal(
                f"does not serve {VIRTUAL_MACHINES.qualified}: it is not the cluster that runs the "
                "virtual machines"
            ) from None
        except ApiError as error:
            raise self._refusal(
                f"denies listing its {VIRTUAL_MACHINES.qualified}: {error.message.rstrip('.')}"
            ) from error
        if not machines:
            raise self._refusal(
                "has no virtual machines in the namespace "
                f"{namespace!r}{await _other_namespaces(api)}: see --vm-namespace"
            )
        try:
            nodes = [node["metadata"]["name"] for node in (await nested.list(NODES)).items]
        except ApiError as error:
            raise ClusterRefused(
                f"the tested cluster denies listing its nodes: {error.message.rstrip('.')}"
            ) from error
        ours = [name for name in machines if name in nodes]
        if not ours:
            raise self._refusal(
                f"has no virtual machine in the namespace {namespace!r} that is a node of "
                "the tested cluster (there are "
                f"{_shorten_names(machines)}; its nodes are {_shorten_names(nodes)}): "
                "see --vm-namespace"
            )
        if foreign := [name for name in machines if name not in ours]:
            logger.info(
                "ignoring virtual machines in %s that are not nodes of the tested cluster: %s",
                namespace,
                _shorten_names(foreign),
            )
        return frozenset(ours)

    def _refusal(self, why: str, look: str = "get virtualmachines -A") -> ClusterRefused:
        return super()._refusal(why, look)

    def close(self) -> None:
        """Release what does not need the event loop, which has ended."""
        self._close_client()
        self._remove_copy()


async def _other_namespaces(api: Api) -> str:
    """Return a hint with the namespaces that have virtual machines, if listing them is allowed."""
    with contextlib.suppress(ApiError):
        if found := sorted(
            {vm["metadata"]["namespace"] for vm in (await api.list(VIRTUAL_MACHINES)).items}
        ):
            return f" (there are some in {_shorten_names(found)})"
    return ""


def _shorten_names(names: list[str]) -> str:
    shown = ", ".join(names[:MAX_NAMES_SHOWN])
    return (
        f"{shown} and {len(names) - MAX_NAMES_SHOWN} more"
        if len(names) > MAX_NAMES_SHOWN
        else shown
    )
