"""The results of each attempt as annotations of its pod, as users of kube-scheduler-simulator know
them.

Written when the attempt is over; what is there of earlier attempts is the history. What would not
fit into a pod's annotations is left out, the largest and the oldest first, and a note says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.objects.arguments import in_words
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.scenarios import RESULTS

if TYPE_CHECKING:
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.embedded.scheduler.framework.attempt import Attempt

HISTORY, NOTE = f"{RESULTS}result-history", f"{RESULTS}result-cut"
LARGEST = 256 * 1024  # bytes of keys and values that a pod's annotations may have
EXTENDERS = ("filter", "prioritize", "preempt", "bind")


def told(attempt: Attempt) -> dict[str, str]:
    """One attempt."""
    words: dict[str, Any] = {
        "prefilter-result-status": attempt.pre_filter_status,
        "prefilter-result": attempt.pre_filter,
        "filter-result": attempt.filter,
        "postfilter-result": attempt.post_filter,
        "prescore-result": attempt.pre_score,
        "score-result": _as_text(attempt.score),
        "finalscore-result": _as_text(attempt.final_score),
        "reserve-result": attempt.reserve,
        "permit-result": attempt.permit,
        "permit-result-timeout": {
            plugin: in_words(seconds) for plugin, seconds in attempt.permit_timeout.items()
        },
        "prebind-result": attempt.pre_bind,
        "bind-result": attempt.bind,
    }
    words |= {
        f"extender-{what}-result": attempt.extenders[what]
        for what in EXTENDERS
        if what in attempt.extenders
    }
    found = {f"{RESULTS}{name}": _json(value) for name, value in words.items()}
    return {**found, f"{RESULTS}selected-node": attempt.selected} if attempt.selected else found


def with_history(new: dict[str, str], old: dict[str, str]) -> dict[str, str]:
    """These annotations, and the history with them at its end, of a pod that has had these
    others.
    """
    try:
        history = orjson.loads(old.get(HISTORY, "[]"))
    except ValueError:
        history = []
    foreign = sum(
        len(key.encode()) + len(value.encode())
        for key, value in old.items()
        if not key.startswith(RESULTS)
    )
    return _fitting(new, [*history, new] if isinstance(history, list) else [new], LARGEST - foreign)


def _fitting(new: dict[str, str], history: list[Any], room: int) -> dict[str, str]:
    """As much of it as there is room for: old attempts go first, then the largest results of
    this one.
    """
    cut = 0
    dropped: list[str] = []
    new = dict(new)
    while True:
        note = _note(cut, dropped)
        whole = {**new, HISTORY: _json(history), **note}
        if _size(whole) <= room or not (history or new):
            return whole
        if history:
            history = history[1:]
            cut += 1
        else:
            largest = max(new, key=lambda key: (len(new[key]), key))
            dropped.append(largest.removeprefix(RESULTS))
            del new[largest]


def _note(cut: int, dropped: list[str]) -> dict[str, str]:
    parts = [f"{cut} attempts of the history"] if cut else []
    parts += dropped
    return (
        {NOTE: f"left out, as annotations may have {LARGEST} bytes: {', '.join(parts)}"}
        if parts
        else {}
    )


def _size(found: dict[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in found.items())


def _as_text(scores: dict[str, dict[str, int]]) -> dict[str, dict[str, str]]:
    return {node: dict(zip(by, map(str, by.values()), strict=True)) for node, by in scores.items()}


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


class Annotating:
    """A sink that writes."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._pods = context.informers.of(PODS)

    async def record(self, attempt: Attempt) -> None:
        metadata = attempt.pod["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        live = await self._live(name, namespace)
        if live is None or live["metadata"]["uid"] != metadata["uid"]:
            return
        old = live["metadata"].get("annotations") or {}
        new = with_history(told(attempt), old)
        gone = {key: None for key in old if key.startswith(RESULTS) and key not in new}
        try:
            await self._context.api.patch(
                PODS, name, {"metadata": {"annotations": {**gone, **new}}}, namespace
            )
        except NotFound:
            return
        except (ApiError, OSError) as error:
            self._context.recorder.warning(
                live,
                "ResultNotWritten",
                f"the results of the attempt are not in annotations: {error}",
            )

    async def _live(self, name: str, namespace: str) -> Any:
        try:
            return await self._context.api.get(PODS, name, namespace)
        except (ApiError, OSError):
            return None
