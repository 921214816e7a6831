"""Glass-box predictions for devices that are not here, from what a workload does to memory."""
