"""Is a task fit to be judged at all? What is asked of it, and the process that asks."""
