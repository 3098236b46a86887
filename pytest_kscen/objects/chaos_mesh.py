"""Chaos Mesh's chaos as everybody names it who deals with it: its kinds, what stops it, and what its status says."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_kscen.objects.resources import Resource

GROUP, VERSION = "chaos-mesh.org", "v1alpha1"
PAUSE = "experiment.chaos-mesh.org/pause"
"""The annotation that takes chaos away for as long as it is "true"."""
RECORDS_FINALIZER = "chaos-mesh/records"

SELECTED, ALL_INJECTED, ALL_RECOVERED, PAUSED = "Selected", "AllInjected", "AllRecovered", "Paused"
"""Its conditions."""
RUN, STOP = "Run", "Stop"
"""Its desired phases."""


@dataclass(frozen=True, slots=True)
class ChaosKind:
    """A kind of chaos, and the key under which a template or a Schedule holds its spec."""

    kind: str
    key: str

    @property
    def resource(self) -> Resource:
        return Resource(GROUP, VERSION, self.kind.lower(), self.kind)


KINDS = {
    kind: ChaosKind(kind, key)
    for kind, key in {
        "AWSChaos": "awsChaos",
        "AzureChaos": "azureChaos",
        "BlockChaos": "blockChaos",
        "DNSChaos": "dnsChaos",
        "GCPChaos": "gcpChaos",
        "HTTPChaos": "httpChaos",
        "IOChaos": "ioChaos",
        "JVMChaos": "jvmChaos",
        "KernelChaos": "kernelChaos",
        "NetworkChaos": "networkChaos",
        "PhysicalMachineChaos": "physicalmachineChaos",
        "PodChaos": "podChaos",
        "StressChaos": "stressChaos",
        "TimeChaos": "timeChaos",
    }.items()
}
"""Every kind that we know."""
_CHAOS = re.compile("[A-Z][A-Za-z0-9]*Chaos")


def chaos_kind(type_: str) -> ChaosKind | None:
    """That of a template's type. One that we do not know is called as they all are, and is the cluster's affair."""
    if type_ in KINDS:
        return KINDS[type_]
    return ChaosKind(type_, type_[0].lower() + type_[1:]) if _CHAOS.fullmatch(type_) else None
