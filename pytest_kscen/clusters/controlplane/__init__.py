"""The real control plane as local processes: etcd, kube-apiserver, kube-controller-manager,
kube-scheduler.

No simulated machine may enter here but through simulation.assembly.
"""
