"""A running workflow as a tree of nodes, the guards of the state tables, and the order in which
children start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.objects.arguments import in_words
from pytest_kscen.objects.chaos_mesh import (
    FAILED,
    INIT,
    OVER,
    PARALLEL,
    SERIAL,
    STATUS_CHECK,
    SUCCEED,
    TASK,
)
from pytest_kscen.workflow.tables.machine import GRAVITY, Guard, Happening, Impossible, Result, Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.engine.templates import Definition, Template
    from pytest_kscen.workflow.tables.machine import Key


# The schedulers: the names of the templates that come next below a node. Each type of node has
# its own.


def entry_scheduler(tree: Tree, node: Node) -> Sequence[str]:
    """The entry, once."""
    return () if node.children else (tree.definition.entry,)


# all schedulers are asked alike
def serial_scheduler(tree: Tree, node: Node) -> Sequence[str]:  # noqa: ARG001
    """The child after those that were made."""
    done = len(node.children)
    return node.template.children[done : done + 1]


def parallel_scheduler(tree: Tree, node: Node) -> Sequence[str]:  # noqa: ARG001
    """All children, once."""
    return () if node.children else node.template.children


def task_scheduler(tree: Tree, node: Node) -> Sequence[str]:  # noqa: ARG001
    """All branches that were chosen, once."""
    return () if node.children else node.chosen or ()


_SCHEDULERS = {SERIAL: serial_scheduler, PARALLEL: parallel_scheduler, TASK: task_scheduler}


def scheduler_of(node: Node) -> Callable[[Tree, Node], Sequence[str]]:
    """That of the node's type; the workflow itself has the entry's."""
    return _SCHEDULERS.get(node.template.type, entry_scheduler)


ROOT = ""
"""The name by which the workflow itself goes in its tree."""


@dataclass(slots=True, eq=False)
class Node:
    """A template that was begun, or the workflow."""

    name: str
    template: Template
    parent: str | None
    started: float
    obj: Obj = field(repr=False)
    """As the API had it last."""
    phase: str = INIT
    ended: float | None = None
    attempt: int = 1
    """The first, or which of its retries."""
    children: list[str] = field(default_factory=list)
    """Of this attempt."""
    ending: Happening | None = None
    """Why it is being ended before it is done; while it waits for another attempt, that the last
    one has failed.
    """
    is_called_off: bool = False
    """It was ended by more than its own fault: it has no other attempt."""
    is_cleaning: bool = False
    """What it has made is being removed."""
    has_made: bool = False
    """Its chaos or its check was there: whoever finds it gone does not make another."""
    has_held: bool = False
    """It was in effect in this attempt."""
    has_left: bool = False
    """It is over, and what it has made is not gone yet."""
    until: dict[Wait, float] = field(default_factory=dict)
    """When what it waits for in this attempt is over; an engine that is started anew has no more
    time.
    """
    message: str = ""
    chosen: list[str] | None = None
    """The branches that a Task goes on with, once its pod was looked at."""
    evaluations: list[Obj] = field(default_factory=list)
    context: list[str] = field(default_factory=list)
    probes: list[Obj] = field(default_factory=list)
    """How they have fared."""
    is_unsaved: bool = False
    """Its phase is still to be written, with what comes of its next event."""
    turn: int = 0
    """How often its phase has changed."""
    waits_for: str = ""
    """What its pod waits for, or what keeps the workflow."""
    trouble: str = ""
    """What was refused last."""
    noted: str = ""
    """When what the API does not take of its status was noted last."""
    is_lost: bool = False
    """Its WorkflowNode is gone, and nobody knows in which attempt it was."""
    is_at_a_loss: bool = False
    """What its fault called for could not be done either."""

    @property
    def is_over(self) -> bool:
        return self.phase in OVER

    @property
    def made(self) -> str:
        """The name of what this attempt makes."""
        return self.name if self.attempt == 1 else f"{self.name}-{self.attempt}"

    @property
    def told(self) -> str:
        """Why it is over or being ended, or what it waits for."""
        return self.message or ("" if self.is_over else self.waits_for)

    def mark(self, happening: Happening, message: str) -> None:
        """Remember why it is ended; what is graver stands, and of faults before it has begun the
        last.
        """
        why = happening if happening in GRAVITY else Happening.FAULT
        self.is_called_off = self.is_called_off or why is not Happening.FAULT
        is_newer = why is self.ending and self.phase == INIT
        if self.ending is None or is_newer or GRAVITY.index(why) > GRAVITY.index(self.ending):
            self.ending = why
            self.message = message or self.message

    def begin_again(self) -> None:
        """What an attempt before this one has come to counts no more."""
        self.children = []
        self.ending = None
        self.message = ""

    def again(self) -> None:
        """Another attempt, as if it had just been made; until it has begun, the node has failed,
        and its deadline goes on.
        """
        self.attempt += 1
        self.ending = Happening.FAULT
        self.is_cleaning = False
        self.has_made = self.has_held = False
        self.until = {
            wait: instant for wait, instant in self.until.items() if wait is Wait.DEADLINE
        }
        self.chosen = None
        self.evaluations, self.context = [], []
        self.waits_for = ""
        self.is_at_a_loss = False


@dataclass(slots=True, eq=False)
class Tree:
    """One workflow."""

    key: Key
    definition: Definition
    root: Node
    nodes: dict[str, Node] = field(default_factory=dict)
    """Without the root, in the order in which they were made."""
    made: int = 0

    @property
    def aborted_by(self) -> str:
        """Which of its own status checks takes it with it; nothing if it is somebody else."""
        of = (
            node
            for node in self.nodes.values()
            if _aborts(self, node) and node.ending is Happening.FAULT
        )
        return next((f"{node.template.name}: {node.message}" for node in of), "")

    def node(self, name: str) -> Node | None:
        return self.root if name == ROOT else self.nodes.get(name)

    def children(self, node: Node) -> list[Node]:
        return [self.nodes[name] for name in node.children]

    def below(self, node: Node) -> Iterator[Node]:
        """The node itself and all that was made below it in these attempts; a tree may be deeper
        than Python's calls.
        """
        left = [node]
        while left:
            found = left.pop()
            yield found
            left += self.children(found)

    def next_below(self, node: Node) -> list[Template]:
        """The templates to be begun below this node, as the scheduler of its type picks them."""
        return [self.template(name) for name in scheduler_of(node)(self, node)]

    def template(self, name: str) -> Template:
        if name not in self.definition.templates:
            raise Impossible(f"there is no template {name!r}")
        return self.definition.templates[name]

    def holds(self, guard: Guard, node: Node) -> bool:
        """Whether this is so of the node."""
        return _GUARDS[guard](self, node)

    def has_failed(self, node: Node) -> bool:
        """Whether it is a failure above it: what was to come to a result and is cut off by its
        parent's time is none there.
        """
        is_cut_off = node.ending is Happening.PARENT_DEADLINE and needs_result(node.template)
        return node.phase == FAILED and not (
            is_cut_off and not any(map(self.has_failed, self.children(node)))
        )

    def result(self, result: Result, node: Node) -> str:
        """The phase that a node ends in."""
        if result in (Result.AS_CHILDREN, Result.AS_ENDED) and any(
            map(self.has_failed, self.children(node))
        ):
            return FAILED
        if result is Result.AS_CHILDREN:
            return FAILED if node.ending else SUCCEED
        return as_ended(node) if result is Result.AS_ENDED else result.value


def as_ended(node: Node) -> str:
    """What ends by its time is as it should be, but for what was to come to a result, and chaos
    that was never in effect.
    """
    by_time = node.ending in (Happening.DEADLINE, Happening.PARENT_DEADLINE)
    is_in_vain = needs_result(node.template) or (node.template.is_chaos and not node.has_held)
    return SUCCEED if (by_time and not is_in_vain) or node.ending is None else FAILED


def lateness(node: Node, happening: Happening) -> str:
    """The words for what ends it by its time, or by its parent's."""
    if happening is Happening.DEADLINE and node.template.deadline is not None:
        return f"its deadline of {in_words(node.template.deadline)} is over"
    return "its parent's deadline is over" if happening is Happening.PARENT_DEADLINE else ""


