"""Scheduling framework: plugin base class, statuses, cluster snapshot, profiles.

Neither `plugins` nor the queue may be imported here at run time. Users import the names of a plugin
from `pytest_kscen.scheduler`, whose docstring is the tutorial. Inside:

    plugin, plugin_checks, status, events    what a plugin implements and returns
    attempt, handle                          per-attempt state, per-profile handle
    pods_and_nodes, snapshot, node_table     the cluster as plugins see it
    configuration, profile                   a configured set of plugins, and calling it
    extender, diagnosis                      HTTP extenders' interface, messages to users
"""
