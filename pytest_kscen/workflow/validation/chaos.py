"""Validate the spec of a chaos: its form, its action's required fields, and rules of its kind.

The rules are those of Chaos Mesh's admission webhooks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.arguments import nearest
from pytest_kscen.workflow.validation.chaos_fields import BLOCKS, PAYLOADS
from pytest_kscen.workflow.validation.chaos_selectors import amount
from pytest_kscen.workflow.validation.value_checks import ValidationIssue, error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.objects.documents import Path
    from pytest_kscen.objects.resources import Obj

    Rule = Callable[[Obj, Path], Iterator[ValidationIssue]]

NEEDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("AWSChaos", "detach-volume"): ("volumeID", "deviceName"),
    ("AzureChaos", "disk-detach"): ("diskName", "lun"),
    ("BlockChaos", "delay"): ("delay",),
    ("GCPChaos", "disk-loss"): ("deviceNames",),
    ("IOChaos", "attrOverride"): ("attr",),
    ("IOChaos", "fault"): ("errno",),
    ("IOChaos", "latency"): ("delay",),
    ("IOChaos", "mistake"): ("mistake",),
    ("JVMChaos", "exception"): ("class", "method", "exception"),
    ("JVMChaos", "latency"): ("class", "method", "latency"),
    ("JVMChaos", "mysql"): ("mysqlConnectorVersion",),
    ("JVMChaos", "return"): ("class", "method", "returnValue"),
    ("JVMChaos", "ruleData"): ("ruleData",),
    ("NetworkChaos", "bandwidth"): ("bandwidth",),
    ("NetworkChaos", "corrupt"): ("corrupt",),
    ("NetworkChaos", "delay"): ("delay",),
    ("NetworkChaos", "duplicate"): ("duplicate",),
    ("NetworkChaos", "loss"): ("loss",),
    ("PodChaos", "container-kill"): ("containerNames",),
    **{("PhysicalMachineChaos", action): (action,) for action in PAYLOADS},
}
"""Fields that an action requires."""

ONE_OF: dict[tuple[str, str], tuple[str, ...]] = {
    ("NetworkChaos", "netem"): ("delay", "loss", "duplicate", "corrupt", "rate", "bandwidth"),
    ("JVMChaos", "stress"): ("cpuCount", "memType"),
    ("JVMChaos", "mysql"): ("exception", "latency"),
    ("HTTPChaos", ""): ("abort", "delay", "replace", "patch"),
    ("StressChaos", ""): ("stressors", "stressngStressors"),
    ("PhysicalMachineChaos", ""): ("address", "selector"),
}
"""Fields of which an action or a kind requires at least one."""

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT")

ONE_SHOT = {("PodChaos", "pod-kill"), ("PodChaos", "container-kill")}
"""Actions that happen once and do not last."""


def validate_chaos(kind: str, spec: Any, path: Path) -> Iterator[ValidationIssue]:
    yield from BLOCKS[kind](spec, path)
    if not isinstance(spec, dict):
        return
    yield from amount(spec, path)
    action = _action(spec)
    for name in NEEDS.get((kind, action), ()):
        if spec.get(name) in (None, "", [], 0) and not (name == "lun" and spec.get(name) == 0):
            # The field may be there under a shorter name, as chaosd has it.
            ends = (key for key in spec if isinstance(key, str) and key and key != name)
            short = next((key for key in ends if name.lower().endswith(key.lower())), "")
            meant = f" (did you mean {name} instead of {short}?)" if short else ""
            yield error(path, f"the action {action} needs {name}{meant}")
    for about in dict.fromkeys(("", action)):
        names = ONE_OF.get((kind, about), ())
        if names and not any(spec.get(name) for name in names):
            yield error(
                path, f"{f'the action {about}' if about else kind} needs one of {', '.join(names)}"
            )
    version = spec.get("mysqlConnectorVersion")
    if (kind, action) == ("JVMChaos", "mysql") and version and version not in ("5", "8"):
        yield error((*path, "mysqlConnectorVersion"), f"{version!r} is none of '5', '8'")
    for rule in RULES.get(kind, ()):
        yield from rule(spec, path)


def is_one_shot(kind: str, spec: Obj) -> bool:
    return (kind, _action(spec)) in ONE_SHOT


def _action(spec: Obj) -> str:
    action = spec.get("action")
    return action if isinstance(action, str) else ""


def _targets(spec: Obj, path: Path) -> Iterator[ValidationIssue]:
    direction, target, outside = (
        spec.get("direction"),
        spec.get("target"),
        spec.get("externalTargets"),
    )
    if isinstance(target, dict):
        yield from amount(target, (*path, "target"))
    if direction not in ("from", "both"):
        return
    if not target and not outside:
        yield error(
            path, f"the direction {direction} needs a target: set target or externalTargets"
        )
    if outside and spec.get("action") != "partition":
        yield error(
            (*path, "externalTargets"),
            (
                f"externalTargets cannot be used with the direction {direction}, unless the "
                "action is partition"
            ),
        )


def _stressors(spec: Obj, path: Path) -> Iterator[ValidationIssue]:
    stressors = spec.get("stressors")
    if not isinstance(stressors, dict) or spec.get("stressngStressors"):
        return
    if not stressors.get("cpu") and not stressors.get("memory"):
        yield error(
            (*path, "stressors"), "stressors has neither cpu nor memory: nothing is stressed"
        )
    for name in ("cpu", "memory"):
        if isinstance(stressors.get(name), dict) and stressors[name].get("workers") == 0:
            yield error(
                (*path, "stressors", name, "workers"),
                f"{name} has no workers: nothing is stressed",
            )


def _either(kind: str, *names: str) -> Rule:
    def rule(spec: Obj, path: Path) -> Iterator[ValidationIssue]:
        if all(spec.get(name) for name in names):
            yield error(
                (*path, names[-1]), f"{kind} cannot have {' and '.join(names)}: keep one of them"
            )

    return rule


def _patterns(spec: Obj, path: Path) -> Iterator[ValidationIssue]:
    patterns = spec.get("patterns")
    for place, pattern in enumerate(patterns if isinstance(patterns, list) else ()):
        if isinstance(pattern, str) and "*" in pattern[:-1]:
            yield error(
                (*path, "patterns", str(place)),
                f"{pattern!r} has a * before its end: only the last character may be one",
            )


def _traffic(spec: Obj, path: Path) -> Iterator[ValidationIssue]:
    if spec.get("port") is None:
        yield error(path, "port is missing: it selects the traffic")
    method = spec.get("method")
    if spec.get("target") == "Request" and isinstance(method, str) and method not in METHODS:
        yield error(
            (*path, "method"),
            f"{method!r} is none of {', '.join(METHODS)}{nearest(method, METHODS)}",
        )


RULES: dict[str, tuple[Rule, ...]] = {
    "DNSChaos": (_patterns,),
    "HTTPChaos": (_traffic,),
    "JVMChaos": (_either("JVMChaos", "cpuCount", "memType"),),
    "NetworkChaos": (_targets,),
    "PhysicalMachineChaos": (_either("PhysicalMachineChaos", "address", "selector"),),
    "StressChaos": (_stressors,),
}
