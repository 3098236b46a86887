"""Kubernetes in one process: the API server, controllers, kubelets and the scheduler.

- `apiserver/`: the server itself; nothing else here may import it
- `controllers/`, `scheduler/`, `kubelet/`: actors that use `kube.Api` alone
- `actors`: starts them in order; `controller`: the queue and context they share
- `node_matching`, `pod_resources`, `volume_matching`, `indexes`: shared rules

Must import nothing of the test harness. The actors also run against a real API server.
"""
