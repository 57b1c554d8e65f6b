"""Runs jobs in processes of their own, one at a time on a GPU."""

from warpsmith.gpu.devices import GpuInfo, bandwidth_gb_s, list_gpus
from warpsmith.gpu.local import LocalPool, job_environment

__all__ = ["GpuInfo", "LocalPool", "bandwidth_gb_s", "job_environment", "list_gpus"]
