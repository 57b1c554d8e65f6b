"""What touches verl, and nothing else does: each module here runs in a process that a stage starts."""
