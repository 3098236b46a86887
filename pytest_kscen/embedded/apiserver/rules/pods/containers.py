"""Validators of a pod's containers: what all share, and what init, ordinary and ephemeral
containers may have.

Called by `spec`. Containers with simple fields only take a short path, since most pods have nothing
else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.rules.checks import (
    PROTOCOLS,
    Causes,
    Validator,
    registered,
    validate_enum,
    validate_name,
    validate_nonnegative_fields,
    validate_port,
    validate_port_number,
    validate_required_enum,
    validate_required_name,
)
from pytest_kscen.embedded.apiserver.rules.pods.environment import (
    PULL_POLICIES,
    validate_env_from,
    validate_variables,
)
from pytest_kscen.embedded.apiserver.rules.pods.resources import (
    COMPUTE_RESOURCES,
    validate_requirements,
)
from pytest_kscen.embedded.apiserver.rules.pods.security import validate_container_security_context
from pytest_kscen.embedded.apiserver.rules.pods.volumes import validate_mounts
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kscen.objects.resources import Obj


PROBE_TIMES = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


HANDLERS: dict[str, Callable[[str, Obj, int | None], Causes]] = {}


def validate_probes(path: str, container: Obj, grace: int | None) -> Causes:
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        if kind in container:
            here = f"{path}.{kind}"
            probe = container[kind]
            yield from validate_handler(here, probe, grace)
            yield from validate_nonnegative_fields(here, probe, PROBE_TIMES)
            seconds = probe.get("terminationGracePeriodSeconds")
            if seconds is not None and seconds <= 0:
                yield Cause.invalid(
                    f"{here}.terminationGracePeriodSeconds", seconds, "must be greater than 0"
                )
            if kind == "readinessProbe":
                if seconds is not None:
                    yield Cause.invalid(
                        f"{here}.terminationGracePeriodSeconds",
                        seconds,
                        "must not be set for readinessProbes",
                    )
            elif probe.get("successThreshold", 0) != 1:
                yield Cause.invalid(
                    f"{here}.successThreshold", probe.get("successThreshold", 0), "must be 1"
                )


def validate_lifecycle(path: str, given: Obj, grace: int | None) -> Causes:
    for hook in ("postStart", "preStop"):
        if hook in given:
            yield from validate_handler(f"{path}.{hook}", given[hook], grace)


def validate_handler(path: str, given: Obj, grace: int | None) -> Causes:
    """Yield the causes for the handler of a probe or lifecycle hook: exactly one kind is
    required.
    """
    found = [kind for kind in HANDLERS if kind in given]
    for index, kind in enumerate(found):
        if index:
            yield Cause.forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")
        else:
            yield from HANDLERS[kind](f"{path}.{kind}", given[kind], grace)
    if not found:
        yield Cause.required(path, "must specify a handler type")


@registered(HANDLERS, "exec")
def _validate_exec(path: str, given: Obj, _: int | None) -> Causes:
    if not given.get("command"):
        yield Cause.required(f"{path}.command")


@registered(HANDLERS, "httpGet")
def _validate_http_get(path: str, given: Obj, _: int | None) -> Causes:
    if not given.get("path"):
        yield Cause.required(f"{path}.path")
    yield from validate_port(f"{path}.port", given.get("port", 0))
    yield from validate_enum(f"{path}.scheme", given.get("scheme", ""), ("HTTP", "HTTPS"))
    for header in given.get("httpHeaders") or ():
        yield from validate_name(f"{path}.httpHeaders", header.get("name", ""), names.http_header)


@registered(HANDLERS, "tcpSocket", "grpc")
def _validate_port_handler(path: str, given: Obj, _: int | None) -> Causes:
    yield from validate_port(f"{path}.port", given.get("port", 0))


@registered(HANDLERS, "sleep")
def _validate_sleep(path: str, given: Obj, grace: int | None) -> Causes:
    seconds = given.get("seconds", 0)
    if grace is not None and not 0 <= seconds <= grace:
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        yield Cause.invalid(path, seconds, detail)


MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
RESTART_POLICIES = ("Always", "Never", "OnFailure")
RESIZE_POLICIES = ("NotRequired", "RestartContainer")
RESTART_ACTIONS = ("Restart", "RestartAllContainers")
MAX_RESTART_RULES = 20
MAX_EXIT_CODES = 255
SIMPLE_FIELDS = frozenset(
    {
        "name",
        "image",
        "command",
        "args",
        "imagePullPolicy",
        "terminationMessagePath",
        "terminationMessagePolicy",
    }
)
FORBIDDEN_IN_INIT = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
FORBIDDEN_IN_EPHEMERAL = (
    "ports",
    "resources",
    *FORBIDDEN_IN_INIT[1:],
    "lifecycle",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
)
_SIDECARS_ONLY = "may not be set for init containers without restartPolicy=Always"
_NOT_EPHEMERAL = "cannot be set for an Ephemeral Container"


@dataclass(slots=True)
class PodValidationContext:
    """Facts about the pod that the validators of its containers need.

    `volumes` are the valid ones by name, `claims` the names of resource claims, and `grace` is in
    seconds.
    """

    volumes: dict[str, Obj] = field(default_factory=dict)
    claims: frozenset[str] = frozenset()
    grace: int | None = None
    restart_policy: str = "Always"
    host_users: bool = True


def validate_containers(path: str, given: Sequence[Obj], context: PodValidationContext) -> Causes:
    if not given:
        yield Cause.required(path)
        return
    seen: set[str] = set()
    for index, container in enumerate(given):
        here = f"{path}[{index}]"
        yield from _validate_container(here, container, context)
        if container.get("name", "") in seen:
            yield Cause.duplicate(f"{here}.name", container.get("name", ""))
        seen.add(container.get("name", ""))
        if not container.keys() <= SIMPLE_FIELDS:
            # Fields of containers that keep running.
            if "lifecycle" in container:
                yield from validate_lifecycle(
                    f"{here}.lifecycle", container["lifecycle"], context.grace
                )
            yield from validate_probes(here, container, context.grace)
            if "restartPolicy" in container or "restartPolicyRules" in container:
                yield from _validate_restart_policy(here, container)
    yield from validate_host_ports(path, given)


def validate_init_containers(
    path: str, given: Sequence[Obj], ordinary: Sequence[Obj], context: PodValidationContext
) -> Causes:
    seen = {container.get("name", "") for container in ordinary}
    for index, container in enumerate(given):
        here, name = f"{path}[{index}]", container.get("name", "")
        yield from _validate_container(here, container, context)
        # Restart rules are validated only beside a restart policy.
        if "restartPolicy" in container:
            yield from _validate_restart_policy(here, container)
        elif container.get("restartPolicyRules"):
            yield Cause.required(
                f"{here}.restartPolicy", "must specify restartPolicy when restart rules are used"
            )
        if name in seen:
            yield Cause.duplicate(f"{here}.name", name)
        elif name:
            seen.add(name)
        yield from validate_host_ports(path, [container])
        if container.get("restartPolicy") == "Always":
            if "lifecycle" in container:
                yield from validate_lifecycle(
                    f"{here}.lifecycle", container["lifecycle"], context.grace
                )
            yield from validate_probes(here, container, context.grace)
        else:
            yield from (
                Cause.forbidden(f"{here}.{field}", _SIDECARS_ONLY)
                for field in FORBIDDEN_IN_INIT
                if field in container
            )
            detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            yield from (
                Cause.invalid(
                    f"{here}.resizePolicy[{number}].restartPolicy", "RestartContainer", detail
                )
                for number, policy in enumerate(container.get("resizePolicy") or ())
                if policy.get("restartPolicy") == "RestartContainer"
            )


def validate_ephemeral_containers(path: str, spec: Obj, context: PodValidationContext) -> Causes:
    others = {
        container.get("name", "")
        for kind in ("containers", "initContainers")
        for container in spec.get(kind) or ()
    }
    seen = set(others)
    for index, container in enumerate(spec["ephemeralContainers"]):
        here, name = f"{path}[{index}]", container.get("name", "")
        yield from _validate_container(here, container, context)
        yield from validate_trimmed_image(here, container)
        if name in seen:
            yield Cause.duplicate(f"{here}.name", name)
        seen.add(name)
        target = container.get("targetContainerName", "")
        if target and target not in others:
            yield Cause.not_found(f"{here}.targetContainerName", target)
        for forbidden in FORBIDDEN_IN_EPHEMERAL:
            if container.get(forbidden):
                yield Cause.forbidden(f"{here}.{forbidden}", _NOT_EPHEMERAL)
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            for part in ("subPath", "subPathExpr"):
                if mount.get(part):
                    yield Cause.forbidden(f"{here}.volumeMounts[{number}].{part}", _NOT_EPHEMERAL)


def validate_trimmed_images(path: str, given: Sequence[Obj]) -> Causes:
    for index, container in enumerate(given):
        if (image := container.get("image", "")) != image.strip():
            yield from validate_trimmed_image(f"{path}[{index}]", container)


def validate_trimmed_image(path: str, container: Obj) -> Causes:
    image = container.get("image", "")
    if image != image.strip():
        yield Cause.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")


def _validate_container(path: str, container: Obj, context: PodValidationContext) -> Causes:
    if names.dns1123_label(container.get("name", "")):
        yield from validate_required_name(
            f"{path}.name", container.get("name"), names.dns1123_label
        )
    if not container.get("image"):
        yield Cause.required(f"{path}.image")
    if container.get("terminationMessagePolicy") not in MESSAGE_POLICIES:
        policy = container.get("terminationMessagePolicy", "")
        yield from validate_required_enum(
            f"{path}.terminationMessagePolicy", policy, MESSAGE_POLICIES
        )
    if (
        not container.keys() <= SIMPLE_FIELDS
        or container.get("imagePullPolicy") not in PULL_POLICIES
    ):
        yield from _validate_optional_fields(path, container, context)


def _validate_optional_fields(path: str, container: Obj, context: PodValidationContext) -> Causes:
    for listed, validate in LIST_VALIDATORS.items():
        if listed in container:
            yield from validate(f"{path}.{listed}", container[listed])
    if "volumeMounts" in container or "volumeDevices" in container:
        yield from validate_mounts(path, container, context.volumes)
    if container.get("imagePullPolicy") not in PULL_POLICIES:
        yield from validate_required_enum(
            f"{path}.imagePullPolicy", container.get("imagePullPolicy"), PULL_POLICIES
        )
    if container.get("resources"):
        yield from validate_requirements(
            f"{path}.resources", container["resources"], context.claims
        )
    if "resizePolicy" in container:
        yield from _validate_resize_policy(
            f"{path}.resizePolicy", container["resizePolicy"], context.restart_policy
        )
    if "securityContext" in container:
        yield from validate_container_security_context(
            f"{path}.securityContext", container["securityContext"], host_users=context.host_users
        )


def _validate_ports(path: str, given: Sequence[Obj]) -> Causes:
    seen: set[str] = set()
    for index, entry in enumerate(given):
        here, name = f"{path}[{index}]", entry.get("name", "")
        if name and names.port_name(name):
            yield from validate_name(f"{here}.name", name, names.port_name)
        elif name in seen:
            yield Cause.duplicate(f"{here}.name", name)
        elif name:
            seen.add(name)
        if entry.get("containerPort"):
            yield from validate_port_number(f"{here}.containerPort", entry["containerPort"])
        else:
            yield Cause.required(f"{here}.containerPort")
        if "hostPort" in entry:
            yield from validate_port_number(f"{here}.hostPort", entry["hostPort"])
        yield from validate_required_enum(f"{here}.protocol", entry.get("protocol"), PROTOCOLS)


LIST_VALIDATORS: dict[str, Validator] = {
    "ports": _validate_ports,
    "env": validate_variables,
    "envFrom": validate_env_from,
}


def validate_host_ports(path: str, given: Sequence[Obj]) -> Causes:
    """Yield a cause for each host port that two containers of the list claim with the same protocol
    and address.
    """
    taken: set[str] = set()
    for index, container in enumerate(given):
        for number, entry in enumerate(container.get("ports") or ()):
            if "hostPort" in entry:
                key = f"{entry.get('protocol', '')}/{entry.get('hostIP', '')}/{entry['hostPort']}"
                if key in taken:
                    yield Cause.duplicate(f"{path}[{index}].ports[{number}].hostPort", key)
                taken.add(key)


def _validate_resize_policy(path: str, given: Sequence[Obj], restart_policy: str) -> Causes:
    seen: set[str] = set()
    for index, policy in enumerate(given):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            yield Cause.duplicate(f"{path}[{index}]", resource)
        seen.add(resource)
        yield from validate_required_enum(path, resource, COMPUTE_RESOURCES)
        yield from validate_required_enum(path, restart, RESIZE_POLICIES)
        if restart_policy == "Never" and restart != "NotRequired":
            yield Cause.invalid(
                path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            )


def _validate_restart_policy(path: str, container: Obj) -> Causes:
    """Yield the causes for a container's own restart policy and its restart rules by exit code."""
    rules = container.get("restartPolicyRules") or ()
    if "restartPolicy" in container:
        yield from validate_enum(
            f"{path}.restartPolicy", container["restartPolicy"], RESTART_POLICIES
        )
    elif rules:
        yield Cause.required(
            f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used"
        )
    if len(rules) > MAX_RESTART_RULES:
        yield Cause.too_many(f"{path}.restartPolicyRules", len(rules), MAX_RESTART_RULES)
    for index, rule in enumerate(rules):
        here = f"{path}.restartPolicyRules[{index}]"
        yield from validate_enum(f"{here}.action", rule.get("action", ""), RESTART_ACTIONS)
        if "exitCodes" in rule:
            codes = rule["exitCodes"]
            yield from validate_enum(
                f"{here}.exitCodes.operator", codes.get("operator", ""), ("In", "NotIn")
            )
            if len(codes.get("values") or ()) > MAX_EXIT_CODES:
                yield Cause.too_many(
                    f"{here}.exitCodes.values", len(codes["values"]), MAX_EXIT_CODES
                )
        else:
            yield Cause.required(f"{here}.exitCodes", "must be specified")
