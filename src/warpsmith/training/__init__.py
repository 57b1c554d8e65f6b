"""Training a language model on the judge's proof: the stages, and their adapters to verl.

What needs no engine (trajectories, advantages, filters, rewards, curricula, instruments) imports neither torch nor
verl; `training.engine` alone holds what does.
"""
