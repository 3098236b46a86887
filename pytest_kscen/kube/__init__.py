"""The client side of Kubernetes: what actors speak, and what answers them.

No server and no simulation may enter here.
"""
