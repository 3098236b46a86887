"""What stands behind an API server when no real machines do: controllers and kubelets, on kube.Api
alone.

Nothing of the embedded server may enter here: the same actors run against a real API server.
"""
