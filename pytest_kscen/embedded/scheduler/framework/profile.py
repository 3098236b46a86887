"""Profile at work: its plugin objects, called at each point in the configured order.

Made by `Scheduler` for each configuration. Results are checked here and recorded in the attempt, if
the scheduler has a sink.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.embedded.scheduler.framework.attempt import SUCCESS, WAITING
from pytest_kscen.embedded.scheduler.framework.plugin import POINTS, overrides
from pytest_kscen.embedded.scheduler.framework.plugin_checks import (
    STATUS_FORM,
    InvalidPluginResult,
    attribute_plugin_errors,
    check_awaitable,
    check_nomination,
    check_plugin_class,
    check_pre_filter_result,
    check_status,
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
    from collections.abc import Callable, Collection, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.configuration import ProfileConfiguration
    from pytest_kscen.embedded.scheduler.framework.events import Interest
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.objects.resources import Resource


class PreFilterResult(NamedTuple):
    """Only nodes that may be considered, and the plugins that restricted the search to them."""

    nodes: frozenset[str]
    plugins: tuple[str, ...]


class SchedulerProfile:
    """Plugins of one schedulerName. The constructor makes them and raises ValueError if a plugin is
    unknown, cannot be made, or is enabled at a point that it does not implement.
    """

    def __init__(
        self,
        configuration: ProfileConfiguration,
        resolve: Callable[[str], type[Plugin]],
        handle: Handle,
    ) -> None:
        self.name = configuration.name
        self.percentage = configuration.percentage
        self.handle = handle
        handle.profile = self
        classes = {name: resolve(name) for name in configuration.names()}
        self.plugins: dict[str, Plugin] = {}
        for name, cls in classes.items():
            check_plugin_class(cls)
            try:
                self.plugins[name] = cls(configuration.arguments.get(name, {}), handle)
            except Exception as error:
                raise ValueError(f"the plugin {name!r} cannot be created: {error!r}") from error
            self.plugins[name].name = name
        self._names = {plugin: name for name, plugin in self.plugins.items()}
        points = {
            point: [
                self.plugins[name]
                for name in configuration.at(
                    point, lambda name, point: classes[name].implements(point)
                )
            ]
            for point in POINTS
        }
        for point, plugins in points.items():
            if unimplemented := [
                self.name_of(plugin) for plugin in plugins if not plugin.implements(point)
            ]:
                raise ValueError(
                    f"profile {self.name!r}: the plugin {unimplemented[0]!r} does not "
                    f"implement {point!r}"
                )
        self.points = points
        self.weights = {
            plugin: configuration.weight(self.name_of(plugin)) for plugin in points["score"]
        }
        self.many = frozenset(
            plugin for plugin in points["filter"] if overrides(plugin, "filter_many")
        )
        """Filters that implement filter_many."""

    def close(self) -> None:
        for plugin in self.plugins.values():
            plugin.close()

    def events(self) -> list[Interest]:
        return [interest for plugin in self.plugins.values() for interest in plugin.events()]

    def reads(self) -> list[Resource]:
        return [resource for plugin in self.plugins.values() for resource in plugin.reads]

    def name_of(self, plugin: Plugin) -> str:
        return self._names[plugin]

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        for plugin in self.points["preEnqueue"]:
            name = self.name_of(plugin)
            with attribute_plugin_errors(pod):
                status = check_status(plugin.pre_enqueue(pod), name, "pre_enqueue")
            if status:
                return status.by(name)
        return None

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | PreFilterResult | None:
        """Call the pre_filter plugins. None considers all nodes, a PreFilterResult only some; a
        status refuses all of them.
        """
        wanted: PreFilterResult | None = None
        rejection: Status | None = None
        for plugin in self.points["preFilter"]:
            name = self.name_of(plugin)
            answer = check_pre_filter_result(plugin.pre_filter(state, pod, nodes), name)
            self._record_pre_filter(state, name, answer)
            if answer is None:
                continue
            if not isinstance(answer, Status):
                names = frozenset(answer)
                wanted = (
                    PreFilterResult(wanted.nodes & names, (*wanted.plugins, name))
                    if wanted
                    else PreFilterResult(names, (name,))
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

    def _record_pre_filter(
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
        skipped = state.skip_filter
        if not skipped:
            return self.points["filter"]
        return [plugin for plugin in self.points["filter"] if self._names[plugin] not in skipped]

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        for plugin in self.filters(state):
            status = plugin.filter(state, pod, node)
            if status is not None:
                return check_filter_status(status, self.name_of(plugin))
        return None

    def filter_with_nominated(
        self, state: CycleState, pod: PodInfo, node: NodeInfo
    ) -> Status | None:
        """Return the first refusal of a node, filtered with the pods nominated to it counted as
        present, and again without them, as they may never arrive.
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
        """Call the post_filter plugins until one nominates a node. Return the nomination, or the
        status with the reasons why none was made.
        """
        reasons: list[str] = []
        cleared: Nomination | None = None
        for plugin in self.points["postFilter"]:
            name = self.name_of(plugin)
            answer = check_nomination(
                await check_awaitable(
                    plugin.post_filter(state, pod, statuses), name, "post_filter"
                ),
                name,
            )
            if isinstance(answer, Nomination):
                if answer.node:
                    if state.attempt is not None:
                        state.attempt.post_filter = {
                            **{node: {} for node in statuses},
                            answer.node: {name: "preemption victim"},
                        }
                        state.attempt.nominated = answer.node
                    return answer, None
                cleared = answer
                reasons.append(answer.message)
            elif answer is None:
                return None, None
            elif not answer.rejects or answer.code is Code.UNRESOLVABLE:
                return None, answer.by(name)
            else:
                reasons += answer.reasons
        return cleared, unschedulable(*reasons)

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        for plugin in self.points["preScore"]:
            name = self.name_of(plugin)
            status = check_status(plugin.pre_score(state, pod, nodes), name, "pre_score")
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

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        for plugin in self.points["reserve"]:
            name = self.name_of(plugin)
            status = check_status(plugin.reserve(state, pod, node), name, "reserve")
            if state.attempt is not None:
                state.attempt.reserve[name] = status.message if status else SUCCESS
            if status:
                return status.by(name)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        for plugin in reversed(self.points["reserve"]):
            plugin.unreserve(state, pod, node)

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> Status | dict[str, float]:
        """Return a refusal, or the seconds that the pod must wait for each plugin; empty if none
        does.
        """
        waits: dict[str, float] = {}
        for plugin in self.points["permit"]:
            name = self.name_of(plugin)
            status = check_status(plugin.permit(state, pod, node), name, "permit")
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
            status = check_status(
                await check_awaitable(plugin.pre_bind(state, pod, node), name, "pre_bind"),
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
            status = check_status(
                await check_awaitable(plugin.bind(state, pod, node), name, "bind"), name, "bind"
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


def check_filter_status(status: Status, name: str) -> Status:
    """Return a filter's status with the plugin's name. As in Kubernetes, a status that is no
    refusal is an error of the plugin.
    """
    if not isinstance(status, Status):
        raise InvalidPluginResult(name, "filter", status, STATUS_FORM)
    return (
        status.by(name)
        if status.rejects
        else failure(f'running "{name}" filter plugin: {status.message}').by(name)
    )
