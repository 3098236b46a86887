"""Which behaviour a container has: what its annotations tell, what a test registered, what its command or image is."""

from __future__ import annotations

import fnmatch
import functools
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_kscen.kube.requests import HttpAnswer, HttpCall
from pytest_kscen.simulation.images.annotated import told_by_annotations
from pytest_kscen.simulation.images.builtin import built_in, waits_to_be_stopped
from pytest_kscen.simulation.images.context import ContainerContext
from pytest_kscen.simulation.images.names import names_of

if TYPE_CHECKING:
    from pytest_kscen.simulation.images.serving import Service

Behaviour = Callable[[ContainerContext], Awaitable[int]]
"""`async def run(container) -> int`: its end is the container's, its value the exit code."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rule(Generic[T]):
    """A behaviour and the containers that it is for, as shell patterns."""

    run: T
    image: str
    container: str
    pod: str
    namespace: str

    def is_for(self, container: ContainerContext) -> bool:
        metadata = container.pod["metadata"]
        return (
            any(fnmatch.fnmatchcase(name, self.image) for name in names_of(container.image))
            and fnmatch.fnmatchcase(container.name, self.container)
            and fnmatch.fnmatchcase(metadata["name"], self.pod)
            and fnmatch.fnmatchcase(metadata.get("namespace", ""), self.namespace)
        )


class Images:
    """The registry of behaviours. What was registered last is asked first."""

    def __init__(self) -> None:
        self._rules: list[Rule[Behaviour]] = []
        self._services: list[tuple[Rule[Service], int | None]] = []
        self._missing: dict[str, None] = {}
        self._listeners: dict[int, Callable[[], None]] = {}
        self._numbers = itertools.count()

    def register(
        self, run: Behaviour, *, image: str = "*", container: str = "*", pod: str = "*", namespace: str = "*"
    ) -> Callable[[], None]:
        """Let containers that match do this from their next start on; what is returned takes it back.

        An image matches by its whole name, or without its tag, or by its last part alone: `*/nginx:*`, `nginx`.
        """
        rule = Rule(run, image, container, pod, namespace)
        self._rules.insert(0, rule)
        return lambda: self._rules.remove(rule)

    def serve(
        self,
        answer: HttpAnswer | Service,
        *,
        image: str = "*",
        container: str = "*",
        pod: str = "*",
        namespace: str = "*",
        port: int | None = None,
    ) -> Callable[[], None]:
        """Let containers that match answer this over HTTP, at this port or any; what is returned takes it back.

        Instead of an answer it may be an `async def serve(call, container) -> HttpAnswer`.
        """

        async def always(_: HttpCall, __: ContainerContext) -> HttpAnswer:
            return answer  # type: ignore[return-value]  # else it is a service

        entry = Rule(always if isinstance(answer, HttpAnswer) else answer, image, container, pod, namespace), port
        self._services.insert(0, entry)
        self._tell()

        def forget() -> None:
            self._services.remove(entry)
            self._tell()

        return forget

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Tell whenever what some container answers may have changed; what is returned ends that."""
        number = next(self._numbers)
        self._listeners[number] = listener

        def forget() -> None:
            del self._listeners[number]

        return forget

    def _tell(self) -> None:
        for listener in list(self._listeners.values()):
            listener()

    def service_of(self, container: ContainerContext, port: int) -> Service | None:
        """What a test has taught this container to answer."""
        return next((rule.run for rule, its in self._services if its in (None, port) and rule.is_for(container)), None)

    def withhold(self, image: str) -> Callable[[], None]:
        """Let pulls of images that match fail; what is returned takes it back."""
        self._missing[image] = None
        return lambda: self._missing.pop(image, None)

    def can_be_pulled(self, image: str) -> bool:
        """Images of a registry under `.invalid`, a domain that never is, cannot."""
        registry = image.split("/", 1)[0].split(":", maxsplit=1)[0]
        if "/" in image and registry.endswith(".invalid"):
            return False
        return not any(fnmatch.fnmatchcase(name, pattern) for pattern in self._missing for name in names_of(image))

    def program_of(self, container: ContainerContext) -> Behaviour | None:
        """What this container does; None if it only waits to be stopped."""
        try:
            told = told_by_annotations(container)
        except ValueError as error:
            return functools.partial(_refuse, str(error))
        if told.log:
            container.write(told.log)
        if told.ends:
            return told.run
        for rule in self._rules:
            if rule.is_for(container):
                return rule.run
        return None if waits_to_be_stopped(container) else built_in


async def _refuse(why: str, _: ContainerContext) -> int:
    raise ValueError(why)
