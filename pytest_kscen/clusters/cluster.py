"""Protocol and common base of all clusters, and the error for a cluster that cannot be opened.

Every backend derives from `TimedCluster`; tests and actors see only `Cluster`.
"""

from __future__ import annotations

import inspect
import linecache
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pytest_kscen.objects.arguments import seconds_of

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable
    from datetime import timedelta

    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Runner
    from pytest_kscen.kube.actor import ParentCluster
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj


class ClusterRefused(Exception):
    """Failure to open a cluster or its parent. The message names what was requested, what prevents
    it, and the remedy; the plugin shows it without a traceback.
    """


class NoteChange(Protocol):
    """Receiver of the changes of a cluster's objects, such as `ChangeRecord.note`."""

    def __call__(
        self,
        resource: str,
        old: Obj | None,
        new: Obj | None,
        writer: str = "",
        *,
        initial: bool = False,
        skipped: bool = False,
    ) -> object: ...


class ChangeFeed(Protocol):
    """Changes of a cluster's objects, while they are followed."""

    def include(self, kind: str) -> None:
        """Follow this resource too; a cluster that follows all resources has nothing to do."""

    def stop(self) -> None: ...


class Cluster(Protocol):
    """Running cluster as tests hold it, whichever backend is behind it."""

    backend: str
    """Name of the backend: embedded, controlplane, kind or kubeconfig."""

    chance: Chance

    parent_kubeconfig: pathlib.Path | None
    vm_namespace: str
    """Default namespace of `parent()`."""

    scenario_player: Any
    """Scenario runner of this cluster, made on first use."""

    @property
    def runner(self) -> Runner: ...

    def api(self, agent: str = "") -> Api:
        """Return the API client of the actor with this name; the name appears as its user agent."""

    @property
    def client(self) -> Any:
        """Official synchronous client, a `kubernetes.client.ApiClient`."""

    @property
    def aio_client(self) -> Any:
        """Official asynchronous client for use inside the loop, a
        `kubernetes.aio.client.ApiClient`.
        """

    @property
    def kubeconfig(self) -> pathlib.Path:
        """Kubeconfig file for kubectl and other clients. The embedded cluster opens its port on
        first access.
        """

    @property
    def now(self) -> float:
        """Cluster time in seconds."""

    @property
    def owned(self) -> bool:
        """True if this run created the cluster and may delete any object in it."""

    @property
    def replayable(self) -> bool:
        """True if the same seed repeats the run exactly."""

    @property
    def may_have_chaos_in_parent(self) -> bool:
        """True if an earlier run may have left chaos in the parent, which must then be opened and
        cleaned.
        """

    def parent(
        self, *, kubeconfig: pathlib.Path | None = None, namespace: str = ""
    ) -> ParentCluster:
        """Return the cluster whose virtual machines are this cluster's nodes, opened on first use.

        Simulated clusters bring their own; for others a kubeconfig and a namespace are required, or
        ClusterRefused is raised.
        """

    def follow_changes(self, note: NoteChange) -> ChangeFeed:
        """Call `note` with each present object and then with each change, in the loop's thread."""

    def advance(self, duration: str | float | timedelta) -> None: ...

    def until(
        self, condition: Callable[[], object], timeout: str | float | timedelta = "5m"
    ) -> None:
        """Let time pass until the condition holds; TimeoutError, which quotes the condition, if it
        never does.
        """

    def close(self) -> None: ...


R = TypeVar("R", bound="Runner")


class TimedCluster(Generic[R]):
    """Common parts of all backends: control of time, and the settings of the parent. `runner`
    drives the event loop, in virtual or in wall-clock time.
    """

    runner: R
    owned: bool
    parent_kubeconfig: pathlib.Path | None = None
    vm_namespace: str = ""
    scenario_player: Any = None
    _parent: ParentCluster | None = None

    @property
    def may_have_chaos_in_parent(self) -> bool:
        return not self.owned or self._parent is not None

    def parent(
        self, *, kubeconfig: pathlib.Path | None = None, namespace: str = ""
    ) -> ParentCluster:
        if self._parent is None:
            self._parent = self._open_parent(
                kubeconfig or self.parent_kubeconfig, namespace or self.vm_namespace
            )
        if namespace not in ("", self._parent.namespace):
            raise ClusterRefused(
                "the parent is open already, with virtual machines in "
                f"{self._parent.namespace!r}, not in {namespace!r}"
            )
        return self._parent

    def _open_parent(self, kubeconfig: pathlib.Path | None, namespace: str) -> ParentCluster:
        raise NotImplementedError

    @property
    def now(self) -> float:
        return self.runner.clock.now()

    def advance(self, duration: str | float | timedelta) -> None:
        self.runner.advance(seconds_of(duration))

    def until(
        self, condition: Callable[[], object], timeout: str | float | timedelta = "5m"
    ) -> None:
        # Mistakenly passing the condition's value is what this finds.
        if not callable(value := inspect.unwrap(condition)):
            raise TypeError(
                f"until({value!r}): pass the condition itself, as in until(volume.ready), not its "
                "present value"
            )
        if not self.runner.until(condition, seconds_of(timeout)):
            raise TimeoutError(
                f"not true within {timeout} of cluster time: {_describe_condition(condition)}"
            )


def _describe_condition(condition: Callable[[], object]) -> str:
    """Return a description for the error message: the object's own `describe_state()`, else the
    condition's source line, else its name.
    """
    asked = inspect.unwrap(condition)
    if describe := getattr(getattr(asked, "__self__", None), "describe_state", None):
        return str(describe())
    if code := getattr(asked, "__code__", None):
        line = linecache.getline(code.co_filename, code.co_firstlineno).strip()
        return f"{line or condition} ({code.co_filename}:{code.co_firstlineno})"
    return str(condition)
