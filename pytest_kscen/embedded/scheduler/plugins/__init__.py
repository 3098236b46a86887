"""The plugins of kube-scheduler 1.36, one module each; what several of them need has a module of
its own.
"""
