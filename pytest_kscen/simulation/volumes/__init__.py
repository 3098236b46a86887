"""PersistentVolumes: found or provisioned for claims, bound, protected while in use, reclaimed. No kubelet may enter here."""
