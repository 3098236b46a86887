"""The kind backend, through pytest-kind: one cluster for a test run, however many processes it has.

pytest-kind is an extra and under the GPL; it is imported when a kind cluster is asked for, and never before.
"""
