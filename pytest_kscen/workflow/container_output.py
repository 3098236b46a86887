"""Exit code and output of a terminated container, as expressions use them.

Called by `engine.actors` for Tasks and by `probes.command`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.workflow.tables.machine import NodeActionError

if TYPE_CHECKING:
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

LIMIT = 1024 * 1024
"""Bytes of output that an expression may use."""
LONGEST_CHARACTER = 4
"""Bytes of the longest character: where a log is cut, one may be lost."""

NOT_FOUND = 127
"""Exit code of a shell that does not find a command."""


def exit_code_of(pod: Obj, container: str) -> int | None:
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        terminated = (status.get("state") or {}).get("terminated")
        if status["name"] == container and terminated:
            return int(terminated["exitCode"])
    return None


async def output_of(api: Api, pod: Obj, container: str) -> str:
    """Return the container's log, stripped; raise NodeActionError if it is longer than `LIMIT`."""
    metadata = pod["metadata"]
    text = await api.log(
        metadata["name"],
        metadata["namespace"],
        container=container,
        limit=LIMIT + LONGEST_CHARACTER,
    )
    if len(text.encode()) > LIMIT:
        raise NodeActionError(
            f"its output is longer than {LIMIT} bytes, the limit of expressions: write less output"
        )
    return text.strip()


def missing_command_message(context: list[str]) -> str:
    """Return a message if the variables of expressions show a shell that found no command.

    A Task may succeed by such a result, although its author hardly meant it.
    """
    if f"exitCode: {NOT_FOUND}" not in context:
        return ""
    written = next((each.partition(": ")[2] for each in context if each.startswith("stdout: ")), "")
    output = f"; its output: {written}" if written else ""
    return (
        f"its pod has ended with the exit code {NOT_FOUND}: a shell did not find a command{output}"
    )
