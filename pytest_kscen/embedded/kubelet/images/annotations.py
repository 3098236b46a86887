"""Behaviour of containers declared by annotations, for tests without a program.

| Annotation | Meaning |
|---|---|
| `kscen.io/exit-code` | the exit code; a comma-separated list gives one per run, the last repeats |
| `kscen.io/exit-after` | duration of a run (`90s`, `5m`), 0 by default if it has an exit code |
| `kscen.io/exit-reason` | termination reason such as OOMKilled, which implies exit code 137 |
| `kscen.io/log` | text at the beginning of each run's log |
| `kscen.io/http-status` | status of each HTTP answer, 200 by default |
| `kscen.io/http-body` | body of each answer |
| `kscen.io/http-after` | duration of an answer (`3s`) |

`kscen.io/exit-code.<container>` and so on apply to one container and precede those without a
suffix. HTTP annotations are read at each call, so changes take effect at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.embedded.kubelet.images.context import ContainerContext, image_names
from pytest_kscen.kube.api import HttpAnswer, HttpCall
from pytest_kscen.objects.arguments import seconds_of

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


PREFIX = "kscen.io/"
DEFAULT_EXIT_CODES = {
    "": 0,
    "OOMKilled": 137,
}  # by exit reason; other reasons mean 1


@dataclass(frozen=True, slots=True)
class AnnotatedRun:
    """Run of a container as its pod's annotations declare it: log text, duration in seconds,
    exit code and reason.
    """

    log: str
    ends: bool
    after: float
    code: int
    reason: str

    async def run(self, container: ContainerContext) -> int:
        if await container.stopping(within=self.after):
            return 0
        container.exit_reason = self.reason
        return self.code


def annotated_run(container: ContainerContext) -> AnnotatedRun:
    def annotation(key: str) -> str:
        annotations = container.pod["metadata"].get("annotations") or {}
        return str(
            annotations.get(f"{PREFIX}{key}.{container.name}", annotations.get(PREFIX + key, ""))
        )

    codes, after, reason, log = (
        annotation(key) for key in ("exit-code", "exit-after", "exit-reason", "log")
    )
    seconds = seconds_of(after) if after else 0.0
    code = DEFAULT_EXIT_CODES.get(reason, 1)
    if codes:
        listed = [code.strip() for code in codes.split(",")]
        if not all(code.isdigit() for code in listed):
            raise ValueError(
                f"{PREFIX}exit-code: {codes!r} must be a whole number, or several with commas "
                "between them"
            )
        code = int(listed[min(container.attempt, len(listed) - 1)])
    return AnnotatedRun(
        log=log.rstrip("\n") + "\n" if log else "",
        ends=bool(codes or after or reason),
        after=seconds,
        code=code,
        reason=reason,
    )


Service = Callable[[HttpCall, ContainerContext], Awaitable[HttpAnswer]]
"""HTTP behaviour of a container: `async def serve(call, container) -> HttpAnswer`."""

IMAGES_WITHOUT_SERVER = ("pause",)
TEXT_HEADERS = (("Content-Type", "text/plain; charset=utf-8"),)


def never_listens(container: ContainerContext) -> bool:
    return any(image_names(container.image)[2].startswith(name) for name in IMAGES_WITHOUT_SERVER)


def annotated_service(pod: Obj, container: ContainerContext) -> Service | None:
    """Return the HTTP behaviour that the pod's present annotations declare for a container, or
    None. A malformed value fails at the call.
    """
    annotations = pod["metadata"].get("annotations") or {}

    def annotation(key: str) -> str | None:
        return annotations.get(f"{PREFIX}{key}.{container.name}", annotations.get(PREFIX + key))

    status, body, after = (
        annotation("http-status"),
        annotation("http-body"),
        annotation("http-after"),
    )
    if status is None and body is None and after is None:
        return None

    async def serve(_: HttpCall, container: ContainerContext) -> HttpAnswer:
        if after:
            await container.sleep(seconds_of(after))
        return HttpAnswer(int(status or 200), TEXT_HEADERS, (body or "").encode())

    return serve


async def default_service(_: HttpCall, container: ContainerContext) -> HttpAnswer:
    return HttpAnswer(200, TEXT_HEADERS, f"{container.pod['metadata']['name']}\n".encode())
