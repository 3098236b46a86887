"""What the control plane makes of nodes that fall silent: conditions, taints, evictions, and pods without a node."""
