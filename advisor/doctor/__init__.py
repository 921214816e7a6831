"""`advisor doctor`: what this machine can and cannot do, what that means, and how to get the rest."""
