"""Classify each write during a scenario (minor step, reaction, housekeeping, interference), and
derive its timeline event.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.resources import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    EVENTS,
    LEASES,
    PODS,
)
from pytest_kscen.objects.scenarios import (
    HISTORY,
    OVER,
    RESULTS,
    SCENARIOS,
    parsed,
    phase_of,
    results_of,
)
from pytest_kscen.objects.storage import NAMESPACE as STORAGE_NAMESPACE
from pytest_kscen.scenario.builtin_waiters import REPLICATED_STORAGE, SCHEDULER, WAITERS
from pytest_kscen.scenario.models import (
    OperationResult,
    PodAttempted,
    PodRef,
    PodScheduled,
    PodUnscheduled,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.scenario.models import StepStatus


NAME = "scenario-controller"
USERS = "kscen:"
"""Prefix of actors' user names, on clusters where each actor is a separate user."""
KUBELET = "kubelet"
CONFIGURATION = ("kube-system", "kube-scheduler")
"""Namespace and name of the ConfigMap with the scheduler's configuration."""

CREATE, UPDATE, DELETE = "create", "update", "delete"
VERBS = {"CREATE": CREATE, "UPDATE": UPDATE, "DELETE": DELETE}
"""Verbs by their names in admission reviews."""

ALIASES = {
    "default-scheduler": SCHEDULER,
    "system:kube-scheduler": SCHEDULER,
    "daemon-set-controller": "daemonset-controller",
    "generic-garbage-collector": "garbage-collector-controller",
    "persistent-volume-binder": "persistentvolume-controller",
    "replicated-storage": REPLICATED_STORAGE,
    f"system:serviceaccount:{STORAGE_NAMESPACE}:controller": REPLICATED_STORAGE,
    f"system:serviceaccount:{STORAGE_NAMESPACE}:agent": REPLICATED_STORAGE,
}
"""Controllers by their other names in the API's user names and field managers."""

SYSTEM_ACCOUNTS = "system:serviceaccount:kube-system:"
ACCOUNT = re.compile(r"^system:serviceaccount:[^:]+:")
"""Prefix of a service account's user name."""
WITHOUT_WAITER = (
    "attachdetach-controller",
    "certificate-controller",
    "clusterrole-aggregation-controller",
    "disruption-controller",
    "endpoint-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslicemirroring-controller",
    "ephemeral-volume-controller",
    "event-aging",
    "expand-controller",
    "horizontal-pod-autoscaler",
    "legacy-service-account-token-cleaner",
    "orphaned-job-pods-controller",
    "persistentvolume-protection-controller",
    "pod-garbage-collector",
    "pod-garbage-collector-controller",
    "provisioner",
    "pv-protection-controller",
    "pvc-protection-controller",
    "resource-claim-controller",
    "resourcequota-controller",
    "root-ca-cert-publisher",
    "root-ca-certificate-publisher-controller",
    "selinux-warning-controller",
    "replication-controller",
    "route-controller",
    "service-account-controller",
    "service-cidrs-controller",
    "service-controller",
    "serviceaccount-controller",
    "storage-version-migrator-controller",
    "taint-eviction-controller",
    "ttl-controller",
    "validatingadmissionpolicy-status-controller",
    "volumeattributesclass-protection-controller",
)
"""Controllers of every cluster that scenarios do not wait for."""
SERVERS = (
    "kube-apiserver",
    "system:apiserver",
    "system:kube-controller-manager",
    "informers",
    "cronjob-controller",
    "ttl-after-finished-controller",
)
"""Other users whose writes count as the system's."""
RESERVED_NAMES = (
    NAME,
    SCHEDULER,
    KUBELET,
    REPLICATED_STORAGE,
    *(each.name for each in WAITERS),
    *WITHOUT_WAITER,
    *SERVERS,
)
"""Controller names that do not identify a service account of a user."""
HOUSEKEEPING = (EVENTS, LEASES, ENDPOINTS, ENDPOINT_SLICES)
SERVER_FIELDS = ("resourceVersion", "generation", "managedFields")


class Meaning(Enum):
    """Meaning of a write for the scenario, by its writer and its object. It determines whether the
    write is recorded, is ignored, or fails the scenario.
    """

    OURS = "the scenario's own"
    HOUSEKEEPING = "nothing"
    STEP = "a minor step"
    RESULT = "the scheduler's results of an attempt"
    REACTION = "what another controller does"
    FOREIGN = "a foreign write"


