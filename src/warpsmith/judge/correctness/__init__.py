"""Is a candidate right? Gates, distributions, accuracy, and why it is wrong."""
