"""Controllers of kube-controller-manager, one module each.

Must not import the scheduler, kubelets or the API server.
"""