@dataclass(frozen=True, slots=True)
class Write:
    """Write that admission allows.

    `new` is None for a deletion. For a subresource with its own type it is the request's body.
    """

    writer: str
    verb: str
    resource: Resource
    subresource: str
    namespace: str
    name: str
    new: Obj | None
    old: Obj | None
    preemptor: str = ""
    """Preemptor of a deleted pod, as namespace/name, if the scheduler reports it."""

    @property
    def author(self) -> str:
        name = self.writer.removeprefix(USERS).removeprefix(SYSTEM_ACCOUNTS)
        if name.startswith("system:node:"):
            return KUBELET
        if name in ALIASES and (name != self.writer or name.startswith("system:")):
            return ALIASES[name]
        if (
            name == self.writer
            and (name := ACCOUNT.sub("", name)) in RESERVED_NAMES
            and not name.startswith("system:")
        ):
            return f"the user {self.writer}"
        return name

    @property
    def is_by_the_system(self) -> bool:
        return self.writer.startswith(SYSTEM_ACCOUNTS) or self.author in (
            *WITHOUT_WAITER,
            *SERVERS,
            REPLICATED_STORAGE,
        )

    @property
    def is_binding(self) -> bool:
        return self.resource.plural == PODS.plural and self.subresource == "binding"

    @property
    def ref(self) -> Ref:
        return Ref(self.namespace if self.resource.namespaced else "", self.name)

    def has_come(self, obj: Obj | None) -> bool:
        """Return True if the cached object shows this write, or a later one."""
        if self.verb == DELETE:
            return is_gone_or_terminating(obj, self.uid)
        if obj is None:
            return self.verb == UPDATE or self.is_binding  # deleted meanwhile
        if self.is_binding:
            return bool(obj["spec"].get("nodeName"))
        if self.verb == CREATE:
            return self.uid in ("", obj["metadata"]["uid"])
        return self.old is None or obj["metadata"]["resourceVersion"] != self.old["metadata"].get(
            "resourceVersion"
        )

    @property
    def uid(self) -> str:
        return str(((self.old or self.new or {}).get("metadata") or {}).get("uid") or "")

    @property
    def is_eviction(self) -> bool:
        return self.resource.plural == PODS.plural and self.subresource == "eviction"

    @property
    def is_dry(self) -> bool:
        return self.is_eviction and bool(
            ((self.new or {}).get("deleteOptions") or {}).get("dryRun")
        )

    @property
    def words(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.verb}d {self.resource.qualified} {where}"


def is_gone_or_terminating(obj: Obj | None, uid: str) -> bool:
    return (
        obj is None
        or obj["metadata"]["uid"] != uid
        or bool(obj["metadata"].get("deletionTimestamp"))
    )


def refusal(write: Write) -> str:
    """Return the reason why a write is refused: a Scenario that is over takes no changes of its
    spec. Empty if the write is allowed.
    """
    if not _is_of_scenarios(write.resource) or write.subresource or not (write.new and write.old):
        return ""
    before, after = (obj["spec"].get("operations") or [] for obj in (write.old, write.new))
    if phase_of(write.old) not in OVER or write.new["spec"] == write.old["spec"]:
        return ""
    added = ", ".join(
        repr(each.get("id") or f"of step {each.get('step')}")
        for each in after
        if each not in before
    )
    what = f"operation {added}" if added else "its spec"
    return (
        f"the Scenario {write.name!r} is {phase_of(write.old)}: {what} comes too late, because the "
        "Scenario is over"
    )


def meaning_of(write: Write, simulated: Collection[str], known: Collection[str]) -> Meaning:
    """Return the meaning of a write. `simulated` are the simulated controllers; `known` are
    other controllers besides the system's.
    """
    if write.author == NAME or (_is_of_scenarios(write.resource) and not write.subresource):
        return Meaning.OURS
    resource = write.resource
    kinds = {(each.group, each.plural) for each in HOUSEKEEPING} | {("events.k8s.io", "events")}
    if (resource.group, resource.plural) in kinds:
        return Meaning.HOUSEKEEPING
    if write.author not in simulated and write.author not in known and not write.is_by_the_system:
        return Meaning.FOREIGN
    # The kubelet completes another client's deletion, which is recorded already.
    ends_a_pod = write.author == KUBELET and write.verb == DELETE
    if write.subresource == "status" or ends_a_pod:
        return Meaning.HOUSEKEEPING
    if write.author in simulated:
        return Meaning.RESULT if is_about_results(write) else Meaning.STEP
    return Meaning.REACTION


