"""The schedulers: the names of the templates that come next below a node. Each type of node has its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.workflows import PARALLEL, SERIAL, TASK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kscen.workflow.trees import Node, Tree


def entry_scheduler(tree: Tree, node: Node) -> Sequence[str]:
    """The entry, once."""
    return () if node.children else (tree.definition.entry,)


def serial_scheduler(tree: Tree, node: Node) -> Sequence[str]:  # noqa: ARG001  # all schedulers are asked alike
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
