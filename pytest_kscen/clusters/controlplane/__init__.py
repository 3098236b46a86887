"""Controlplane backend: etcd, kube-apiserver, kube-controller-manager and kube-scheduler as local
processes.

Simulated machines may be imported only through `embedded` and `models`. Inside:

    programs      finding and building the programs
    starting      files, processes, and waiting until they serve
    supervisor    separate process that ends the others
    tunnel        connections of the API server to simulated machines
    cluster       the backend itself
"""
