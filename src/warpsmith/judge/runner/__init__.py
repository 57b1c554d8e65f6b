"""The isolated process that runs a model, and what passes between it and the referee."""
