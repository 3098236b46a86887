"""Controllers of kube-controller-manager and the provisioner, on `kube.Api` alone.

- one module per controller, with the same name as in Kubernetes where there is one
- `workloads/`: Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs
- `ownership`, `pod_control`, `pod_state`: shared by the controllers
- `actors` (one level up) starts them; each has a class with `run()`

Must not import the scheduler, kubelets or the API server.
"""
