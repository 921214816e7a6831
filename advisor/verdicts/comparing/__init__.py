"""Two profiles compared: BASE is what was, HEAD what is now; a ratio is HEAD's time over BASE's."""
