"""Workload controllers of kube-controller-manager: from Deployments, Jobs and others to pods.

- `deployments`: writes; `deployment_rollout` the arithmetic, `deployment_status` the conditions
- `replicasets`: pods by number
- `statefulsets`, `daemonsets`: writes; `…_plan` the pure decisions; `revisions` the templates
- `jobs`: the loop; `job_state` the counts, `job_pods` the pods, `job_completion` the end
- `cronjobs`: Jobs by schedule

Must not import nodes' machines or kubelets.
"""