def foreign_write_message(write: Write) -> str:
    """Return a message that names the writer that invalidated the scenario, and its write."""
    if (write.resource.plural, write.namespace, write.name) == (CONFIG_MAPS.plural, *CONFIGURATION):
        return (
            f"{write.author} changed the scheduler's configuration while the scenario was running"
        )
    return (
        f"{write.author} {write.words} while the scenario was running; only its operations "
        "and controllers may write"
    )


def out_of_turn_message(write: Write, step: StepStatus) -> str:
    """Return a message that names a controller that wrote outside its turn, and its write."""
    turn = (
        f"it was the turn of {step.running}"
        if step.running and step.running != write.author
        else f"the phase was {step.phase}"
    )
    return (
        f"{write.author} {write.words} out of its turn, while {turn}: "
        "a simulated controller must await its gate at the end of each of its loops, and "
        "must not write while the gate holds it"
    )


def is_about_results(write: Write) -> bool:
    """Return True if only the annotations with scheduling results have changed."""
    if write.verb != UPDATE or write.new is None or write.old is None:
        return False
    return _without_results(write.new) == _without_results(write.old)


def _is_of_scenarios(resource: Resource) -> bool:
    return (resource.group, resource.plural) == (SCENARIOS.group, SCENARIOS.plural)


def _without_results(obj: Obj) -> Obj:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in SERVER_FIELDS}
    annotations = metadata.pop("annotations", None) or {}
    if obj.get("kind") == PODS.kind:
        annotations = {
            key: value for key, value in annotations.items() if not key.startswith(RESULTS)
        }
    return {**obj, "metadata": {**metadata, "annotations": annotations}}


CHANGES = ("scale", "resize", "ephemeralcontainers")
"""Subresources that change the object itself."""


def events_of(write: Write) -> Iterator[dict[str, Any]]:
    """Yield the fields of the timeline events of a write."""
    if write.is_binding:
        target = ((write.new or {}).get("target") or {}).get("name", "")
        yield _by(write, pod_scheduled=PodScheduled(_pod(write), target))
    elif write.subresource and write.subresource not in CHANGES:
        return
    elif is_about_results(write):
        if write.resource.plural == PODS.plural and results_of(write.new) != results_of(write.old):
            yield _by(
                write,
                pod_attempted=PodAttempted(_pod(write), results=latest(results_of(write.new))),
            )
    elif (
        write.verb == DELETE and write.author == SCHEDULER and write.resource.plural == PODS.plural
    ):
        node = ((write.old or {}).get("spec") or {}).get("nodeName", "")
        yield _by(write, pod_unscheduled=PodUnscheduled(_pod(write), node, write.preemptor))
    else:
        yield _by(write, **_change(write))


def _change(write: Write) -> dict[str, Any]:
    target = {
        "typeMeta": {"apiVersion": write.resource.api_version, "kind": write.resource.kind},
        "objectMeta": {
            "name": write.name,
            **({"namespace": write.namespace} if write.namespace else {}),
        },
    }
    match write.verb:
        case "create":
            obj = write.new
            metadata = (obj or {}).get("metadata") or {}
            return {
                CREATE: OperationResult(
                    {
                        "object": {
                            **(obj or {}),
                            "metadata": {
                                key: metadata[key]
                                for key in ("name", "namespace", "labels")
                                if key in metadata
                            },
                        }
                    },
                    write.new,
                )
            }
        case "update":
            return {"patch": OperationResult(target, write.new)}
        case _:
            return {DELETE: OperationResult(target)}


def _by(write: Write, **what: Any) -> dict[str, Any]:
    return {"controller": write.author, **what}


def _pod(write: Write) -> PodRef:
    metadata = (write.old or write.new or {}).get("metadata") or {}
    return PodRef(write.name, write.namespace, metadata.get("uid", ""))


def latest(results: dict[str, str]) -> dict[str, Any]:
    """Return the results of the latest attempt alone, parsed; earlier attempts have their own
    events.
    """
    return {key: parsed(value) for key, value in results.items() if key != HISTORY}
