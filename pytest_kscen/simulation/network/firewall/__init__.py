"""The iptables of each machine: rules in chains, what they do to packets, and how often they have. No shell may enter here."""

from pytest_kscen.simulation.network.firewall.command import Outcome, run
from pytest_kscen.simulation.network.firewall.firewalls import Firewalls
from pytest_kscen.simulation.network.firewall.tables import Tables

__all__ = ["Firewalls", "Outcome", "Tables", "run"]
