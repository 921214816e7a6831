"""Changes of memory imposed on a script that runs, and what they give."""
