"""HTTP in, `kube.requests` out, and back: paths, queries, bodies, media types, discovery, tables.

No socket and no verb may enter here: what it translates is answered by the server, and carried by
others."""

from pytest_kscen.embedded.apiserver.wire.responses import Stream, WireAnswer, refused
from pytest_kscen.embedded.apiserver.wire.wire import Wire

__all__ = ["Stream", "Wire", "WireAnswer", "refused"]
