"""What a pod's annotations tell its containers to do, for tests that need an ending and no program.

| Annotation | Meaning |
|---|---|
| `kscen.io/exit-code` | the exit code; several with commas are one for each run in turn, and the
last stays |
| `kscen.io/exit-after` | how long a run lasts (`90s`, `5m`); without it a run that has an exit code
ends at once |
| `kscen.io/exit-reason` | the reason of the termination, such as OOMKilled, which means exit code
137 |
| `kscen.io/log` | text that each run begins its log with |

`kscen.io/exit-code.<container>` and so on speak to one container alone, and win over those that
speak to all."""

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
}  # of a run for which no exit code is told; any other reason means 1


@dataclass(frozen=True, slots=True)
class AnnotatedRun:
    """What the annotations say of one run of one container."""

    log: str
    ends: bool
    after: float
    code: int
    reason: str

    async def run(self, container: ContainerContext) -> int:
        """Last as long as was told, unless asked to stop."""
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
    return AnnotatedRun(
        log=log.rstrip("\n") + "\n" if log else "",
        ends=bool(codes or after or reason),
        after=seconds_of(after) if after else 0.0,
        code=_exit_code(codes, container.attempt) if codes else DEFAULT_EXIT_CODES.get(reason, 1),
        reason=reason,
    )


def _exit_code(codes: str, attempt: int) -> int:
    listed = [code.strip() for code in codes.split(",")]
    if not all(code.isdigit() for code in listed):
        raise ValueError(
            f"{PREFIX}exit-code: {codes!r} must be a whole number, or several with commas "
            "between them"
        )
    return int(listed[min(attempt, len(listed) - 1)])


Service = Callable[[HttpCall, ContainerContext], Awaitable[HttpAnswer]]
"""`async def serve(call, container) -> HttpAnswer`: what a container answers."""

IMAGES_WITHOUT_SERVER = ("pause",)
TEXT_HEADERS = (("Content-Type", "text/plain; charset=utf-8"),)


def never_listens(container: ContainerContext) -> bool:
    """Whether its image is one that listens to nobody."""
    return any(image_names(container.image)[2].startswith(name) for name in IMAGES_WITHOUT_SERVER)


def annotated_service(pod: Obj, container: ContainerContext) -> Service | None:
    """What the annotations of the pod, as it is now, say."""
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
    """An answer of a server that nobody knows more of."""
    return HttpAnswer(200, TEXT_HEADERS, f"{container.pod['metadata']['name']}\n".encode())
