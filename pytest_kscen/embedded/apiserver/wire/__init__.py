"""HTTP form of the API: requests to `kube.api.Request`, answers back to HTTP.

Imports no sockets and no web framework; `ApiServer` answers what is translated here, and `http`
transports it.

Inside, in the order of a request:
- `wire`: one request from path to answer. `requests`, `queries`, `bodies`: path, options, body.
- `media_types`: content negotiation. `parsing`, `protobuf`: JSON, YAML and protobuf as in Go.
- `responses`: status, headers, streams. `tables`: the columns of `kubectl get`.
- `discovery`, `openapi`: paths beside the resources.
"""

from pytest_kscen.embedded.apiserver.wire.responses import ResponseStream, WireAnswer, refuse
from pytest_kscen.embedded.apiserver.wire.wire import Wire

__all__ = ["ResponseStream", "Wire", "WireAnswer", "refuse"]
