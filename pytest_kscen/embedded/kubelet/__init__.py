"""Simulated machines, their nodes, and the kubelets that run pods on them.

- `nodes`: the actor with all kubelets, and `Site`, the simulated hardware of a cluster
- `kubelet`, `pod`, `container`: one machine, one pod, one container
- `pod_status`, `container_status`, `node_status`: the statuses they report
- `images/`: behaviour of containers; `shell/`: scripts; `logs`, `volumes`, `environment`
- `network/`: links between machines, iptables and iperf3

Uses `kube.Api` alone, so it serves any API server; must not import the scheduler.
"""
