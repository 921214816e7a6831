"""`make faults`: what goes wrong in the hands of users, through the real command line, as a table."""
