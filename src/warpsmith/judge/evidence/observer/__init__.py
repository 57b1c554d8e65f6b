"""What ran inside a runner's process: GPU kernels by CUPTI, torch operators by RecordFunction.

`build` compiles the two libraries once a machine; `client` loads them in the runner before the submission's code.
"""
