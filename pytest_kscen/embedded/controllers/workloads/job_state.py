"""State of a Job in one reconciliation: its pods by state, and their counts.

Pure apart from `untrack`. Finished pods are first recorded by uid (`uncountedTerminatedPods`), then
released, then counted, so an interruption neither loses nor repeats one. Indexes are counted
without uids. Used by `jobs`, `job_pods` and `job_completion`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of
from pytest_kscen.embedded.controllers.pod_state import is_active, is_ready, is_terminating, phase
from pytest_kscen.kube.api import STRATEGIC_PATCH
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.errors import Conflict, NotFound
from pytest_kscen.objects.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj


FINALIZER = "batch.kubernetes.io/job-tracking"


def is_tracked(pod: Obj) -> bool:
    """Return True if the pod carries the tracking finalizer: the Job has not finally counted it
    yet.
    """
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


async def untrack(api: Api, pod: Obj) -> Obj:
    """Remove the tracking finalizer, and return the pod as the API shows it then. A pod that is
    gone or replaced is returned as it was.
    """
    metadata = pod["metadata"]
    if not is_tracked(pod):
        return pod
    patch = {
        "metadata": {"uid": metadata["uid"], "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
    }
    try:
        return await api.patch(
            PODS, metadata["name"], patch, metadata["namespace"], patch_type=STRATEGIC_PATCH
        )
    except (NotFound, Conflict):  # gone, or replaced by a namesake
        return pod


INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"

MAX_LISTED_RUN = 2  # longer runs of indexes are written as intervals


def parse_indexes(text: str | None) -> list[int]:
    found: list[int] = []
    for part in filter(None, (text or "").split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for index in sorted(dict.fromkeys(indexes)):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(
        f"{run[0]}-{run[-1]}" if len(run) > MAX_LISTED_RUN else ",".join(map(str, run))
        for run in runs
    )


def index_of(pod: Obj, job: Obj) -> int | None:
    """Return the pod's completion index, or None if it has none or one beyond the Job's
    completions.
    """
    number = _annotation(pod, INDEX)
    return number if number is not None and number < (job["spec"].get("completions") or 0) else None


def failures_of(pod: Obj) -> int:
    """Return how many pods of this index failed before this one and were counted, by the pod's
    annotation.
    """
    return _annotation(pod, FAILURES) or 0


def ignored_failures_of(pod: Obj) -> int:
    return _annotation(pod, IGNORED_FAILURES) or 0


def _annotation(pod: Obj, name: str) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(name, "")
    return int(text) if text.isdecimal() else None


FAIL_JOB, FAIL_INDEX, IGNORE, COUNT = "FailJob", "FailIndex", "Ignore", "Count"


@dataclass(frozen=True, slots=True)
class FailurePolicyMatch:
    """Action of the pod failure policy for one failed pod, with the message that a failed Job
    shows. Without a matching rule the failure counts.
    """

    action: str = COUNT
    message: str = ""

    @property
    def counts(self) -> bool:
        return self.action != IGNORE


def replaces_failed_only(job: Obj) -> bool:
    """Return True if a terminating pod is replaced only after it has finished
    (`podReplacementPolicy: Failed`).
    """
    return bool(job["spec"].get("podReplacementPolicy") == "Failed")


def has_failed(pod: Obj, job: Obj) -> bool:
    """Return True if the pod counts as failed. A terminating pod does unless it has succeeded
    or its Job waits for the end, as its kubelet may never report it.
    """
    if phase(pod) == "Failed":
        return True
    return (
        not replaces_failed_only(job)
        and bool(pod["metadata"].get("deletionTimestamp"))
        and phase(pod) != "Succeeded"
    )


def match_failure_policy(job: Obj, pod: Obj) -> FailurePolicyMatch:
    """Return the action of the first failure policy rule that matches a failed pod. Without a
    match the failure counts.
    """
    for place, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        if message := _match_rule(rule, pod):
            return FailurePolicyMatch(
                rule["action"], f"{message} matching {rule['action']} rule at index {place}"
            )
    return FailurePolicyMatch()


def _match_rule(rule: Obj, pod: Obj) -> str:
    name = f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}"
    if codes := rule.get("onExitCodes"):
        for status in _container_statuses(pod):
            if codes.get("containerName") not in {None, status["name"]}:
                continue
            code = ((status.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
            if code and (code in codes["values"]) is (codes["operator"] == "In"):
                return f"Container {status['name']} for pod {name} failed with exit code {code}"
    for pattern in rule.get("onPodConditions") or ():
        found = condition(pod, pattern["type"])
        if found and found["status"] == pattern.get("status", "True"):
            return f"Pod {name} has condition {pattern['type']}"
    return ""


def _container_statuses(pod: Obj) -> list[Obj]:
    status = pod.get("status") or {}
    return [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]


def finished_at(pod: Obj) -> float:
    """Return the epoch seconds at which the pod's last container ended.

    Without that information: when the pod became unready, was deleted, or was created.
    """
    states = [
        (status.get("state") or {}).get("terminated") or {}
        for status in (pod.get("status") or {}).get("containerStatuses") or ()
    ]
    if states and all(state.get("finishedAt") for state in states):
        return max(epoch_of(state["finishedAt"]) for state in states)
    metadata, ready = pod["metadata"], condition(pod, "Ready")
    if ready and ready["status"] == "False" and ready.get("lastTransitionTime"):
        return epoch_of(ready["lastTransitionTime"])
    if metadata.get("deletionTimestamp"):
        return epoch_of(metadata["deletionTimestamp"]) - (
            metadata.get("deletionGracePeriodSeconds") or 0
        )
    return epoch_of(metadata["creationTimestamp"])


def container_restarts(pods: Iterable[Obj]) -> int:
    """Return the number of in-place container restarts over these pods; it limits Jobs with
    restart policy OnFailure.
    """
    return sum(
        status.get("restartCount", 0)
        for pod in pods
        if phase(pod) in {"Pending", "Running"}
        for status in _container_statuses(pod)
    )


@dataclass(slots=True)
class JobState:
    """Job with its pods, sorted once at the start of a reconciliation.

    The status in `job` is the last written one with the start time adjusted. `JobPodWriter` changes
    `pods`, `active` and `terminating` as it writes.
    """

    job: Obj
    pods: list[Obj]
    active: list[Obj] = field(init=False)
    terminating: int = field(init=False)
    uncounted: dict[str, list[str]] = field(init=False)
    succeeded_indexes: list[int] = field(init=False)
    failed_indexes: list[int] = field(init=False)

    def __post_init__(self) -> None:
        status = self.job.get("status") or {}
        listed = status.get("uncountedTerminatedPods") or {}
        self.active = [pod for pod in self.pods if is_active(pod)]
        self.terminating = sum(map(is_terminating, self.pods))
        self.uncounted = {
            outcome: list(listed.get(outcome) or ()) for outcome in ("succeeded", "failed")
        }
        known = parse_indexes(status.get("completedIndexes"))
        if not self.indexed:
            self.succeeded_indexes = []
        else:
            new = [
                index_of(pod, self.job)
                for pod in self.pods
                if is_tracked(pod) and phase(pod) == "Succeeded"
            ]
            self.succeeded_indexes = sorted(
                {*known, *(index for index in new if index is not None)}
            )
        self.failed_indexes = []
        if self.limited_per_index:
            # known failed indexes, indexes beyond their limit, and indexes failed by policy
            limit = self.job["spec"]["backoffLimitPerIndex"]
            found = set(parse_indexes(status.get("failedIndexes")))
            for pod in self.pods:
                index = index_of(pod, self.job)
                if index is None or not is_tracked(pod) or not has_failed(pod, self.job):
                    continue
                policy_match = match_failure_policy(self.job, pod)
                if policy_match.action == FAIL_INDEX or (
                    policy_match.counts and failures_of(pod) >= limit
                ):
                    found.add(index)
            self.failed_indexes = sorted(found)

    @property
    def indexed(self) -> bool:
        return bool(self.job["spec"].get("completionMode") == "Indexed")

    @property
    def limited_per_index(self) -> bool:
        return "backoffLimitPerIndex" in self.job["spec"]

    @property
    def completions(self) -> int | None:
        wanted: int | None = self.job["spec"].get("completions")
        return wanted

    @property
    def suspended(self) -> bool:
        return bool(self.job["spec"].get("suspend"))

    def ready(self) -> int:
        return sum(map(is_ready, self.active))

    def new_succeeded(self) -> list[Obj]:
        """Return the succeeded pods that are tracked and not recorded in the status yet."""
        known = self.uncounted["succeeded"]
        return [
            pod
            for pod in self.pods
            if is_tracked(pod) and phase(pod) == "Succeeded" and pod["metadata"]["uid"] not in known
        ]

    def new_failed(self) -> list[Obj]:
        """Return the failed pods that are tracked, not recorded in the status yet, and not
        ignored by the failure policy.
        """
        known = self.uncounted["failed"]
        failed = (pod for pod in self.pods if is_tracked(pod) and has_failed(pod, self.job))
        return [
            pod
            for pod in failed
            if pod["metadata"]["uid"] not in known and match_failure_policy(self.job, pod).counts
        ]

    @property
    def succeeded(self) -> int:
        if self.indexed:
            return len(self.succeeded_indexes)
        return (
            self._counted("succeeded")
            + len(self.new_succeeded())
            + len(self.uncounted["succeeded"])
        )

    @property
    def failed(self) -> int:
        return self._counted("failed") + len(self.new_failed()) + len(self.uncounted["failed"])

    def _counted(self, outcome: str) -> int:
        counted: int = (self.job.get("status") or {}).get(outcome, 0)
        return counted

    def missing_indexes(self) -> list[int]:
        """Return the indexes that have neither finished nor a pod, in ascending order; pods may
        be created for these.
        """
        there = [
            pod
            for pod in self.pods
            if is_active(pod) or (is_terminating(pod) and not has_failed(pod, self.job))
        ]
        taken = {
            *self.succeeded_indexes,
            *self.failed_indexes,
            *(index_of(pod, self.job) for pod in there),
        }
        return [index for index in range(self.completions or 0) if index not in taken]

    def held_back(self) -> dict[int, Obj]:
        """Return the last failed pod of each index that is to be retried.

        It keeps its finalizer until its successor exists, as it carries the count of failures.
        """
        if not self.limited_per_index:
            return {}
        missing = set(self.missing_indexes())
        held: dict[int, Obj] = {}
        for pod in self.pods:
            index = index_of(pod, self.job)
            if (
                index is not None
                and index in missing
                and is_tracked(pod)
                and has_failed(pod, self.job)
            ):
                last = held.get(index)
                if last is None or (attempts_of(last), finished_at(last)) <= (
                    attempts_of(pod),
                    finished_at(pod),
                ):
                    held[index] = pod
        return held


def attempts_of(pod: Obj) -> int:
    return failures_of(pod) + ignored_failures_of(pod)
