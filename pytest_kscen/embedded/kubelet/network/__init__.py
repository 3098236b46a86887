"""Network between a cluster's machines: filters decide how the packets of a flow are impaired.

- `flows`: `Network` combines the filters; `Traffic` is the load on links
- `firewall`: iptables rules of machines, as one filter; `iptables` the command
- `iperf3`: the command that produces load
- `hosts`: what a container sees of all this

Filters do not know each other. Must not import simulated storage or tests.
"""

from pytest_kscen.embedded.kubelet.network.flows import (
    NO_IMPAIRMENT,
    Filter,
    Flow,
    Impairment,
    Network,
)

__all__ = ["NO_IMPAIRMENT", "Filter", "Flow", "Impairment", "Network"]
