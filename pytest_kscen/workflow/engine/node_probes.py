"""Run the probes of a node or workflow: before it starts, while it runs, and before it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.objects.chaos_mesh import FAILED, HOLDING, INIT, SUCCEED
from pytest_kscen.objects.resources import owner_reference
from pytest_kscen.workflow.engine.trees import ROOT
from pytest_kscen.workflow.probes import Probing
from pytest_kscen.workflow.tables.machine import Event, Happening

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Iterator

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.engine.trees import Node, Tree
    from pytest_kscen.workflow.engine.triggers import OperableTrigger
    from pytest_kscen.workflow.probes import Probe, Verdict
    from pytest_kscen.workflow.tables.machine import Key

    Asking = Callable[["Hypothesis", Event], Awaitable[None]]


@dataclass(slots=True, eq=False)
class Hypothesis:
    """One node's probes, in one of its attempts."""

    probing: Probing
    attempt: int
    has_begun: bool = False
    has_ended: bool = False
    awaited: Event | None = None
    """What comes when its last probes have answered."""
    refuted: str = ""
    """Why the node has failed, though all else went well."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def close(self) -> None:
        """What is being asked is asked no more."""
        self.probing.close()
        for task in self.tasks:
            task.cancel()


class Hypotheses:
    """Those of all workflows."""

    def __init__(self, actor: Actor, trigger: OperableTrigger, group: asyncio.TaskGroup) -> None:
        self._actor = actor
        self._trigger = trigger
        self._group = group
        self._of: dict[tuple[Key, str], Hypothesis] = {}

    def must_be_asked_first(self, tree: Tree, node: Node, event: Event) -> bool:
        """Whether the node cannot begin before its probes have answered; the event comes again
        then.
        """
        hypothesis = self._hypothesis(tree, node)
        if hypothesis is None or hypothesis.has_begun:
            return False
        is_resumed = event.happening is Happening.RESUMED
        if is_resumed and node.phase == INIT:  # it is told to begin by that
            return False
        hypothesis.has_begun = True
        if is_resumed:
            hypothesis.probing.begin_continuous()
            hypothesis.probing.chaos_is_on(_has_chaos(tree, node))
            return False
        self._start(hypothesis, self._begin, event, f"first probes of {node.name or tree.key}")
        return True

    def must_be_asked_last(self, tree: Tree, node: Node, event: Event) -> bool:
        """Whether the node cannot be over before its probes have answered; one that has not
        begun is not asked about.
        """
        if node.phase == INIT:
            if known := self._of.get((tree.key, node.name)):
                known.close()
            return False
        hypothesis = self._hypothesis(tree, node)
        if hypothesis is None or hypothesis.has_ended:
            return False
        hypothesis.has_ended, hypothesis.awaited = True, event
        self._start(hypothesis, self._end, event, f"last probes of {node.name or tree.key}")
        return True

    def is_asked_last(self, tree: Tree, node: Node) -> bool:
        """Whether the node is over as soon as its probes have answered: no time that is over
        changes that.
        """
        hypothesis = self._of.get((tree.key, node.name))
        return hypothesis is not None and hypothesis.awaited is not None

    def ask_no_more(self, tree: Tree, node: Node) -> None:
        """The node is over without its last answers."""
        hypothesis = self._of.get((tree.key, node.name))
        if hypothesis and hypothesis.awaited:
            hypothesis.close()
            self._trigger.notify(hypothesis.awaited)
            hypothesis.awaited = None

    def result(self, tree: Tree, node: Node, phase: str) -> tuple[str, str]:
        """In which phase the node is over by what was said, and why if that is another."""
        hypothesis = self._of.get((tree.key, node.name))
        if (
            hypothesis
            and hypothesis.refuted
            and (phase == SUCCEED or node.ending is Happening.PARENT_DEADLINE)
        ):
            return FAILED, hypothesis.refuted
        return phase, ""

    def chaos_changed(self, tree: Tree, node: Node) -> None:
        """Chaos of this node is on, or no more: whoever stands above it asks, or stops asking."""
        for above in _upwards(tree, node):
            if hypothesis := self._of.get((tree.key, above.name)):
                hypothesis.probing.chaos_is_on(_has_chaos(tree, above))

    def shown(self, tree: Tree, node: Node) -> list[Obj]:
        """For a node's status; for the workflow's all that there are."""
        if node.name != ROOT:
            return self._results(tree, node)
        return [
            result for each in (node, *tree.nodes.values()) for result in self._results(tree, each)
        ]

    def forget(self, tree: Tree) -> None:
        """What is being asked is asked no more: another workflow may have its name, and is not
        to hear of it.
        """
        for each in (tree.root, *tree.nodes.values()):
            if hypothesis := self._of.pop((tree.key, each.name), None):
                hypothesis.close()

    def _results(self, tree: Tree, node: Node) -> list[Obj]:
        hypothesis = self._of.get((tree.key, node.name))
        named = {"node": node.name} if node.name else {}
        return (
            [{**result, **named} for result in hypothesis.probing.results]
            if hypothesis
            else _before(node)
        )

    def _hypothesis(self, tree: Tree, node: Node) -> Hypothesis | None:
        """Of this attempt; None if the node has no probes."""
        probes = tree.definition.probes if node.name == ROOT else node.template.probes
        if not probes:
            return None
        known = self._of.get((tree.key, node.name))
        if known is None or known.attempt != node.attempt:
            before = [] if known else _before(node)
            key, name = tree.key, node.name
            subject = {
                "workflow": key.name,
                "namespace": key.namespace,
                **({"node": name} if name else {}),
            }

            def failed(probe: Probe, why: str) -> None:
                self._trigger.notify(
                    Event(key, name, Happening.FAULT, f"the probe {probe.name!r} has failed: {why}")
                )

            def judged() -> None:
                self._trigger.notify(Event(key, name, Happening.JUDGED))

            owner, group = owner_reference(node.obj), self._group
            known = self._of[tree.key, node.name] = Hypothesis(
                Probing(
                    self._actor,
                    probes,
                    subject,
                    failed,
                    judged=judged,
                    group=group,
                    owner=owner,
                    before=before,
                ),
                node.attempt,
            )
        return known

    def _start(self, hypothesis: Hypothesis, asking: Asking, event: Event, name: str) -> None:
        """Beside all that goes on; what goes wrong with it is this node's fault alone."""
        task = self._group.create_task(self._minding(hypothesis, asking, event), name=name)
        hypothesis.tasks.add(task)
        task.add_done_callback(hypothesis.tasks.discard)

    async def _minding(self, hypothesis: Hypothesis, asking: Asking, event: Event) -> None:
        try:
            await asking(hypothesis, event)
        except Exception as error:  # noqa: BLE001  # one workflow's mistakes stop no other
            hypothesis.awaited = None
            self._trigger.notify(
                Event(
                    event.workflow,
                    event.node,
                    Happening.FAULT,
                    f"its probes cannot be asked: {error!r}",
                )
            )

    async def _begin(self, hypothesis: Hypothesis, event: Event) -> None:
        verdicts = await hypothesis.probing.at_start()
        if why := _refutation(verdicts):
            self._trigger.notify(
                Event(event.workflow, event.node, Happening.FAULT, f"before it began, {why}")
            )
            return
        hypothesis.probing.begin_continuous()
        self._trigger.notify(event)

    async def _end(self, hypothesis: Hypothesis, event: Event) -> None:
        hypothesis.refuted = _refutation(await hypothesis.probing.at_end())
        hypothesis.awaited = None
        self._trigger.notify(event)


def _refutation(verdicts: list[Verdict]) -> str:
    """The first that it cannot stand."""
    for verdict in verdicts:
        if verdict.stops:
            return f"the probe {verdict.probe.name!r} has failed: {verdict.message}"
    return ""


def _before(node: Node) -> list[Obj]:
    """What an engine that went before has written of a node's own probes; a workflow's status
    has those of all.
    """
    written = (node.obj.get("status") or {}).get("probes") or []
    return [result for result in written if result.get("node", ROOT) == node.name]


def _has_chaos(tree: Tree, node: Node) -> bool:
    """Whether some is on, here or below."""
    return any(each.template.is_chaos and each.phase == HOLDING for each in tree.below(node))


def _upwards(tree: Tree, node: Node) -> Iterator[Node]:
    above: Node | None = node
    while above:
        yield above
        above = None if above.parent is None else tree.node(above.parent)
