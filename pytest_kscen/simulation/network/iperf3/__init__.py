"""iperf3: servers that listen on machines, and clients that load the links to them. No shell may enter here."""

from pytest_kscen.simulation.network.iperf3.client import Client, Ended
from pytest_kscen.simulation.network.iperf3.options import Options, options_of
from pytest_kscen.simulation.network.iperf3.servers import Server, Servers

__all__ = ["Client", "Ended", "Options", "Server", "Servers", "options_of"]
