"""Kubernetes in one process, usable alone: API server, controllers, kubelets, scheduler.

Imports only the foundations (kube, objects, cel, clock, chance) and nothing of the harness: no run,
chaos, megatest, scenario, workflow, judge, journal, report, cluster or model.

Inside:
- `apiserver`: store, verbs, validation, admission and the HTTP wire. Imports none of the others.
- `controllers`, `controller.py`: kube-controller-manager's loops, each one an actor on `kube.Api`.
- `kubelet`: simulated nodes with containers, images, network, probes, logs and a small shell.
- `scheduler`: kube-scheduler with its framework and plugins.
- `actors.py`: the list of all actors and the order in which they start.
"""
