"""What containers answer over HTTP: what their pod's annotations tell, what a test has taught, or else that they are well.

| Annotation | Meaning |
|---|---|
| `kscen.io/http-status` | the status of each answer, 200 without it |
| `kscen.io/http-body` | its body |
| `kscen.io/http-after` | how long an answer takes (`3s`) |

`kscen.io/http-status.<container>` and so on speak to one container alone. They are read at each question, so that what is
annotated while a container runs takes effect at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from pytest_kscen.kube.requests import HttpAnswer, HttpCall
from pytest_kscen.objects.durations import seconds_of
from pytest_kscen.simulation.images.annotated import PREFIX
from pytest_kscen.simulation.images.context import ContainerContext
from pytest_kscen.simulation.images.names import names_of

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

Service = Callable[[HttpCall, ContainerContext], Awaitable[HttpAnswer]]
"""`async def serve(call, container) -> HttpAnswer`: what a container answers."""

NOT_LISTENING = ("pause",)
TEXT = (("Content-Type", "text/plain; charset=utf-8"),)


def is_deaf(container: ContainerContext) -> bool:
    """Whether its image is one that listens to nobody."""
    return any(names_of(container.image)[2].startswith(name) for name in NOT_LISTENING)


def told(pod: Obj, container: ContainerContext) -> Service | None:
    """What the annotations of the pod, as it is now, say."""
    annotations = pod["metadata"].get("annotations") or {}

    def tell(key: str) -> str | None:
        return annotations.get(f"{PREFIX}{key}.{container.name}", annotations.get(PREFIX + key))

    status, body, after = tell("http-status"), tell("http-body"), tell("http-after")
    if status is None and body is None and after is None:
        return None

    async def serve(_: HttpCall, container: ContainerContext) -> HttpAnswer:
        if after:
            await container.sleep(seconds_of(after))
        return HttpAnswer(int(status or 200), TEXT, (body or "").encode())

    return serve


async def well(_: HttpCall, container: ContainerContext) -> HttpAnswer:
    """An answer of a server that nobody knows more of."""
    return HttpAnswer(200, TEXT, f"{container.pod['metadata']['name']}\n".encode())
