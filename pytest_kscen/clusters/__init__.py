"""Where clusters come from: embedded, controlplane, kind, kubeconfig. No test plan may enter here."""
