"""Kubernetes objects as plain JSON, and pure functions on them.

No clock, no chance, no I/O may enter here.
"""
