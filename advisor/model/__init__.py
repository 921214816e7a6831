"""What a workload does to memory, and from it a glass-box prediction for devices that are not here."""
