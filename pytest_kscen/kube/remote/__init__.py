"""The Api of a cluster behind a socket: a kubeconfig, a connection, requests over HTTPS. The one
door to the network.

No cluster's life may enter here: whoever starts and ends a cluster hands us its kubeconfig.
"""

from pytest_kscen.kube.remote.api import RemoteApi
from pytest_kscen.kube.remote.connection import Access, Connection, access_of, configuration_of

__all__ = ["Access", "Connection", "RemoteApi", "access_of", "configuration_of"]
