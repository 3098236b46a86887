"""The kubeconfig backend: somebody's cluster. It is asked first whether it is there, and nothing in it is ours."""

from __future__ import annotations

import asyncio
import functools
import json
import pathlib
import shutil
import tempfile
from typing import TYPE_CHECKING

from pytest_kscen.clock import WallRunner
from pytest_kscen.clusters import contexts
from pytest_kscen.clusters.live import LiveCluster
from pytest_kscen.clusters.refusal import ClusterRefused
from pytest_kscen.kube.remote import configuration_of
from pytest_kscen.objects.errors import ApiError, Forbidden

if TYPE_CHECKING:
    from pytest_kscen.kube.remote import Connection

REACH = 5.0  # seconds that a cluster has to say its version


class KubeconfigCluster(LiveCluster):
    """A `Cluster` that was handed to us. Without a path it is the one that kubectl would speak to."""

    def __init__(
        self,
        path: pathlib.Path | str | None = None,
        context: str | None = None,
        *,
        seed: int | str = 0,
        flags: contexts.Flags = contexts.TESTED,
        runner: WallRunner | None = None,
    ) -> None:
        self._path, self._flags = str(path or contexts.default_path()), flags
        self._config = contexts.merged(self._path, flags)
        self.context = contexts.chosen(self._config, context or "", self._path, flags)
        self._folder: pathlib.Path | None = None
        own = runner or WallRunner()
        try:
            self._become(own, seed)
        except BaseException:
            if runner is None:
                own.close()
            raise

    def _become(self, runner: WallRunner, seed: int | str) -> None:
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
            runner.call(_ask_version(self._connection))
        except BaseException as error:
            runner.call(self._connection.close())
            if isinstance(error, ApiError | OSError):
                raise self._refusal(_why(error)) from error
            raise

    def impersonate(self, users: str) -> None:
        """From now on each actor is a user of its own, whose name begins so: our own credentials must allow that."""
        self._connection.users = users

    @functools.cached_property
    def kubeconfig(self) -> pathlib.Path:
        """The file that was named; a copy if its current context is another, or if it is several files."""
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
            f"the cluster of context {self.context!r} in {self._path} ({contexts.server_of(self._config, self.context)}) {why}. "
            f"Try `kubectl --kubeconfig {self._path} --context {self.context} {look}`, "
            f"or {self._flags.another}"
        )


async def _ask_version(connection: Connection) -> None:
    async with asyncio.timeout(REACH):
        try:
            await connection.request("GET", "/version", agent="pytest-kscen", attempts=1)
        except Forbidden:
            """It is there and knows us; what we may do is for the test to find out."""


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"has not answered within {REACH:.0f} s"
    if isinstance(error, ApiError):
        return f"refuses us: {error.status.get('code')} {error.message.rstrip('.')}"
    return f"is not reachable: {error}"
