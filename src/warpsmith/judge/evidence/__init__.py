"""What really ran: kernels and operators, seen by an observer in the runner's process."""
