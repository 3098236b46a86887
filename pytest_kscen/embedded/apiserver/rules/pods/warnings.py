"""Warnings about pods and pod templates: deprecated fields and annotations, duplicates, and content
that is probably a mistake.

Texts are those of the real server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pytest_kscen.embedded.apiserver.rules.pods.annotations import (
    APP_ARMOR,
    SECCOMP_CONTAINER,
    SECCOMP_POD,
    app_armor_profile,
)
from pytest_kscen.embedded.apiserver.rules.pods.scheduling import PREFERRED, REQUIRED
from pytest_kscen.embedded.apiserver.rules.pods.security import visit_containers
from pytest_kscen.objects import names, quantities
from pytest_kscen.objects.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pytest_kscen.objects.resources import Obj

    Warnings: TypeAlias = Iterator[str]


VolumeFile: TypeAlias = tuple[str, str]  # path, and source if the volume has several


def warn_of_overlapping_files(volumes: Sequence[Obj]) -> Iterator[str]:
    for volume in volumes:
        name = quoted(volume.get("name", ""))
        for kind, title in FILE_SOURCES.items():
            if kind in volume:
                files = [(path, "") for path in _item_paths(volume[kind])]
                yield from (
                    f"volume {name} ({title(volume[kind])}): overlapping paths: {message}"
                    for message in _overlapping_pairs(files)
                )
        if "projected" in volume:
            sources = volume["projected"].get("sources") or ()
            if not all(sources):
                yield f"volume {name} (Projected) has no sources provided"
            files = [file for source in sources for file in _projected_files(source)]
            yield from (
                f"volume {name} (Projected): overlapping paths: {message}"
                for message in _overlapping_pairs(files)
            )


FILE_SOURCES: dict[str, Callable[[Obj], str]] = {
    "configMap": lambda source: f"ConfigMap {quoted(source.get('name', ''))}",
    "secret": lambda source: (
        f"Secret {quoted(str(source.get('secretName', source.get('name', ''))))}"
    ),
    "downwardAPI": lambda _: "DownwardAPI",
}


def _item_paths(source: Obj) -> Iterable[str]:
    return (item.get("path", "") for item in source.get("items") or ())


def _projected_files(source: Obj) -> Iterator[VolumeFile]:
    for kind, title in FILE_SOURCES.items():
        if kind in source:
            yield from ((path, title(source[kind])) for path in _item_paths(source[kind]))
    if "serviceAccountToken" in source:
        yield source["serviceAccountToken"].get("path", ""), "ServiceAccountToken"


def _overlapping_pairs(files: Sequence[VolumeFile]) -> Iterator[str]:
    plain = [(path.rstrip("/"), source) for path, source in files]
    for index, (path, source) in enumerate(plain):
        for other, other_source in plain[:index]:
            if (
                path
                and other
                and (f"{other}/".startswith(f"{path}/") or f"{path}/".startswith(f"{other}/"))
            ):
                yield f"{_described_path(path, source)} with {_described_path(other, other_source)}"


def _described_path(path: str, source: str) -> str:
    return f"{quoted(path)} ({source})" if source else quoted(path)


OLD_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
}
OLD_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
    "security.alpha.kubernetes.io/unsafe-sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
}
OLD_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
GO_FIELD_NAMES = {"storageos": "storageOS"}
SIMPLE_FIELDS = frozenset(
    {
        *(
            "containers",
            "restartPolicy",
            "dnsPolicy",
            "securityContext",
            "terminationGracePeriodSeconds",
            "schedulerName",
        ),
        *(
            "enableServiceLinks",
            "serviceAccountName",
            "serviceAccount",
            "tolerations",
            "priority",
            "preemptionPolicy",
            "nodeName",
        ),
    }
)  # a spec with no other fields can only have warnings about containers
CHECKED_FIELDS = frozenset({"env", "ports", "resources"})
BYTE_RESOURCES = ("memory", "ephemeral-storage")
_BAD_HOSTNAME = (
    "metadata.name: this is used in the Pod's hostname, which can result in surprising "
    "behavior; a DNS label is recommended"
)
_NULL_SELECTOR = "a null labelSelector results in matching no pod"


def warn_of_pod(pod: Obj, old: Obj | None) -> Warnings:
    """Yield the warnings about a new pod. Updates yield none, since controllers rather than people
    write them.
    """
    if old is None:
        if faults := names.dns1123_label(pod["metadata"]["name"]):
            yield f"{_BAD_HOSTNAME}: [{' '.join(faults)}]"
        yield from _warn_of_pod_spec("", pod["metadata"], pod["spec"])


def warn_of_template(path: str, template: Obj) -> Warnings:
    yield from _warn_of_pod_spec(f"{path}.", template.get("metadata") or {}, template["spec"])


def warn_of_fractional_bytes(path: str, listed: Obj | None, among: Sequence[str]) -> Warnings:
    for name in among:
        if listed and name in listed and quantities.parse(listed[name]).milli % 1000:
            yield (
                f"{path}[{name}]: fractional byte value {quoted(listed[name])} is invalid, "
                "must be an integer"
            )


def warn_of_old_label(path: str, key: str, *, named: bool = True) -> Warnings:
    if key in OLD_LABELS:
        yield f"{path}: {key} is {OLD_LABELS[key]}" if named else f"{path}: {OLD_LABELS[key]}"


def warn_of_old_node_term(path: str, term: Obj, *, check_values: bool) -> Warnings:
    """Yield the warnings about a node selector term: deprecated labels.

    `check_values` adds those about malformed values.
    """
    for index, part in enumerate(term.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{index}]"
        yield from warn_of_old_label(f"{here}.key", part.get("key", ""))
        for number, value in enumerate(part.get("values") or () if check_values else ()):
            for message in names.label_value(value):
                yield f"{here}.values[{number}]: {value} is invalid, {message}"


def _warn_of_pod_spec(path: str, metadata: Obj, spec: Obj) -> Warnings:
    if (
        spec.keys() <= SIMPLE_FIELDS
        and "annotations" not in metadata
        and spec.get("terminationGracePeriodSeconds", 0) >= 0
    ):
        if any(not container.keys().isdisjoint(CHECKED_FIELDS) for container in spec["containers"]):
            yield from _warn_of_containers(f"{path}spec", spec)
        return
    notes = metadata.get("annotations") or {}
    yield from _warn_of_placement(f"{path}spec", spec)
    yield from (
        f"{path}metadata.annotations[{name}]: {message}"
        for name, message in OLD_ANNOTATIONS.items()
        if name in notes
    )
    yield from _warn_of_volumes(f"{path}spec.volumes", spec.get("volumes") or ())
    yield from _warn_of_duplicates(f"{path}spec", spec)
    yield from warn_of_fractional_bytes(
        f"{path}spec.overhead", spec.get("overhead"), BYTE_RESOURCES
    )
    # Annotations that fields have replaced.
    whole = spec.get("securityContext") or {}
    here, seccomp = (
        f"{path}metadata.annotations",
        'non-functional in v1.27+; use the "seccompProfile" field instead',
    )
    if SECCOMP_POD in notes and "seccompProfile" not in whole:
        yield f"{here}[{SECCOMP_POD}]: {seccomp}"
    for _, container in visit_containers(spec):
        own, name = container.get("securityContext", {}), container.get("name", "")
        if SECCOMP_CONTAINER + name in notes and "seccompProfile" not in own:
            yield f"{here}[{SECCOMP_CONTAINER}{name}]: {seccomp}"
        if APP_ARMOR + name in notes and _profile_needs_warning(
            app_armor_profile(notes[APP_ARMOR + name]), whole, own, synchronized=not path
        ):
            yield (
                f"{here}[{APP_ARMOR}{name}]: deprecated since v1.30; use the "
                '"appArmorProfile" field instead'
            )
    yield from _warn_of_containers(f"{path}spec", spec)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        yield (
            f"{path}spec.terminationGracePeriodSeconds: must be >= 0; negative values are "
            "invalid and will be treated as 1"
        )
    yield from _warn_of_null_selectors(f"{path}spec.affinity", spec.get("affinity") or {})


def _warn_of_placement(path: str, spec: Obj) -> Warnings:
    for key in spec.get("nodeSelector") or ():
        yield from warn_of_old_label(f"{path}.nodeSelector[{key}]", key, named=False)
    affinity, here = (
        spec.get("affinity", {}).get("nodeAffinity", {}),
        f"{path}.affinity.nodeAffinity",
    )
    for index, term in enumerate(affinity.get(REQUIRED, {}).get("nodeSelectorTerms") or ()):
        yield from warn_of_old_node_term(
            f"{here}.{REQUIRED}.nodeSelectorTerms[{index}]", term, check_values=False
        )
    for index, weighted in enumerate(affinity.get(PREFERRED) or ()):
        yield from warn_of_old_node_term(
            f"{here}.{PREFERRED}[{index}].preference",
            weighted.get("preference", {}),
            check_values=True,
        )
    for index, one in enumerate(spec.get("topologySpreadConstraints") or ()):
        here = f"{path}.topologySpreadConstraints[{index}]"
        yield from warn_of_old_label(f"{here}.topologyKey", one.get("topologyKey", ""))
        if "labelSelector" not in one:
            yield f"{here}.labelSelector: {_NULL_SELECTOR}"


def _warn_of_volumes(path: str, volumes: Sequence[Obj]) -> Warnings:
    for index, volume in enumerate(volumes):
        for kind, message in OLD_VOLUMES.items():
            if kind in volume:
                yield f"{path}[{index}].{GO_FIELD_NAMES.get(kind, kind)}: {message}"
        claim = volume.get("ephemeral", {}).get("volumeClaimTemplate", {}).get("spec")
        if claim:
            yield from warn_of_claim(f"{path}[{index}].ephemeral.volumeClaimTemplate.spec", claim)
    yield from warn_of_overlapping_files(volumes)


def warn_of_claim(path: str, spec: Obj) -> Warnings:
    for kind in ("requests", "limits"):
        yield from warn_of_fractional_bytes(
            f"{path}.resources.{kind}", spec.get("resources", {}).get(kind), ("storage",)
        )


def _warn_of_duplicates(path: str, spec: Obj) -> Warnings:
    for field, part in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        values = [one.get(part, "") for one in spec.get(field) or ()]
        for index, value in enumerate(values):
            if value in values[:index]:
                yield f"{path}.{field}[{index}].{part}: duplicate {part} {quoted(value)}"
    for index, one in enumerate(spec.get("imagePullSecrets") or ()):
        if not one.get("name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'


def _profile_needs_warning(
    annotated: Obj | None, whole: Obj, own: Obj, *, synchronized: bool
) -> bool:
    """Report whether an AppArmor annotation deserves a deprecation warning.

    In a pod (`synchronized`) the field has been set from the annotation already; a template is
    stored as it came.
    """
    if synchronized and annotated is None:
        return "appArmorProfile" not in own
    expected = annotated if synchronized else None
    return own.get("appArmorProfile") == expected and annotated != whole.get("appArmorProfile")


def _warn_of_containers(path: str, spec: Obj) -> Warnings:
    ports: list[tuple[str, Obj]] = []
    for where, container in visit_containers(spec):
        here = f"{path}.{where}"
        for name in BYTE_RESOURCES:
            for kind in ("limits", "requests"):
                given = container.get("resources", {}).get(kind)
                yield from warn_of_fractional_bytes(f"{here}.resources.{kind}", given, (name,))
        yield from _warn_of_hidden_variables(f"{here}.env", container.get("env") or ())
        ports += [
            (f"{here}.ports[{index}]", port)
            for index, port in enumerate(container.get("ports") or ())
        ]
    if len(ports) > 1:
        for index, (inner_path, port) in enumerate(ports):
            for other, one in ports[:index]:
                if all(
                    port.get(field) == one.get(field) for field in ("containerPort", "protocol")
                ) and (message := _port_conflict(port, one)):
                    yield f"{inner_path}: {message} port definition with {other}"
        first: dict[str, str] = {}
        for inner_path, port in ports:
            name = port.get("name", "")
            if name and first.setdefault(name, inner_path) != inner_path:
                users = f"services and probes that select ports by name will use {first[name]}"
                yield (
                    f"{inner_path}: duplicate port name {quoted(name)} with {first[name]}, {users}"
                )


def _warn_of_hidden_variables(path: str, variables: Sequence[Obj]) -> Warnings:
    """Yield a warning for each variable that replaces an earlier one of its name without extending
    its value.
    """
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        if name in seen and (
            "valueFrom" in variable or value == reference or reference not in value
        ):
            yield (
                f"{path}[{index}]: hides previous definition of {quoted(name)}, which may be "
                "dropped when using apply"
            )
        seen.add(name)


def _port_conflict(port: Obj, other: Obj) -> str:
    number, other_number = port.get("hostPort", 0), other.get("hostPort", 0)
    address, other_address = port.get("hostIP", ""), other.get("hostIP", "")
    if (number, address) == (other_number, other_address):
        return "duplicate"
    if not number or not other_number:
        return "overlapping"
    return (
        "dangerously ambiguous"
        if number == other_number and bool(address) != bool(other_address)
        else ""
    )


def _warn_of_null_selectors(path: str, affinity: Obj) -> Warnings:
    for kind in ("podAffinity", "podAntiAffinity"):
        for index, term in enumerate(affinity.get(kind, {}).get(REQUIRED) or ()):
            if "labelSelector" not in term:
                yield f"{path}.{kind}.{REQUIRED}[{index}].labelSelector: {_NULL_SELECTOR}"
        for index, weighted in enumerate(affinity.get(kind, {}).get(PREFERRED) or ()):
            if "labelSelector" not in weighted.get("podAffinityTerm", {}):
                here = f"{path}.{kind}.{PREFERRED}[{index}].podAffinityTerm"
                yield f"{here}.labelSelector: {_NULL_SELECTOR}"
