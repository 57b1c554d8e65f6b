"""The task's own side: its model, inputs, weights and outputs, run by the referee."""
