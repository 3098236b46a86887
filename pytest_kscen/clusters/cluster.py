"""What a test holds, whichever backend is behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable
    from datetime import timedelta

    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Runner
    from pytest_kscen.kube.api import Api


class Cluster(Protocol):
    """A running cluster."""

    backend: str
    """embedded, controlplane, kind or kubeconfig."""

    runner: Runner
    chance: Chance

    def api(self, agent: str = "") -> Api:
        """What an actor of this name speaks."""

    @property
    def client(self) -> Any:
        """The official client: a `kubernetes.client.ApiClient`."""

    @property
    def kubeconfig(self) -> pathlib.Path:
        """A file that kubectl and any other client can use; the embedded cluster opens its port when it is first asked for."""

    @property
    def now(self) -> float:
        """Seconds of cluster time."""

    @property
    def owned(self) -> bool:
        """Whether we made this cluster, and may delete what we find in it."""

    def advance(self, duration: str | float | timedelta) -> None: ...

    def until(self, condition: Callable[[], object], timeout: str | float | timedelta = "5m") -> None:
        """Let time pass until the condition holds; a TimeoutError says what did not."""

    def close(self) -> None: ...
