"""Kernels on the simulator: results, and the errors that a GPU would hide."""

import ctypes
import math

import pytest
from tests_sim_support import floats  # noqa: F401
