"""A pytest plugin that tests Kubernetes: chaos, scenarios and workflows, on a real cluster or an
embedded one.
"""