def needs_result(template: Template) -> bool:
    """Whether it is for nothing if its time is over before it is done."""
    is_continuous = (template.body.get("statusCheck") or {}).get("mode") == "Continuous"
    return template.type == TASK or (template.type == STATUS_CHECK and not is_continuous)


def _always(tree: Tree, node: Node) -> bool:  # noqa: ARG001  # all guards are asked alike
    return True


def _has_next(tree: Tree, node: Node) -> bool:
    return bool(scheduler_of(node)(tree, node))


def _children_over(tree: Tree, node: Node) -> bool:
    return all(child.is_over for child in tree.children(node))


def _is_ending(tree: Tree, node: Node) -> bool:  # noqa: ARG001
    return node.ending is not None


def _ending_and_children_over(tree: Tree, node: Node) -> bool:
    return _is_ending(tree, node) and _children_over(tree, node)


def _is_cleaning(tree: Tree, node: Node) -> bool:  # noqa: ARG001
    return node.is_cleaning


def _cleaning_and_ending(tree: Tree, node: Node) -> bool:
    return _is_cleaning(tree, node) and _is_ending(tree, node)


def _pod_counts(tree: Tree, node: Node) -> bool:  # noqa: ARG001
    return node.chosen is None


def _made(tree: Tree, node: Node) -> bool:  # noqa: ARG001
    return node.has_made


def _aborts(tree: Tree, node: Node) -> bool:  # noqa: ARG001
    return bool(node.template.body.get("abortWithStatusCheck"))


def _exit_left(tree: Tree, node: Node) -> bool:
    return bool(tree.definition.exit) and len(node.children) == 1 and _children_over(tree, node)


def _exit_begun(tree: Tree, node: Node) -> bool:  # noqa: ARG001
    return len(node.children) > 1


def _entry_ending(tree: Tree, node: Node) -> bool:
    return _is_ending(tree, node) and len(node.children) == 1


_GUARDS: dict[Guard, Callable[[Tree, Node], bool]] = {
    Guard.ALWAYS: _always,
    Guard.HAS_NEXT: _has_next,
    Guard.CHILDREN_OVER: _children_over,
    Guard.IS_ENDING: _is_ending,
    Guard.ENDING_AND_CHILDREN_OVER: _ending_and_children_over,
    Guard.IS_CLEANING: _is_cleaning,
    Guard.CLEANING_AND_ENDING: _cleaning_and_ending,
    Guard.POD_COUNTS: _pod_counts,
    Guard.MADE: _made,
    Guard.ABORTS: _aborts,
    Guard.EXIT_LEFT: _exit_left,
    Guard.EXIT_BEGUN: _exit_begun,
    Guard.ENTRY_ENDING: _entry_ending,
}
