"""Running workflow in memory: the tree of its nodes, the tables' guards, and the schedulers.

A scheduler returns the templates that start next below a node, by the node's type. The module does
not access a cluster: `transitions` changes nodes, `repository` stores them.
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
from pytest_kscen.workflow.tables.machine import (
    SEVERITY,
    Delay,
    EventType,
    Guard,
    NodeActionError,
    NodeResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.engine.templates import Definition, Template
    from pytest_kscen.workflow.tables.machine import WorkflowKey


def entry_scheduler(tree: Tree, node: TreeNode) -> Sequence[str]:
    return () if node.children else (tree.definition.entry,)


def serial_scheduler(tree: Tree, node: TreeNode) -> Sequence[str]:  # noqa: ARG001  # one signature
    done = len(node.children)
    return node.template.children[done : done + 1]


def parallel_scheduler(tree: Tree, node: TreeNode) -> Sequence[str]:  # noqa: ARG001
    return () if node.children else node.template.children


def task_scheduler(tree: Tree, node: TreeNode) -> Sequence[str]:  # noqa: ARG001
    return () if node.children else node.chosen or ()


_SCHEDULERS = {SERIAL: serial_scheduler, PARALLEL: parallel_scheduler, TASK: task_scheduler}


def scheduler_of(node: TreeNode) -> Callable[[Tree, TreeNode], Sequence[str]]:
    """Return the scheduler of the node's type; the workflow itself has `entry_scheduler`."""
    return _SCHEDULERS.get(node.template.type, entry_scheduler)


ROOT = ""
"""Name of the root: the workflow itself as a node of its own tree."""


@dataclass(slots=True, eq=False)
class TreeNode:
    """Started template, or the workflow itself as the root of its tree.

    `transitions` alone changes its phase; the repository writes it to the WorkflowNode's status and
    restores it from there. Every field below `obj` can be rebuilt from that status.
    """

    name: str
    template: Template
    parent: str | None
    started: float
    obj: Obj = field(repr=False)
    """Latest object from the API; the workflow's object for the root."""
    phase: str = INIT
    ended: float | None = None
    attempt: int = 1
    """Number of the attempt, from 1."""
    children: list[str] = field(default_factory=list)
    """Names of the children of this attempt, in the order in which they were made."""
    ending: EventType | None = None
    """Cause of an early end; before a retry begins, FAULT of the previous attempt."""
    retry_forbidden: bool = False
    """True if it was ended by another cause than its own fault: there is no other attempt."""
    is_cleaning: bool = False
    """Deletion of its objects has begun."""
    has_created: bool = False
    """True if its chaos or check was created; if the object is missing, a user has deleted it."""
    was_injected: bool = False
    """Chaos was in effect in this attempt."""
    has_leftovers: bool = False
    """True if it is over, but its objects are not deleted yet."""
    until: dict[Delay, float] = field(default_factory=dict)
    """Ends of the delays of this attempt, in seconds since the epoch; a restarted engine keeps
    them.
    """
    message: str = ""
    chosen: list[str] | None = None
    """Targets of the branches that a Task continues with; None before its pod was evaluated."""
    evaluations: list[Obj] = field(default_factory=list)
    context: list[str] = field(default_factory=list)
    probes: list[Obj] = field(default_factory=list)
    """Results of its probes, in the form of `status.probes`."""
    is_unsaved: bool = False
    """True if the phase is unwritten: it is written together with the result of the next event."""
    phase_count: int = 0
    """Number of phase changes so far; events that were set up for an earlier phase expire by it."""
    waiting_reason: str = ""
    """Reason why its pod waits; for the root, the hindrance of the workflow."""
    last_error: str = ""
    """Message of the last refused action."""
    noted_at: str = ""
    """MicroTime of the last note of a refused status."""
    is_lost: bool = False
    """Placeholder of a deleted WorkflowNode, whose attempt is unknown."""
    fault_unhandled: bool = False
    """The reaction to its fault has failed as well; a second such failure ends it."""

    @property
    def is_over(self) -> bool:
        return self.phase in OVER

    @property
    def object_name(self) -> str:
        return self.name if self.attempt == 1 else f"{self.name}-{self.attempt}"

    @property
    def shown_message(self) -> str:
        """Message of its status: the cause of its end, or the reason why it waits."""
        return self.message or ("" if self.is_over else self.waiting_reason)

    def record_cause(self, event_type: EventType, message: str) -> None:
        """Record the cause of an early end; a more severe cause replaces a less severe one.

        Before the node has begun, a later fault replaces an earlier one.
        """
        why = event_type if event_type in SEVERITY else EventType.FAULT
        self.retry_forbidden = self.retry_forbidden or why is not EventType.FAULT
        is_newer = why is self.ending and self.phase == INIT
        if self.ending is None or is_newer or SEVERITY.index(why) > SEVERITY.index(self.ending):
            self.ending = why
            self.message = message or self.message

    def clear_last_attempt(self) -> None:
        """Clear the children, cause and message of the previous attempt."""
        self.children = []
        self.ending = None
        self.message = ""

    def prepare_retry(self) -> None:
        """Begin another attempt with the state of a new node. Until it starts, the node counts as
        failed.

        The deadline stays, because it covers all attempts.
        """
        self.attempt += 1
        self.ending = EventType.FAULT
        self.is_cleaning = False
        self.has_created = self.was_injected = False
        self.until = {
            wait: instant for wait, instant in self.until.items() if wait is Delay.DEADLINE
        }
        self.chosen = None
        self.evaluations, self.context = [], []
        self.waiting_reason = ""
        self.fault_unhandled = False


