"""The megatest program's own flags, under their own names and with their defaults, and what each of them fills."""

from __future__ import annotations

from pytest_kscen.options import values
from pytest_kscen.options.option import LEAST, MOST, Fills, Option, SwitchesOn

CHURN = "volume_churn"
BLOCK, DEGRADE, REBOOT = "network-block", "network-degrade", "vm-reboot"
DRAWN, LASTING = (BLOCK, DEGRADE, REBOOT), (BLOCK, DEGRADE)
HEALTH = ("conditions", "effectiveLayout", "ready")


def _health(text: str) -> str:
    if text not in HEALTH:
        raise ValueError(f"{text!r} is no source of a volume's health: choose one of {', '.join(HEALTH)}")
    return text


def _churn(parameter: str, bound: int | None = None) -> Fills:
    return Fills((CHURN,), parameter, bound)


def _number(flag: str, what: str, default: str, fills: Fills) -> Option:
    return Option(flag, values.count, "N", what, default, fills)


def _time(flag: str, what: str, default: str, fills: Fills) -> Option:
    return Option(flag, values.duration, "TIME", what, default, fills)


def _size(flag: str, what: str, default: str, fills: Fills) -> Option:
    return Option(flag, values.quantity, "SIZE", what, default, fills)


def _switch(flag: str, what: str, switches_on: SwitchesOn) -> Option:
    return Option(flag, values.switch, "", what, effect=switches_on)


STORAGE_CLASSES = Option(
    "--storage-classes",
    values.names,
    "A,B",
    "the storage classes that volumes are made of, with commas; obligatory on a real cluster",
    effect=_churn("storage_classes"),
)
PARENT_KUBECONFIG = Option(
    "--parent-kubeconfig",
    values.existing_file,
    "FILE",
    "the kubeconfig of the cluster whose virtual machines are the tested one's nodes; chaos on a real cluster needs it",
)
VM_NAMESPACE = Option(
    "--vm-namespace", values.namespace, "NAME", "the namespace of those virtual machines; chaos on a real cluster needs it"
)
VOLUME_HEALTH = Option(
    "--kscen-volume-health", _health, "|".join(HEALTH), "what the storage publishes of a volume's health", "conditions"
)

MEGATEST = (
    STORAGE_CLASSES,
    _number("--max-volumes", "how many volumes at once at most", "10", _churn("max_volumes")),
    _number("--volume-step-min", "how many volumes a step makes at least", "1", _churn("step", LEAST)),
    _number("--volume-step-max", "how many volumes a step makes at most", "3", _churn("step", MOST)),
    _time("--step-period-min", "least time between two steps", "10s", _churn("step_period", LEAST)),
    _time("--step-period-max", "most time between two steps", "30s", _churn("step_period", MOST)),
    _time("--volume-period-min", "least time that a volume lives", "1m", _churn("lifetime", LEAST)),
    _time("--volume-period-max", "most time that a volume lives", "5m", _churn("lifetime", MOST)),
    _switch("--enable-pod-destroyer", "destroy the storage's own pods", SwitchesOn(parameter="pod_destroyer")),
    _switch("--enable-volume-resizer", "let volumes grow", SwitchesOn(parameter="resizer")),
    _switch("--enable-volume-replica-destroyer", "delete volumes' replicas", SwitchesOn(parameter="replica_destroyer")),
    _switch("--enable-volume-replica-creator", "add Access and TieBreaker replicas", SwitchesOn(parameter="replica_creator")),
    VOLUME_HEALTH,
    _time("--kscen-volume-patience", "most time within which a new volume has to become ready", "10m", _churn("patience")),
    _size("--kscen-volume-size", "the size of a new volume", "100Mi", _churn("size")),
    _size("--kscen-volume-size-max", "no volume grows above it", "1Gi", Fills((CHURN,), "max_size", actor="resizer")),
)

CHAOS = (
    PARENT_KUBECONFIG,
    VM_NAMESPACE,
    _switch("--enable-chaos-network-block", "cut machines off: all traffic, one volume's DRBD, split brain", SwitchesOn(BLOCK)),
    _switch("--enable-chaos-network-degrade", "lose packets between two machines, or load their link", SwitchesOn(DEGRADE)),
    _switch("--enable-chaos-vm-reboot", "restart machines, hard", SwitchesOn(REBOOT)),
    _time("--chaos-period-min", "least time between two incidents", "1m", Fills(DRAWN, "period", LEAST)),
    _time("--chaos-period-max", "most time between two incidents", "5m", Fills(DRAWN, "period", MOST)),
    _time("--chaos-incident-min", "least time that an incident lasts", "10s", Fills(LASTING, "incident", LEAST)),
    _time("--chaos-incident-max", "most time that an incident lasts", "1m", Fills(LASTING, "incident", MOST)),
    Option(
        "--chaos-loss-percent",
        values.share,
        "SHARE",
        "the share of packets that is lost, from 0.0 to 1.0: 0.01 is 1 %%",
        "0.01",
        Fills((DEGRADE,), "loss"),
    ),
    Option(
        "--chaos-partition-group-size",
        values.group_size,
        "N",
        "how many machines split brain puts on one side; 0 is half of them",
        "0",
        Fills((BLOCK,), "group_size"),
    ),
)
