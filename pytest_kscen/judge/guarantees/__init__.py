"""Guarantees: named properties of the cluster's objects, checked at every recorded change.

declaration   always, eventually, sometimes: what a test declares
checks        evaluation of what was declared, and the results
"""
