"""Kubernetes client: the Api protocol, in-process and remote clients, informers and leases.

Must not import a server or a simulation.

    api, actor             requests by resource; an actor's API, clock, stream and journal
    in_process, remote/    the embedded server, and a server behind a socket
    cache, informer        objects of a resource, kept up to date by a list and a watch
    retrying, waiting      retry transient errors; wait until objects meet a condition
    leases, events, gate, webhooks, urls, official/
"""
