"""Rules: one problem a file, what each asks of a case, and the advice they give together."""
