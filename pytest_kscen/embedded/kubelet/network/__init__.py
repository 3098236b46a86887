"""The network between a cluster's machines: who decides on packets, and what becomes of them.

It is made of filters; each knows nothing of the others. Nothing of a storage or of a test may enter
here."""

from pytest_kscen.embedded.kubelet.network.flows import (
    NO_IMPAIRMENT,
    Filter,
    Flow,
    Impairment,
    Network,
)

__all__ = ["NO_IMPAIRMENT", "Filter", "Flow", "Impairment", "Network"]
