"""Exit code and output of a container that has terminated, for expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.workflow.tables.machine import NodeActionError

if TYPE_CHECKING:
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

LIMIT = 1024 * 1024
"""Bytes that an expression may look at."""
LONGEST_CHARACTER = 4
"""Bytes of the longest one: where a log is cut, one may be lost."""

NOT_FOUND = 127
"""The exit code of a shell that does not know a command."""


def exit_code_of(pod: Obj, container: str) -> int | None:
    """None if it has not come to an end."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        terminated = (status.get("state") or {}).get("terminated")
        if status["name"] == container and terminated:
            return int(terminated["exitCode"])
    return None


async def output_of(api: Api, pod: Obj, container: str) -> str:
    """All of it, without the blank space around it; what would be cut short is refused
    (Impossible).
    """
    metadata = pod["metadata"]
    text = await api.log(
        metadata["name"],
        metadata["namespace"],
        container=container,
        limit=LIMIT + LONGEST_CHARACTER,
    )
    if len(text.encode()) > LIMIT:
        raise NodeActionError(
            f"it has written more than {LIMIT} bytes, and expressions look at no more: "
            "let it write less"
        )
    return text.strip()


def missing_command_message(context: list[str]) -> str:
    """In words, of the variables that expressions were given: what they say of such a pod is
    hardly what was meant.
    """
    if f"exitCode: {NOT_FOUND}" not in context:
        return ""
    written = next((each.partition(": ")[2] for each in context if each.startswith("stdout: ")), "")
    said = f", and has written: {written}" if written else ""
    return (
        f"its pod has ended with the exit code {NOT_FOUND}, as a shell does that does not "
        f"find a command{said}"
    )
