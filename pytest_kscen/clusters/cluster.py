"""Why a cluster is not handed out, in words for whoever asked for it."""

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


class ClusterRefused(Exception):
    """There is no such cluster now.

    The message says what was asked for, what stands in the way, and what to do.
    """


class Cluster(Protocol):
    """A running cluster."""

    backend: str
    """embedded, controlplane, kind or kubeconfig."""

    chance: Chance

    parent_kubeconfig: pathlib.Path | None
    vm_namespace: str
    """What `parent()` goes by if it is not told anything else."""

    theatre: Any
    """What plays scenarios on it, once somebody wants that."""

    @property
    def runner(self) -> Runner: ...

    def api(self, agent: str = "") -> Api:
        """What an actor of this name speaks."""

    @property
    def client(self) -> Any:
        """The official client: a `kubernetes.client.ApiClient`."""

    @property
    def aio_client(self) -> Any:
        """The official asynchronous client, for use inside the loop: a
        `kubernetes.aio.client.ApiClient`.
        """

    @property
    def kubeconfig(self) -> pathlib.Path:
        """A file that kubectl and any other client can use; the embedded cluster opens its port
        when it is first asked for.
        """

    @property
    def now(self) -> float:
        """Seconds of cluster time."""

    @property
    def owned(self) -> bool:
        """Whether we made this cluster, and may delete what we find in it."""

    @property
    def replayable(self) -> bool:
        """Whether the same seed gives the same run."""

    @property
    def may_be_shaken(self) -> bool:
        """Whether an earlier run may have left chaos in its parent, which is then to be opened."""

    def parent(
        self, *, kubeconfig: pathlib.Path | None = None, namespace: str = ""
    ) -> ParentCluster:
        """The cluster in which this one's nodes are virtual machines, opened when it is first asked
        for.

        Simulated clusters bring their own; for the others somebody has to say where it is, or it is
        a ClusterRefused."""

    def advance(self, duration: str | float | timedelta) -> None: ...

    def until(
        self, condition: Callable[[], object], timeout: str | float | timedelta = "5m"
    ) -> None:
        """Let time pass until the condition holds; a TimeoutError says what did not."""

    def close(self) -> None: ...


R = TypeVar("R", bound="Runner")


class TimedCluster(Generic[R]):
    """What is the same for every backend: time, and what is said of the parent."""

    runner: R
    owned: bool
    parent_kubeconfig: pathlib.Path | None = None
    vm_namespace: str = ""
    theatre: Any = None
    _parent: ParentCluster | None = None

    @property
    def may_be_shaken(self) -> bool:
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
        _check_condition(condition)
        if not self.runner.until(condition, seconds_of(timeout)):
            raise TimeoutError(
                f"not true within {timeout} of cluster time: {_describe_condition(condition)}"
            )


def _check_condition(condition: object) -> None:
    # which is the question
    if not callable(asked := inspect.unwrap(condition)):  # type: ignore[arg-type]
        raise TypeError(
            f"until({asked!r}): give the condition itself, as in until(volume.ready), not "
            "what it says now"
        )


def _describe_condition(condition: Callable[[], object]) -> str:
    """What whoever is asked says of it, or the condition as its author wrote it, or at least its
    name.
    """
    asked = inspect.unwrap(condition)
    if standing := getattr(getattr(asked, "__self__", None), "standing", None):
        return str(standing())
    if code := getattr(asked, "__code__", None):
        line = linecache.getline(code.co_filename, code.co_firstlineno).strip()
        return f"{line or condition} ({code.co_filename}:{code.co_firstlineno})"
    return str(condition)
