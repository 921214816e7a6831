"""Recording what an unchanged script moves between host and GPU, in the process that runs it."""