@dataclass(slots=True, eq=False)
class Tree:
    """Workflow with its nodes: one instance per running workflow, owned by the repository.

    A new workflow of the same name gets another tree. Code that awaits therefore checks with
    `Repository.is_current` that its tree is still the registered one.
    """

    key: WorkflowKey
    definition: Definition
    root: TreeNode
    nodes: dict[str, TreeNode] = field(default_factory=dict)
    """Nodes by name without the root, in the order in which they were made."""
    node_count: int = 0
    """Number of nodes created so far, including refused creations."""

    @property
    def aborted_by(self) -> str:
        """Template and message of the status check that aborts this workflow; empty if none
        does.
        """
        of = (
            node
            for node in self.nodes.values()
            if _aborts_workflow(node) and node.ending is EventType.FAULT
        )
        return next((f"{node.template.name}: {node.message}" for node in of), "")

    def node(self, name: str) -> TreeNode | None:
        return self.root if name == ROOT else self.nodes.get(name)

    def children(self, node: TreeNode) -> list[TreeNode]:
        return [self.nodes[name] for name in node.children]

    def below(self, node: TreeNode) -> Iterator[TreeNode]:
        """Yield the node and its descendants of the present attempts, without recursion, so that
        any depth works.
        """
        left = [node]
        while left:
            found = left.pop()
            yield found
            left += self.children(found)

    def next_below(self, node: TreeNode) -> list[Template]:
        """Return the templates that start next below this node, by the scheduler of its type."""
        return [self.template(name) for name in scheduler_of(node)(self, node)]

    def template(self, name: str) -> Template:
        """Return the template of this name; raise NodeActionError if there is none."""
        if name not in self.definition.templates:
            raise NodeActionError(f"there is no template {name!r}")
        return self.definition.templates[name]

    def holds(self, guard: Guard, node: TreeNode) -> bool:
        return _GUARDS[guard](self, node)

    def has_failed(self, node: TreeNode) -> bool:
        """Return True if the node counts as a failure for its parent.

        A Task or check that was cut off by the parent's deadline does not, unless one of its
        children failed.
        """
        is_cut_off = node.ending is EventType.PARENT_DEADLINE and needs_result(node.template)
        return node.phase == FAILED and not (
            is_cut_off and not any(map(self.has_failed, self.children(node)))
        )

    def result(self, result: NodeResult, node: TreeNode) -> str:
        """Return the last phase of a node, by the rule of its table and its children's phases."""
        if result in (NodeResult.AS_CHILDREN, NodeResult.AS_ENDED) and any(
            map(self.has_failed, self.children(node))
        ):
            return FAILED
        if result is NodeResult.AS_CHILDREN:
            return FAILED if node.ending else SUCCEED
        return phase_when_ended(node) if result is NodeResult.AS_ENDED else result.value


def not_over(nodes: Iterable[TreeNode]) -> list[TreeNode]:
    return [node for node in nodes if not node.is_over]


def phase_when_ended(node: TreeNode) -> str:
    """Return the phase of a node that was ended early, by the cause.

    A deadline leaves it Succeed, except for chaos that was never in effect and types that need a
    result.
    """
    by_time = node.ending in (EventType.DEADLINE, EventType.PARENT_DEADLINE)
    is_failure = needs_result(node.template) or (node.template.is_chaos and not node.was_injected)
    return SUCCEED if (by_time and not is_failure) or node.ending is None else FAILED


def deadline_message(node: TreeNode, event_type: EventType) -> str:
    """Return the message of an end by the node's own or its parent's deadline; else an empty
    text.
    """
    if event_type is EventType.DEADLINE and node.template.deadline is not None:
        return f"its deadline of {in_words(node.template.deadline)} is over"
    return "its parent's deadline is over" if event_type is EventType.PARENT_DEADLINE else ""


def needs_result(template: Template) -> bool:
    """Return True if a node of this template fails when its time is over before it is done."""
    is_continuous = (template.body.get("statusCheck") or {}).get("mode") == "Continuous"
    return template.type == TASK or (template.type == STATUS_CHECK and not is_continuous)


def _children_over(tree: Tree, node: TreeNode) -> bool:
    return all(child.is_over for child in tree.children(node))


def _aborts_workflow(node: TreeNode) -> bool:
    return bool(node.template.body.get("abortWithStatusCheck"))


_GUARDS: dict[Guard, Callable[[Tree, TreeNode], bool]] = {
    Guard.ALWAYS: lambda _tree, _node: True,
    Guard.HAS_NEXT: lambda tree, node: bool(scheduler_of(node)(tree, node)),
    Guard.CHILDREN_OVER: _children_over,
    Guard.ENDING: lambda _tree, node: node.ending is not None,
    Guard.ENDING_AND_CHILDREN_OVER: lambda tree, node: (
        node.ending is not None and _children_over(tree, node)
    ),
    Guard.CLEANING: lambda _tree, node: node.is_cleaning,
    Guard.CLEANING_AND_ENDING: lambda _tree, node: node.is_cleaning and node.ending is not None,
    Guard.POD_NOT_EVALUATED: lambda _tree, node: node.chosen is None,
    Guard.CREATED_OBJECT: lambda _tree, node: node.has_created,
    Guard.ABORTS_WORKFLOW: lambda _tree, node: _aborts_workflow(node),
    Guard.EXIT_PENDING: lambda tree, node: (
        bool(tree.definition.exit) and len(node.children) == 1 and _children_over(tree, node)
    ),
    Guard.EXIT_STARTED: lambda _tree, node: len(node.children) > 1,
    Guard.ENTRY_ENDING: lambda _tree, node: node.ending is not None and len(node.children) == 1,
}
