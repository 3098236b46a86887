"""Process one event: look it up in the node's state table and carry out the actions listed there.

The node's status is written before any outside action and before any notification, so that an
engine that was interrupted can resume from the API; repeating an action changes nothing. A phase
that ends at once, by the node's own next event, is written together with its result."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from pytest_kscen.objects.chaos_mesh import FAILED, HOLDING, INIT, OVER, TASK
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.workflow.container_output import what_was_not_found
from pytest_kscen.workflow.engine.actors import ACTORS, BEGINNING, OUTWARD, REMOVING
from pytest_kscen.workflow.engine.cleanup import FIRST_PAUSE
from pytest_kscen.workflow.engine.pending_writes import Debts, Unwritten
from pytest_kscen.workflow.engine.statuses import words_of
from pytest_kscen.workflow.engine.templates import may_retry
from pytest_kscen.workflow.engine.trees import ROOT, lateness
from pytest_kscen.workflow.tables import WORKFLOW, machine_of
from pytest_kscen.workflow.tables.machine import (
    BY_TIME,
    ONWARD,
    PASSED_ON,
    Act,
    Event,
    Happening,
    Impossible,
    Later,
    Over,
    Tell,
    To,
    Wait,
    Whom,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.workflow.engine.actors import Hands
    from pytest_kscen.workflow.engine.cleanup import Remains
    from pytest_kscen.workflow.engine.node_probes import Hypotheses
    from pytest_kscen.workflow.engine.reporting import Voice
    from pytest_kscen.workflow.engine.repository import Repository
    from pytest_kscen.workflow.engine.templates import Template
    from pytest_kscen.workflow.engine.trees import Node, Tree
    from pytest_kscen.workflow.engine.triggers import OperableTrigger
    from pytest_kscen.workflow.tables.machine import Step

logger = logging.getLogger(__name__)

INJECTED_WITHIN, CLEANED_WITHIN = 60.0, 300.0
"""Seconds in which chaos has to be in effect, and to be gone."""
LIMITS = {Wait.INJECTION: INJECTED_WITHIN, Wait.CLEANING: CLEANED_WITHIN, Wait.LENGTH: None}
"""None: as long as its template says, or until what is above it is over if it says nothing."""
FROM_OUTSIDE = (Happening.ABORTED, Happening.FAILED_ELSEWHERE)
"""What ends a node by no fault of its own, also while its last probes are being asked."""
BEGINNINGS = (Happening.CREATED, Happening.RESUMED)
MOST_NODES = 10_000
"""That a workflow may come to: branches may lead back, but not for ever."""


class Turns:
    """Takes one event after the other."""

    def __init__(
        self,
        repository: Repository,
        trigger: OperableTrigger,
        voice: Voice,
        hands: Hands,
        hypotheses: Hypotheses,
        *,
        remains: Remains,
    ) -> None:
        self.hands = hands
        self.voice = voice
        self.hypotheses = hypotheses
        self._remains = remains
        self._clock = hands.playground.clock
        self._repository = repository
        self._trigger = trigger
        self.debts = Debts(repository, trigger, voice, self._clock, self._write)

    async def take(self, event: Event) -> None:
        tree = self._repository.trees.get(event.workflow)
        if tree and event.happening is Happening.UNWRITTEN:
            await self.debts.settle(tree)
            return
        node = tree.node(event.node) if tree else None
        if tree is None or node is None or node.is_over or event.turn not in (-1, node.turn):
            return
        if event.about and event.about != node.made:
            return
        if event.happening is Happening.JUDGED:
            await self._remember(tree, node)
            return
        if event.happening is Happening.WAITS:
            node.waits_for = event.message
            self.voice.waits(tree, node)
            await self._remember(tree, node)
            return
        if self.hypotheses.is_asked_last(tree, node):
            if event.happening not in FROM_OUTSIDE:
                node.is_called_off = (
                    node.is_called_off or event.happening in BY_TIME
                )  # there is no time for another attempt
                return
            self.hypotheses.ask_no_more(tree, node)
        await Turn(self, tree, node, event).take()
        if not self._repository.knows(
            tree
        ):  # it was deleted meanwhile, and this may have made something more
            self._remains.remove(tree, _on([node]))

    async def _remember(self, tree: Tree, node: Node) -> None:
        """How its probes have fared, or what it waits for."""
        with contextlib.suppress(Unwritten):
            await self.debts.save(tree, node)

    async def _write(self, tree: Tree, node: Node) -> None:
        node.probes = self.hypotheses.shown(tree, node)
        try:
            await self._repository.save(tree, node)
        except NotFound:  # somebody has deleted it; what it has made is still to be removed
            if node.name == ROOT:
                self.forget(tree)

    # --- what a turn needs ---

    def forget(self, tree: Tree) -> None:
        """The workflow is no more; one of the same name may be there already.

        What it has made is still to be removed.
        """
        if self._repository.knows(tree):
            self._repository.forget(tree)
            self.debts.forget(tree)
            self.hypotheses.forget(tree)
            self._trigger.forget(tree.key)
            self._remains.remove(tree, _on(tree.nodes.values()))

    def has_more(self, tree: Tree) -> bool:
        """Whether something else has happened to the workflow already."""
        return self._trigger.waits(tree.key)

    def tell(self, tree: Tree, event: Event, *, by: Node) -> None:
        """What something new comes of is not told before what has become of the node by which it
        comes is written.
        """
        if not self._repository.knows(tree):
            return
        if event.happening in ONWARD and self.debts.owes(tree, by):
            self.debts.hold(tree, by, event)
        else:
            self._trigger.notify(event)

    def tell_later(
        self,
        tree: Tree,
        node: Node,
        happening: Happening,
        instant: float,
        *,
        in_this_turn: bool = True,
    ) -> None:
        if self._repository.knows(tree):
            event = Event(tree.key, node.name, happening, turn=node.turn if in_this_turn else -1)
            self._trigger.notify_delay(event, instant - self.now())

    async def clear(self, tree: Tree, node: Node) -> None:
        """What a node has made is removed; if that cannot be done now, it is beside all else."""
        try:
            await self._remains.clear(tree, node)
        except Exception:  # noqa: BLE001  # whatever it is
            self.leave(tree, node)

    def leave(self, tree: Tree, node: Node) -> None:
        self._remains.leave(tree, node)

    async def make(self, tree: Tree, parent: Node, templates: list[Template]) -> None:
        tree.made += len(templates)
        if tree.made > MOST_NODES:
            raise Impossible(
                f"the workflow would come to more than {MOST_NODES} nodes: is there a "
                "loop that never ends?"
            )
        made: list[Node] = []
        try:
            for template in templates:
                # those before a refusal count
                made.append(await self._repository.make(tree, parent, template))  # noqa: PERF401
        finally:
            if made:
                self.voice.made(tree, parent, made)

    def now(self) -> float:
        return self._clock.now()


class Turn:
    """One event's, of one node."""

    def __init__(self, turns: Turns, tree: Tree, node: Node, event: Event) -> None:
        self._turns = turns
        self._tree = tree
        self._node = node
        self._event = event
        self._is_unsaved, node.is_unsaved = node.is_unsaved, False
        self._come: list[Happening] = []
        self._told: list[tuple[Node, Happening, str]] = []
        self._later: list[tuple[Happening, float, bool]] = []

    async def take(self) -> None:
        """Whatever goes wrong is the node's own affair, and nobody else's."""
        step: Step | None = None
        try:
            for step in self._steps():
                await self._step(step)
        except Unwritten:
            # What it is about is not begun before its status is written; only then its time to
            # be in effect begins.
            self._node.until.pop(Wait.INJECTION, None)
            self._later = [later for later in self._later if later[0] is not Happening.NOT_INJECTED]
            self._told = [(self._node, Happening.RESUMED, "")]
        except Exception as error:  # noqa: BLE001  # one workflow's mistakes stop no other
            await self._go_wrong(step, words_of(error))
        if (
            self._told == [(self._node, Happening.PICK, "")]
            and not self._come
            and not self._turns.has_more(self._tree)
        ):
            self._node.is_unsaved = self._is_unsaved
        else:
            await self._save_at_last()
        for happening in self._come:  # before its time is told to be over
            self._turns.tell(
                self._tree, Event(self._tree.key, self._node.name, happening), by=self._node
            )
        for happening, instant, in_this_turn in self._later:
            self._turns.tell_later(
                self._tree, self._node, happening, instant, in_this_turn=in_this_turn
            )
        for node, happening, message in self._told:
            turn = node.turn if happening is Happening.RESUMED else -1
            self._turns.tell(
                self._tree,
                Event(self._tree.key, node.name, happening, message, turn),
                by=self._node,
            )

    def _steps(self) -> tuple[Step, ...]:
        """Of the first alternative whose guard holds, if the node's probes let it begin."""
        tree, node, event = self._tree, self._node, self._event
        for alternative in (WORKFLOW if node.name == ROOT else machine_of(node.template.type)).cell(
            event.happening, node.phase
        ):
            if tree.holds(alternative.guard, node):
                must_wait = (
                    event.happening in BEGINNINGS
                    and self._turns.hypotheses.must_be_asked_first(tree, node, event)
                )
                return () if must_wait else alternative.steps
        return ()

    async def _go_wrong(self, step: Step | None, why: str) -> None:
        """A fault that calls for what cannot be done either, twice, is the end of the node."""
        node = self._node
        node.trouble = why
        if isinstance(step, Act):
            self._turns.voice.could_not(step, node, why)
        if step in REMOVING or step is Act.SEE_CHAOS_GONE:
            self._told = [(node, Happening.NOT_REMOVED, why)]
            return
        if self._event.happening is Happening.FAULT and node.is_at_a_loss:
            await self._give_up(why)
            return
        node.is_at_a_loss = self._event.happening is Happening.FAULT
        self._told = [(node, Happening.FAULT, why)]

    async def _give_up(self, why: str) -> None:
        """As it is, but not before what is below it is over and what it has made is removed, as
        far as that can be done.
        """
        tree, node = self._tree, self._node
        node.message = node.message or why
        if left := [
            each for each in tree.nodes.values() if each.parent == node.name and not each.is_over
        ]:
            self._told = [(each, Happening.FAILED_ELSEWHERE, node.message) for each in left]
            return
        await self._turns.clear(tree, node)
        self._end(FAILED)

    async def _step(self, step: Step) -> None:
        match step:
            case To(phase):
                self._to(phase)
            case Over(result):
                self._over(self._tree.result(result, self._node))
            case Tell(whom, happening):
                self._tell(whom, happening or PASSED_ON[self._node.ending or Happening.FAULT])
            case Later(happening, wait):
                self._wait(happening, wait)
            case Act():
                await self._act(step)

    def _to(self, phase: str) -> None:
        if phase != self._node.phase:
            self._node.turn += 1
        if self._node.phase == INIT and self._node.attempt > 1 and phase not in OVER:
            self._node.begin_again()
        self._node.phase = phase
        self._node.has_held = self._node.has_held or phase == HOLDING
        self._is_unsaved = True
        self._turns.voice.phase(self._tree, self._node)
        if self._node.template.is_chaos:
            self._turns.hypotheses.chaos_changed(self._tree, self._node)

    def _over(self, phase: str) -> None:
        node, hypotheses = self._node, self._turns.hypotheses
        if hypotheses.must_be_asked_last(self._tree, node, self._event):
            return
        phase, refuted = hypotheses.result(self._tree, node, phase)
        if refuted and node.ending is Happening.PARENT_DEADLINE:  # a failure outweighs that
            node.mark(Happening.FAULT, refuted)
        if phase == FAILED:
            of_child = self._of_children() if node.ending in BY_TIME else ""
            node.message = (
                refuted or of_child or node.message or self._event.message or self._of_children()
            )
            if may_retry(self._tree, node):
                self._try_again()
                return
        else:
            node.message = node.message or what_was_not_found(node.context)
        self._end(phase)

    def _end(self, phase: str) -> None:
        node = self._node
        node.ended = self._turns.now()
        node.probes = self._turns.hypotheses.shown(self._tree, node)
        self._to(phase)
        self._turns.voice.over(self._tree, node)
        parent = None if node.parent is None else self._tree.node(node.parent)
        if parent:
            happening = (
                Happening.CHILD_FAILED if self._tree.has_failed(node) else Happening.CHILD_SUCCEED
            )
            self._told.append((parent, happening, _with_name(node)))

    def _try_again(self) -> None:
        node = self._node
        self._to(INIT)
        node.again()
        node.until[Wait.BACK_OFF] = self._turns.now() + node.template.retry.delay_before(
            node.attempt
        )
        self._wait(Happening.CREATED, Wait.BACK_OFF)

    def _of_children(self) -> str:
        failed = [
            child for child in self._tree.children(self._node) if self._tree.has_failed(child)
        ]
        return _with_name(failed[0]) if failed else ""

    def _tell(self, whom: Whom, happening: Happening) -> None:
        if whom is Whom.SELF:
            self._told.append((self._node, happening, ""))
        elif whom is Whom.CHILDREN:
            for child in self._tree.children(self._node):
                if not child.is_over:
                    self._told.append((child, happening, self._node.message))

    def _wait(self, happening: Happening, wait: Wait) -> None:
        node, now = self._node, self._turns.now()
        if wait is Wait.DEADLINE:
            if (instant := self._deadline()) is not None:
                self._later.append((happening, instant, False))
            return
        if wait is Wait.AGAIN:
            if node.until.get(wait, now) > now:  # it is told already
                return
            node.until[wait] = now + FIRST_PAUSE
        elif wait in LIMITS and wait not in node.until:
            seconds = LIMITS[wait] or node.template.deadline
            if seconds is None:
                return
            node.until[wait] = now + seconds
            self._is_unsaved = True
        self._later.append((happening, node.until.get(wait, now), True))

    def _deadline(self) -> float | None:
        """It counts from the beginning, which is after the first probes, and for all attempts
        together.
        """
        node, seconds = self._node, self._node.template.deadline
        if seconds is None:
            return None
        if node.phase == INIT and any(probe.is_at_start for probe in node.template.probes):
            if self._event.happening is Happening.CREATED:
                node.until.setdefault(Wait.DEADLINE, self._turns.now() + seconds)
            return node.until.get(Wait.DEADLINE)
        return node.until.get(Wait.DEADLINE, node.started + seconds)

    async def _act(self, act: Act) -> None:
        node = self._node
        self._is_unsaved = self._is_unsaved or act not in (Act.HEAR_CHILDREN, Act.MAKE_CHILDREN)
        match act:
            case Act.MARK:
                node.mark(self._event.happening, self._why())
            case Act.MAKE_CHILDREN:
                await self._turns.make(self._tree, node, self._tree.next_below(node))
            case Act.MAKE_EXIT:
                node.message = (
                    node.message or self._event.message
                )  # why its entry has failed, if it has
                await self._turns.make(
                    self._tree, node, [self._tree.template(self._tree.definition.exit)]
                )
            case Act.HEAR_CHILDREN:
                # Of those that came to their end while nobody listened, one that failed counts
                # for all.
                children = self._tree.children(self._node)
                if failed := [child for child in children if self._tree.has_failed(child)]:
                    self._told.append((self._node, Happening.CHILD_FAILED, _with_name(failed[0])))
                elif children and all(child.is_over for child in children):
                    self._told.append((self._node, Happening.CHILD_SUCCEED, ""))
            case Act.QUOTE:  # which nobody wants to be a failure, but somebody to know
                node.message = self._event.message
            case Act.LEAVE:
                self._turns.leave(self._tree, self._node)
            case _:
                await self._play(act)

    async def _play(self, act: Act) -> None:
        node = self._node
        node.is_cleaning = node.is_cleaning or act in REMOVING
        if act in BEGINNING:
            await self._save()
        elif act in OUTWARD:
            with contextlib.suppress(Unwritten):
                await self._save()
        if act is Act.EVALUATE:
            self._turns.voice.pod_ended(node)
        if happening := await ACTORS[act](self._turns.hands, self._tree, node):
            self._come.append(happening)
        if act in (Act.CREATE_CHAOS, Act.CREATE_CHECK):
            node.has_made = self._is_unsaved = True
        self._turns.voice.did(act, node)

    def _why(self) -> str:
        if self._event.happening is Happening.NOT_INJECTED:
            why = self._turns.hands.watches.why_not_injected(self._tree, self._node)
            return f"it was not in effect within {INJECTED_WITHIN:g} s: {why}"
        if self._event.happening is Happening.NOT_CLEANED:
            why = self._node.trouble and f": {self._node.trouble}"
            return (
                f"it was not gone within {CLEANED_WITHIN:g} s{why}; its removal goes on being tried"
            )
        if late := lateness(self._node, self._event.happening):
            return "; ".join(
                filter(
                    None, (late, self._node.waits_for or self._pod_is_late(), self._not_in_effect())
                )
            )
        return self._event.message

    def _not_in_effect(self) -> str:
        """Why chaos has not come to be in effect so far."""
        node = self._node
        if not node.template.is_chaos or node.has_held:
            return ""
        why = (
            "it had not begun"
            if node.phase == INIT
            else self._turns.hands.watches.why_not_injected(self._tree, node)
        )
        return f"it was not in effect: {why}"

    def _pod_is_late(self) -> str:
        node = self._node
        waits = node.template.type == TASK and node.chosen is None
        return self._turns.hands.watches.why_pod_is_late(self._tree, node) if waits else ""

    async def _save(self) -> None:
        if self._is_unsaved:
            self._is_unsaved = False
            await self._turns.debts.save(self._tree, self._node)

    async def _save_at_last(self) -> None:
        """What cannot be put into words fails the node."""
        try:
            await self._save()
        except Unwritten:
            pass
        except Exception as error:  # noqa: BLE001  # as above
            self._turns.voice.unwritten(self._tree, self._node, words_of(error))
            if not self._node.is_over and self._event.happening is not Happening.FAULT:
                self._told = [(self._node, Happening.FAULT, words_of(error))]


def _on(nodes: Iterable[Node]) -> list[Node]:
    return [node for node in nodes if not node.is_over]


def _with_name(node: Node) -> str:
    """Why it failed, with the name of whose it is once; what came from outside has that already."""
    if node.phase != FAILED or not node.message:
        return ""
    return (
        node.message
        if node.children or node.ending in FROM_OUTSIDE
        else f"{node.template.name}: {node.message}"
    )
