"""The wire on a real socket: an HTTPS port on loopback, in a thread of its own. What is answered is not decided here.

The keys of a port come from the system's entropy and its certificate from the wall clock, and neither is in any journal.
"""

from pytest_kscen.machinery.http.port import Port

__all__ = ["Port"]
