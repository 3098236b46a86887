"""Rules of a pod's annotations, and the validators of pod templates that workloads call.

Most of these annotations are predecessors of fields: seccomp, AppArmor and tolerations.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.rules.checks import (
    Causes,
    selector_matches,
    sorted_labels,
    validate_annotations,
    validate_labels,
)
from pytest_kscen.embedded.apiserver.rules.pods.scheduling import validate_tolerations
from pytest_kscen.embedded.apiserver.rules.pods.security import visit_containers
from pytest_kscen.embedded.apiserver.rules.pods.spec import MIRROR_ANNOTATION, validate_pod_spec
from pytest_kscen.embedded.apiserver.rules.volume_sources import validate_relative_path
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.objects.resources import Obj


TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_DELETION_COST_FORM = re.compile(r"0|-\d+|[1-9]\d*", re.ASCII)
MAX_PROFILE_LENGTH = 4095
_SECCOMP_VALUES = {
    "Unconfined": ("unconfined",),
    "RuntimeDefault": ("runtime/default", "docker/default"),
}
_APP_ARMOR_VALUES = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default",)}


def validate_pod_annotations(path: str, given: Mapping[str, str] | None, spec: Obj) -> Causes:
    if not given:
        return
    if MIRROR_ANNOTATION in given and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        yield Cause.invalid(f"{path}[{MIRROR_ANNOTATION}]", given[MIRROR_ANNOTATION], detail)
    if given.get(TOLERATIONS):
        yield from _validate_tolerations_annotation(path, given[TOLERATIONS])
    cost = given.get(DELETION_COST, "0")
    if not (_DELETION_COST_FORM.fullmatch(cost) and -(2**31) <= int(cost) < 2**31):
        yield Cause.invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer")
    for name, value in given.items():
        if name == SECCOMP_POD or name.startswith(SECCOMP_CONTAINER):
            yield from _validate_seccomp_annotation(f"{path}.{name}", value)
    for name, value in given.items():
        if name.startswith(APP_ARMOR):
            yield from _validate_app_armor_annotation(
                f"{path}[{name}]", name.removeprefix(APP_ARMOR), value, spec
            )


def _validate_tolerations_annotation(path: str, text: str) -> Causes:
    try:
        given = json.loads(text)
    except ValueError as error:
        yield Cause.invalid(path, TOLERATIONS, str(error))
    else:
        yield from validate_tolerations(f"{path}.{TOLERATIONS}", given)


def app_armor_profile(note: str) -> Obj | None:
    """Return the AppArmor profile that an annotation's value stands for, as the field holds it;
    None for an invalid value.
    """
    if note.startswith("localhost/"):
        name = note.removeprefix("localhost/")
        return (
            {"type": "Localhost", "localhostProfile": name}
            if 0 < len(name.strip()) <= MAX_PROFILE_LENGTH
            else None
        )
    return {
        "runtime/default": {"type": "RuntimeDefault"},
        "unconfined": {"type": "Unconfined"},
    }.get(note)


def set_app_armor_fields(pod: Obj) -> None:
    """Set the AppArmor fields of a new pod from its annotations.

    Skipped on Windows, and for containers whose field is set already or equals the pod's own
    profile.
    """
    spec, annotated = (
        pod["spec"],
        [name for name in pod["metadata"]["annotations"] if name.startswith(APP_ARMOR)],
    )
    if annotated and spec.get("os", {}).get("name") != "windows":
        whole = (spec.get("securityContext") or {}).get("appArmorProfile")
        for _, container in visit_containers(spec):
            own = container.get("securityContext", {})
            profile = app_armor_profile(
                pod["metadata"]["annotations"].get(APP_ARMOR + container.get("name", ""), "")
            )
            if profile and profile != whole and "appArmorProfile" not in own:
                container["securityContext"] = {**own, "appArmorProfile": profile}


def _validate_seccomp_annotation(path: str, profile: str) -> Causes:
    if profile.startswith("localhost/"):
        yield from validate_relative_path(path, profile.removeprefix("localhost/"))
    elif profile not in {"runtime/default", "docker/default", "unconfined"}:
        yield Cause.invalid(path, profile, "must be a valid seccomp profile")


def _validate_app_armor_annotation(path: str, container: str, profile: str, spec: Obj) -> Causes:
    if container not in [one.get("name") for _, one in visit_containers(spec)]:
        yield Cause.invalid(path, container, "container not found")
    if profile not in {"", "runtime/default", "unconfined"} and not profile.startswith(
        "localhost/"
    ):
        yield Cause.invalid(path, profile, f'invalid AppArmor profile name: "{profile}"')


def validate_annotations_match_fields(
    path: str, given: Mapping[str, str] | None, spec: Obj
) -> Causes:
    """Yield the causes for seccomp and AppArmor annotations that contradict the fields which
    replaced them.
    """
    if not given:
        return
    whole = spec.get("securityContext") or {}
    if "seccompProfile" in whole and SECCOMP_POD in given:
        yield from _validate_profile_matches(
            f"{path}.securityContext.seccompProfile",
            "seccomp",
            given[SECCOMP_POD],
            whole["seccompProfile"],
            _SECCOMP_VALUES,
        )
    for where, container in visit_containers(spec):
        own, name = container.get("securityContext") or {}, container.get("name", "")
        if "seccompProfile" in own and SECCOMP_CONTAINER + name in given:
            here, note = (
                f"{path}.{where}.securityContext.seccompProfile",
                given[SECCOMP_CONTAINER + name],
            )
            yield from _validate_profile_matches(
                here, "seccomp", note, own["seccompProfile"], _SECCOMP_VALUES
            )
    if spec.get("os", {}).get("name") != "windows":
        for where, container in visit_containers(spec):
            own, name = (
                {**whole, **(container.get("securityContext") or {})},
                container.get("name", ""),
            )
            if "appArmorProfile" in own and APP_ARMOR + name in given:
                here, note = (
                    f"{path}.{where}.securityContext.appArmorProfile",
                    given[APP_ARMOR + name],
                )
                yield from _validate_profile_matches(
                    here, "apparmor", note, own["appArmorProfile"], _APP_ARMOR_VALUES
                )


def _validate_profile_matches(
    path: str, what: str, note: str, field: Obj, known: Mapping[str, tuple[str, ...]]
) -> Causes:
    kind = field.get("type", "")
    if kind == "Localhost" and note.startswith("localhost/"):
        if note.removeprefix("localhost/") != field.get("localhostProfile"):
            yield Cause.forbidden(
                f"{path}.localhostProfile", f"{what} profile in annotation and field must match"
            )
    elif kind == "Localhost" or (kind in known and note not in known[kind]):
        yield Cause.forbidden(f"{path}.type", f"{what} type in annotation and field must match")


def validate_annotation_changes(
    path: str, new: Mapping[str, str], old: Mapping[str, str]
) -> Causes:
    """Yield a cause for each protected annotation that an update adds, changes or removes: AppArmor
    profiles and the mirror mark.
    """
    for name in old:
        if new.get(name) != old[name]:
            yield from _validate_protected_annotation(f"{path}[{name}]", name, "remove or update")
    for name in new:
        if name not in old:
            yield from _validate_protected_annotation(f"{path}[{name}]", name, "add")


def _validate_protected_annotation(path: str, name: str, verb: str) -> Causes:
    if name.startswith(APP_ARMOR):
        yield Cause.forbidden(path, f"may not {verb} AppArmor annotations")
    if name == MIRROR_ANNOTATION:
        yield Cause.forbidden(path, f"may not {verb} mirror pod annotation")


SELECTOR_MISMATCH = "`selector` does not match template `labels`"


def validate_template(path: str, given: Obj) -> Causes:
    metadata, spec = given.get("metadata") or {}, given["spec"]
    yield from validate_labels(f"{path}.labels", metadata.get("labels"))
    yield from validate_annotations(f"{path}.annotations", metadata.get("annotations"))
    yield from validate_pod_annotations(f"{path}.annotations", metadata.get("annotations"), spec)
    yield from validate_pod_spec(f"{path}.spec", spec)
    yield from validate_annotations_match_fields(f"{path}.spec", metadata.get("annotations"), spec)
    if spec.get("ephemeralContainers"):
        yield Cause.forbidden(
            f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"
        )


def validate_template_selected(path: str, given: Obj, selector: Obj | None) -> Causes:
    """Yield a cause when a workload's selector does not match the labels of its own pod
    template.
    """
    own = (given.get("metadata") or {}).get("labels")
    if selector_matches(selector, own) is False:
        yield Cause.invalid(f"{path}.metadata.labels", sorted_labels(own), SELECTOR_MISMATCH)


def validate_always_restarts(path: str, given: Obj, owner: str) -> Causes:
    """Yield the causes for a template whose pods could end: the restart policy must be Always,
    without a deadline.

    `owner` is the kind that the message names.
    """
    policy = given["spec"].get("restartPolicy", "")
    if policy != "Always":
        yield Cause.unsupported(f"{path}.spec.restartPolicy", policy, ("Always",))
    if "activeDeadlineSeconds" in given["spec"]:
        yield Cause.forbidden(
            f"{path}.spec.activeDeadlineSeconds",
            f"activeDeadlineSeconds in {owner} is not Supported",
        )
