"""Pods and pod templates: the largest of Kubernetes' kinds, part by part in the order in which
the real server judges.
"""
