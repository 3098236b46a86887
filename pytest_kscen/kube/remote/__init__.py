"""Api of a remote cluster: kubeconfig, connections, requests over HTTPS. The only package that
opens sockets to servers.

Must not create or delete clusters; a cluster's owner passes its kubeconfig.
"""

from pytest_kscen.kube.remote.api import RemoteApi
from pytest_kscen.kube.remote.connection import Access, Connection, access_of, configuration_of

__all__ = ["Access", "Connection", "RemoteApi", "access_of", "configuration_of"]
