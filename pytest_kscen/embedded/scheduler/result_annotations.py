"""Attempt results as annotations of the pod, in the format of kube-scheduler-simulator.

Written when an attempt is over; earlier attempts are kept as history. Results that exceed the size
limit of annotations are dropped, the oldest and the largest first, and a note names them.
"""

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

HISTORY, CUT = f"{RESULTS}result-history", f"{RESULTS}result-cut"
MAX_ANNOTATION_BYTES = 256 * 1024  # bytes of keys and values that a pod's annotations may have
EXTENDER_VERBS = ("filter", "prioritize", "preempt", "bind")


def result_annotations(attempt: Attempt) -> dict[str, str]:
    """Return one attempt's results as annotations: JSON with sorted keys, under the names of
    kube-scheduler-simulator; scores are texts there.
    """
    words: dict[str, Any] = {
        "prefilter-result-status": attempt.pre_filter_status,
        "prefilter-result": attempt.pre_filter,
        "filter-result": attempt.filter,
        "postfilter-result": attempt.post_filter,
        "prescore-result": attempt.pre_score,
        "score-result": _scores_as_text(attempt.score),
        "finalscore-result": _scores_as_text(attempt.final_score),
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
        for what in EXTENDER_VERBS
        if what in attempt.extenders
    }
    found = {f"{RESULTS}{name}": _json(value) for name, value in words.items()}
    return {**found, f"{RESULTS}selected-node": attempt.selected} if attempt.selected else found


def with_history(new: dict[str, str], old: dict[str, str]) -> dict[str, str]:
    """Return these annotations plus the history with them as its last entry.

    `old` are the pod's annotations so far; those of others count towards the size limit. Beyond it,
    attempts of the history are dropped, the oldest first, then this attempt's results, the largest
    first.
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
    history = [*history, new] if isinstance(history, list) else [new]
    cut = 0
    dropped: list[str] = []
    new = dict(new)
    while True:
        whole = {**new, HISTORY: _json(history)}
        if cut or dropped:
            parts = [*([f"{cut} attempts of the history"] if cut else ()), *dropped]
            whole[CUT] = f"dropped to stay within {MAX_ANNOTATION_BYTES} bytes: {', '.join(parts)}"
        size = sum(len(key.encode()) + len(value.encode()) for key, value in whole.items())
        if size <= MAX_ANNOTATION_BYTES - foreign or not (history or new):
            return whole
        if history:
            history = history[1:]
            cut += 1
        else:
            largest = max(new, key=lambda key: (len(new[key]), key))
            dropped.append(largest.removeprefix(RESULTS))
            del new[largest]


def _scores_as_text(scores: dict[str, dict[str, int]]) -> dict[str, dict[str, str]]:
    return {node: dict(zip(by, map(str, by.values()), strict=True)) for node, by in scores.items()}


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


class ResultAnnotator:
    """Sink that writes each attempt into its pod's annotations. A pod that is gone or was replaced
    is skipped; a failed write becomes a warning event.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._pods = context.informers.of(PODS)

    async def record(self, attempt: Attempt) -> None:
        metadata = attempt.pod["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        try:
            live = await self._context.api.get(PODS, name, namespace)
        except (ApiError, OSError):
            return
        if live["metadata"]["uid"] != metadata["uid"]:
            return
        old = live["metadata"].get("annotations") or {}
        new = with_history(result_annotations(attempt), old)
        removed = {key: None for key in old if key.startswith(RESULTS) and key not in new}
        try:
            await self._context.api.patch(
                PODS, name, {"metadata": {"annotations": {**removed, **new}}}, namespace
            )
        except NotFound:
            return
        except (ApiError, OSError) as error:
            self._context.recorder.warning(
                live,
                "ResultNotWritten",
                f"could not write the attempt's results into annotations: {error}",
            )
