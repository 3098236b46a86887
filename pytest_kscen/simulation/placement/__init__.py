"""What fits where: pure functions on pods and nodes that the kubelet and the scheduler share. No API may enter here."""
