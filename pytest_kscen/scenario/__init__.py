"""Run KEP-140 scenarios step by step. Must not import the simulation, the clusters, or pytest.

files, models, operation_ids, validation, expectations   a Scenario as written
controller, execution, progress, operations, cluster_setup   running it
waiting, builtin_waiters, participants   when controllers have finished a step
writes, webhooks, gate   observing and holding other controllers
recording, analysis/   a cluster as a Scenario; the results of one
"""
