"""Embedded Kubernetes API server: one object store, the verbs on it, and its HTTP form.

Imports no controller, kubelet or scheduler, and no harness. Clients reach it through
`server.ApiServer` (a `kube.api.Server`) or, over HTTPS, through `http.HttpsPort`.

Inside, in the order in which a write passes:
- `http`, `wire`: HTTPS port; HTTP requests to `kube.api.Request` and answers back.
- `server`, `verbs`, `subresources`: the handler of each verb and subresource.
- `decoding`, `schema`, `rules`, `crds`, `metadata`: decode, default and validate objects.
- `patching`, `admission`: patches and managedFields; admission plugins, webhooks and hooks.
- `store`, `watch`: committed objects with their history, and subscriptions to it.
"""
