"""`advisor fleet`: one workload on every distinct device that a Dask cluster has."""
