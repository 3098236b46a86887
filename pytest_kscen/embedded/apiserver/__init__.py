"""The embedded Kubernetes API server: one store, the verbs on it, and the wire.

No actor and no simulation may enter here.
"""
