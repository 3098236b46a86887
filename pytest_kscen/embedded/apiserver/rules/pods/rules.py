"""Preparation and validation of writes to Pods and PodTemplates, with the table that registers
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.kinds import Rules, SubresourceRules
from pytest_kscen.embedded.apiserver.rules.checks import unified_diff
from pytest_kscen.embedded.apiserver.rules.fields import POD_FIELDS
from pytest_kscen.embedded.apiserver.rules.pods import annotations as notes
from pytest_kscen.embedded.apiserver.rules.pods import updates
from pytest_kscen.embedded.apiserver.rules.pods.annotations import (
    set_app_armor_fields,
    validate_template,
)
from pytest_kscen.embedded.apiserver.rules.pods.containers import validate_trimmed_images
from pytest_kscen.embedded.apiserver.rules.pods.defaults import (
    CONTAINER_LISTS,
    default_pod,
    default_template,
    set_account_alias,
)
from pytest_kscen.embedded.apiserver.rules.pods.resources import qos_class
from pytest_kscen.embedded.apiserver.rules.pods.spec import MIRROR_ANNOTATION, validate_pod_spec
from pytest_kscen.embedded.apiserver.rules.pods.status import validate_pod_status
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj


GATED_CONDITION = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
RESIZABLE_FIELDS = frozenset({"resources", "resizePolicy"})
DISABLED_PROJECTIONS = frozenset(
    {"clusterTrustBundle", "podCertificate"}
)  # sources of projected volumes whose features are disabled by default


def prepare_pod_create(pod: Obj, core: Core) -> None:
    drop_disabled_fields(pod)
    spec = pod["spec"]
    set_account_alias(spec)
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        gated = {**GATED_CONDITION, "lastTransitionTime": core.now(), "lastProbeTime": None}
        pod["status"]["conditions"] = [gated]
    if "annotations" in pod["metadata"]:
        set_app_armor_fields(pod)
    own = pod["metadata"].get("labels") or {}
    if "affinity" in spec:
        # `matchLabelKeys` become requirements of the selector, with the pod's own labels.
        joined = dict(spec["affinity"])
        for kind in ("podAffinity", "podAntiAffinity"):
            if kind in joined:
                joined[kind] = {
                    name: [
                        (
                            {
                                **term,
                                "podAffinityTerm": _with_label_keys(term["podAffinityTerm"], own),
                            }
                            if "podAffinityTerm" in term
                            else _with_label_keys(term, own)
                        )
                        for term in terms
                    ]
                    for name, terms in joined[kind].items()
                }
        spec["affinity"] = joined
    if "topologySpreadConstraints" in spec:
        spec["topologySpreadConstraints"] = [
            _with_label_keys(one, own) for one in spec["topologySpreadConstraints"]
        ]


def prepare_pod_update(new: Obj, old: Obj, _core: Core) -> None:
    new["status"] = old["status"]
    if new["spec"] is not old["spec"]:
        drop_disabled_fields(new)
        set_account_alias(new["spec"])


def prepare_pod_status(new: Obj, old: Obj, _core: Core) -> None:
    """Prepare a write to `status`, which the kubelet makes.

    It may write metadata too, except owners and the deletion time. A quality-of-service class or
    generation that it omits keeps its stored value.
    """
    metadata, given = dict(new["metadata"]), dict(new.get("status") or {})
    metadata.pop("deletionTimestamp", None)
    metadata.pop("ownerReferences", None)
    if "ownerReferences" in old["metadata"]:
        metadata["ownerReferences"] = old["metadata"]["ownerReferences"]
    before = old.get("status") or {}
    if "qosClass" in before:
        given.setdefault("qosClass", before["qosClass"])
    if "observedGeneration" in before:
        given.setdefault("observedGeneration", before["observedGeneration"])
    if given.get("conditions") and before.get("conditions"):
        # A condition without observedGeneration keeps its stored one.
        conditions = given["conditions"]
        earlier = before["conditions"]
        if all("observedGeneration" in one for one in conditions):
            given["conditions"] = conditions
        else:
            known: dict[str, list[int]] = {}
            for one in earlier:
                known.setdefault(one.get("type", ""), []).append(one.get("observedGeneration", 0))
            kept = []
            for one in conditions:
                generations = known.get(one.get("type", ""))
                generation = generations.pop(0) if generations else 0
                kept.append(
                    {**one, "observedGeneration": generation}
                    if generation and "observedGeneration" not in one
                    else one
                )
            given["conditions"] = kept
    new.clear()
    new.update(old)
    new["metadata"], new["status"] = metadata, given


def prepare_ephemeral_containers(new: Obj, old: Obj, _core: Core) -> None:
    """Prepare a write to `ephemeralcontainers`: take these containers alone from the new pod,
    everything else from the stored one.
    """
    spec = {**old["spec"], "ephemeralContainers": new["spec"].get("ephemeralContainers")}
    _replace_spec(new, old, {name: value for name, value in spec.items() if value is not None})


def prepare_resize(new: Obj, old: Obj, _core: Core) -> None:
    """Prepare a write to `resize`: take the resources of containers and pod, and everything else
    from the stored pod.

    A pod whose number of containers differs is left as it is, for validation to refuse.
    """
    spec = dict(old["spec"])
    for name in ("containers", "initContainers"):
        given, before = new["spec"].get(name) or [], old["spec"].get(name) or []
        if len(given) != len(before):
            return
        if given:
            same = all(
                one.get("name") == other.get("name")
                for one, other in zip(given, before, strict=True)
            )
            spec[name] = (
                [
                    {
                        **{field: other[field] for field in other if field not in RESIZABLE_FIELDS},
                        **{field: one[field] for field in one if field in RESIZABLE_FIELDS},
                    }
                    for one, other in zip(given, before, strict=True)
                ]
                if same
                else given
            )
    spec.pop("resources", None)
    if "resources" in new["spec"]:
        spec["resources"] = new["spec"]["resources"]
    _replace_spec(new, old, spec)


def _replace_spec(new: Obj, old: Obj, spec: Obj) -> None:
    given = {
        name: new["metadata"][name]
        for name in ("resourceVersion", "managedFields")
        if name in new["metadata"]
    }
    new.clear()
    new.update({**old, "metadata": {**old["metadata"], **given}, "spec": spec})


def drop_disabled_fields(pod: Obj) -> None:
    """Remove fields whose features are disabled by default, from a pod or a pod template.

    `spec` and its lists are replaced, never changed: they may be a stored object's.
    """
    spec = pod["spec"]
    if "volumes" in spec and any(
        source.keys() & DISABLED_PROJECTIONS
        for volume in spec["volumes"] or ()
        for source in volume.get("projected", {}).get("sources") or ()
    ):
        pod["spec"] = spec = {
            **spec,
            "volumes": [_without_projections(volume) for volume in spec["volumes"]],
        }
    hooks = [
        one["lifecycle"]
        for name in CONTAINER_LISTS
        for one in spec.get(name) or ()
        if "lifecycle" in one
    ]
    if any("stopSignal" in one for one in hooks):
        pod["spec"] = spec = {
            **spec,
            **{
                name: [_without_stop_signal(one) for one in spec[name]]
                for name in CONTAINER_LISTS
                if spec.get(name)
            },
        }
    if "schedulingGroup" in spec:
        pod["spec"] = {name: value for name, value in spec.items() if name != "schedulingGroup"}


def _without_projections(volume: Obj) -> Obj:
    if "projected" not in volume:
        return volume
    given = volume["projected"].get("sources") or ()
    kept = [
        {name: value for name, value in source.items() if name not in DISABLED_PROJECTIONS}
        for source in given
    ]
    return {**volume, "projected": {**volume["projected"], "sources": kept}}


def _without_stop_signal(container: Obj) -> Obj:
    if "stopSignal" not in container.get("lifecycle", {}):
        return container
    rest = {name: value for name, value in container.items() if name != "lifecycle"}
    hooks = {name: value for name, value in container["lifecycle"].items() if name != "stopSignal"}
    return {**rest, "lifecycle": hooks} if hooks else rest


def _with_label_keys(term: Obj, own: Mapping[str, str]) -> Obj:
    keys = [(key, "In") for key in term.get("matchLabelKeys") or ()]
    keys += [(key, "NotIn") for key in term.get("mismatchLabelKeys") or ()]
    parts: list[dict[str, Any]] = [
        {"key": key, "operator": operator, "values": [own[key]]}
        for key, operator in keys
        if key in own
    ]
    if not parts or "labelSelector" not in term:
        return term
    selector = term["labelSelector"]
    return {
        **term,
        "labelSelector": {
            **selector,
            "matchExpressions": [*(selector.get("matchExpressions") or ()), *parts],
        },
    }


def validate_pod(pod: Obj) -> Causes:
    metadata, spec = pod["metadata"], pod["spec"]
    yield from _validate_metadata_and_spec(metadata, spec)
    if spec.get("ephemeralContainers"):
        yield Cause.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        yield Cause.forbidden(
            "spec.nodeName", "cannot be set until all schedulingGates have been cleared"
        )
    if "annotations" in metadata:
        yield from notes.validate_annotations_match_fields("spec", metadata["annotations"], spec)


def _validate_metadata_and_spec(metadata: Obj, spec: Obj) -> Causes:
    if "annotations" in metadata:
        yield from notes.validate_pod_annotations(
            "metadata.annotations", metadata["annotations"], spec
        )
    yield from validate_pod_spec("spec", spec, metadata)
    if "volumes" in spec and not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec["volumes"]):
            for number, source in enumerate(volume.get("projected", {}).get("sources") or ()):
                if "serviceAccountToken" in source:
                    path = f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                    yield Cause.forbidden(
                        path, "must not be specified when serviceAccountName is not set"
                    )
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            yield from validate_trimmed_images(f"spec.{kind}", spec[kind])


def validate_pod_update(new: Obj, old: Obj) -> Causes:
    if new["spec"] is not old["spec"]:
        yield from _validate_metadata_and_spec(new["metadata"], new["spec"])
    yield from updates.validate_metadata_changes(new, old)
    if new["spec"] is not old["spec"]:
        yield from updates.validate_spec_changes(new, old)


def validate_ephemeral_update(new: Obj, old: Obj) -> Causes:
    yield from _validate_metadata_and_spec(new["metadata"], new["spec"])
    if MIRROR_ANNOTATION in (old["metadata"].get("annotations") or ()):
        yield Cause.forbidden("", "static pods do not support ephemeral containers")
    given = {one.get("name"): one for one in new["spec"].get("ephemeralContainers") or ()}
    for before in old["spec"].get("ephemeralContainers") or ():
        after = given.get(before.get("name"))
        message = f'existing ephemeral containers "{before.get("name", "")}" may not be'
        if after is None:
            yield Cause.forbidden("spec.ephemeralContainers", f"{message} removed\n")
        elif after != before:
            yield Cause.forbidden(
                "spec.ephemeralContainers", f"{message} changed\n{unified_diff(before, after)}"
            )


def validate_resize(new: Obj, old: Obj) -> Causes:
    yield from _validate_metadata_and_spec(new["metadata"], new["spec"])
    yield from updates.validate_resize_changes(new, old)


def grace_period(pod: Obj, requested: int | None) -> int:
    """Return the seconds that a pod gets to terminate.

    0 unless it runs on a node, otherwise the requested period or the pod's own.
    """
    ended = (pod.get("status") or {}).get("phase") in {"Failed", "Succeeded"}
    if ended or not pod["spec"].get("nodeName"):
        return 0
    seconds = (
        int(pod["spec"].get("terminationGracePeriodSeconds", 0)) if requested is None else requested
    )
    return 1 if seconds < 0 else seconds


def default_pod_template(obj: Obj) -> None:
    default_template(obj.get("template"))


def prepare_template_create(obj: Obj, _core: Core) -> None:
    drop_disabled_fields(obj["template"])


def prepare_template_update(new: Obj, _old: Obj, _core: Core) -> None:
    drop_disabled_fields(new["template"])


def validate_pod_template(obj: Obj) -> Causes:
    return validate_template("template", obj["template"])


def validate_pod_template_update(new: Obj, _old: Obj) -> Causes:
    return validate_template("template", new["template"])


RULES = {
    ("", "pods"): Rules(
        default=default_pod,
        prepare_create=prepare_pod_create,
        prepare_update=prepare_pod_update,
        validate=validate_pod,
        validate_update=validate_pod_update,
        parts={
            "status": SubresourceRules(prepare_pod_status, validate_pod_status),
            "ephemeralcontainers": SubresourceRules(
                prepare_ephemeral_containers, validate_ephemeral_update
            ),
            "resize": SubresourceRules(prepare_resize, validate_resize),
        },
        grace_period=grace_period,
        qualified_finalizers=True,
        fields=POD_FIELDS,
    ),
    ("", "podtemplates"): Rules(
        default=default_pod_template,
        prepare_create=prepare_template_create,
        prepare_update=prepare_template_update,
        validate=validate_pod_template,
        validate_update=validate_pod_template_update,
        qualified_finalizers=True,
    ),
}
