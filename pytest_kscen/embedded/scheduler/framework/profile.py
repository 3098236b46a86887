"""One profile at work: its plugins, made once, and asked at each point in the configured order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.embedded.scheduler.framework.attempt import SUCCESS, WAITING
from pytest_kscen.embedded.scheduler.framework.plugin import POINTS, overrides
from pytest_kscen.embedded.scheduler.framework.plugin_checks import (
    A_STATUS,
    WrongAnswer,
    a_nomination,
    a_status,
    a_status_or_names,
    awaitable,
    blaming,
    refuse_what_is_none,
)
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import Nomination
from pytest_kscen.embedded.scheduler.framework.status import (
    Code,
    Status,
    failure,
    unresolvable,
    unschedulable,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.configuration import ProfileConfiguration
    from pytest_kscen.embedded.scheduler.framework.events import Interest
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.embedded.scheduler.registry import Registry
    from pytest_kscen.objects.resources import Resource


class Narrowed(NamedTuple):
    """The only nodes that come into question, and the plugins that say so."""

    nodes: frozenset[str]
    plugins: tuple[str, ...]


class Profile:
    """A pod's schedulerName chooses one."""

    def __init__(
        self, configuration: ProfileConfiguration, registry: Registry, handle: Handle
    ) -> None:
        self.name = configuration.name
        self.percentage = configuration.percentage
        self.handle = handle
        handle.profile = self
        classes = {name: registry.resolve(name) for name in configuration.names()}
        self.plugins: dict[str, Plugin] = {
            name: _made(cls, name, configuration.arguments.get(name, {}), handle)
            for name, cls in classes.items()
        }
        self._names = {plugin: name for name, plugin in self.plugins.items()}
        points = {
            point: [
                self.plugins[name]
                for name in configuration.at(
                    point, lambda name, point: classes[name].stands_at(point)
                )
            ]
            for point in POINTS
        }
        for point, plugins in points.items():
            if wrong := [self.name_of(plugin) for plugin in plugins if not plugin.stands_at(point)]:
                raise ValueError(
                    f"profile {self.name!r}: the plugin {wrong[0]!r} does not stand at {point!r}"
                )
        self.points = points
        self.weights = {
            plugin: configuration.weight(self.name_of(plugin)) for plugin in points["score"]
        }
        self.many = frozenset(
            plugin for plugin in points["filter"] if overrides(plugin, "filter_many")
        )
        """Filters that can look at all nodes at once."""

    def close(self) -> None:
        for plugin in self.plugins.values():
            plugin.close()

    def events(self) -> list[Interest]:
        """What any of the plugins wants to hear of."""
        return [interest for plugin in self.plugins.values() for interest in plugin.events()]

    def reads(self) -> list[Resource]:
        """What any of the plugins looks at."""
        return [resource for plugin in self.plugins.values() for resource in plugin.reads]

    def name_of(self, plugin: Plugin) -> str:
        return self._names[plugin]

    # --- the queue ---

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        for plugin in self.points["preEnqueue"]:
            name = self.name_of(plugin)
            with blaming(pod):
                status = a_status(plugin.pre_enqueue(pod), name, "pre_enqueue")
            if status:
                return status.by(name)
        return None

    # --- where the pod can be ---

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | Narrowed | None:
        """None: look at all nodes. Some: only at these. A status: at none."""
        wanted: Narrowed | None = None
        rejection: Status | None = None
        for plugin in self.points["preFilter"]:
            name = self.name_of(plugin)
            answer = a_status_or_names(plugin.pre_filter(state, pod, nodes), name)
            self._note_pre_filter(state, name, answer)
            if answer is None:
                continue
            if not isinstance(answer, Status):
                names = frozenset(answer)
                wanted = (
                    Narrowed(wanted.nodes & names, (*wanted.plugins, name))
                    if wanted
                    else Narrowed(names, (name,))
                )
                if not wanted.nodes:
                    plugins = sorted(wanted.plugins)
                    if len(plugins) == 1:
                        return unresolvable(f"node(s) didn't satisfy plugin {plugins[0]}").by(
                            plugins[0]
                        )
                    return unresolvable(
                        f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously"
                    ).by(plugins[0])
            elif answer.code is Code.SKIP:
                state.skip_filter.add(name)
            elif answer.code is Code.UNSCHEDULABLE:
                rejection = answer.by(name)
            elif answer.code is Code.UNRESOLVABLE:
                return answer.by(name)
            else:
                return failure(f'running PreFilter plugin "{name}": {answer.message}').by(name)
        return rejection or wanted

    def _note_pre_filter(
        self, state: CycleState, name: str, answer: Status | Collection[str] | None
    ) -> None:
        if state.attempt is None:
            return
        if isinstance(answer, Status):
            state.attempt.pre_filter_status[name] = (
                SUCCESS if answer.code is Code.SKIP else answer.message
            )
        else:
            state.attempt.pre_filter_status[name] = SUCCESS
            if answer is not None:
                state.attempt.pre_filter[name] = sorted(answer)

    def filters(self, state: CycleState) -> list[Plugin]:
        """Those that have something to say about this pod."""
        skipped = state.skip_filter
        if not skipped:
            return self.points["filter"]
        return [plugin for plugin in self.points["filter"] if self._names[plugin] not in skipped]

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """The first refusal."""
        for plugin in self.filters(state):
            status = plugin.filter(state, pod, node)
            if status is not None:
                return judged(status, self.name_of(plugin))
        return None

    def filter_with_nominated(
        self, state: CycleState, pod: PodInfo, node: NodeInfo
    ) -> Status | None:
        """As if those were there already for whom room is being made; and, as they may not come,
        without them too.
        """
        if rivals := self.handle.nominated.rivals(pod, node.name):
            other, imagined = state.clone(), node.copy()
            for rival in rivals:
                imagined.add(rival)
                self.add_pod(other, pod, rival, imagined)
            if status := self.filter(other, pod, imagined):
                return status
        return self.filter(state, pod, node)

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        for plugin in self.points["preFilter"]:
            if self._names[plugin] not in state.skip_filter:
                plugin.add_pod(state, pod, added, node)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        for plugin in self.points["preFilter"]:
            if self._names[plugin] not in state.skip_filter:
                plugin.remove_pod(state, pod, removed, node)

    async def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: dict[str, Status]
    ) -> tuple[Nomination | None, Status | None]:
        """What is being done about it, or why nothing can be."""
        reasons: list[str] = []
        cleared: Nomination | None = None
        for plugin in self.points["postFilter"]:
            name = self.name_of(plugin)
            answer = a_nomination(
                await awaitable(plugin.post_filter(state, pod, statuses), name, "post_filter"), name
            )
            if isinstance(answer, Nomination):
                if answer.node:
                    self._note_post_filter(state, statuses, self.name_of(plugin), answer.node)
                    return answer, None
                cleared = answer
                reasons.append(answer.message)
            elif answer is None:
                return None, None
            elif not answer.rejects or answer.code is Code.UNRESOLVABLE:
                return None, answer.by(self.name_of(plugin))
            else:
                reasons += answer.reasons
        return cleared, unschedulable(*reasons)

    def _note_post_filter(
        self, state: CycleState, statuses: dict[str, Status], name: str, nominated: str
    ) -> None:
        if state.attempt is not None:
            words = {name: "preemption victim"}
            state.attempt.post_filter = {
                node: words if node == nominated else {} for node in (*statuses, nominated)
            }
            state.attempt.nominated = nominated

    # --- where it is best ---

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        for plugin in self.points["preScore"]:
            name = self.name_of(plugin)
            status = a_status(plugin.pre_score(state, pod, nodes), name, "pre_score")
            if state.attempt is not None:
                state.attempt.pre_score[name] = (
                    SUCCESS if status is None or status.code is Code.SKIP else status.message
                )
            if status is None:
                continue
            if status.code is not Code.SKIP:
                return failure(f'running PreScore plugin "{name}": {status.message}').by(name)
            state.skip_score.add(name)
        return None

    def scorers(self, state: CycleState) -> list[Plugin]:
        skipped = state.skip_score
        return [plugin for plugin in self.points["score"] if self._names[plugin] not in skipped]

    # --- taking it ---

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        for plugin in self.points["reserve"]:
            name = self.name_of(plugin)
            status = a_status(plugin.reserve(state, pod, node), name, "reserve")
            if state.attempt is not None:
                state.attempt.reserve[name] = status.message if status else SUCCESS
            if status:
                return status.by(name)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        for plugin in reversed(self.points["reserve"]):
            plugin.unreserve(state, pod, node)

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> Status | dict[str, float]:
        """A refusal, or how long which plugins want the pod to wait."""
        waits: dict[str, float] = {}
        for plugin in self.points["permit"]:
            name = self.name_of(plugin)
            status = a_status(plugin.permit(state, pod, node), name, "permit")
            if state.attempt is not None:
                waiting = status is not None and status.code is Code.WAIT
                state.attempt.permit[name] = (
                    WAITING if waiting else status.message if status else SUCCESS
                )
                if status and waiting:
                    state.attempt.permit_timeout[name] = status.seconds
            if status is None:
                continue
            if status.code is not Code.WAIT:
                return status.by(name)
            waits[name] = status.seconds
        return waits

    def pre_bind_waits(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        return any(plugin.pre_bind_waits(state, pod, node) for plugin in self.points["preBind"])

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        for plugin in self.points["preBind"]:
            name = self.name_of(plugin)
            status = a_status(
                await awaitable(plugin.pre_bind(state, pod, node), name, "pre_bind"),
                name,
                "pre_bind",
            )
            if state.attempt is not None:
                state.attempt.pre_bind[name] = status.message if status else SUCCESS
            if status:
                return status.by(name)
        return None

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        for plugin in self.points["bind"]:
            name = self.name_of(plugin)
            status = a_status(
                await awaitable(plugin.bind(state, pod, node), name, "bind"), name, "bind"
            )
            if status is not None and status.code is Code.SKIP:
                continue
            if state.attempt is not None:
                state.attempt.bind[name] = status.message if status else SUCCESS
            return status.by(name) if status else None
        return failure("no bind plugin is willing to bind the pod")

    def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        for plugin in self.points["postBind"]:
            plugin.post_bind(state, pod, node)


def judged(status: Status, name: str) -> Status:
    """What this filter says; anything but a refusal is an error, as in Kubernetes."""
    if not isinstance(status, Status):
        raise WrongAnswer(name, "filter", status, A_STATUS)
    return (
        status.by(name)
        if status.rejects
        else failure(f'running "{name}" filter plugin: {status.message}').by(name)
    )


def _made(cls: type[Plugin], name: str, args: Any, handle: Handle) -> Plugin:
    refuse_what_is_none(cls)
    try:
        plugin = cls(args, handle)
    except Exception as error:
        raise ValueError(f"the plugin {name!r} cannot be made: {error!r}") from error
    plugin.name = name
    return plugin
