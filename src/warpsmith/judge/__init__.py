"""The judge: `service.LocalJudge` outside, `referee` and `runner.inside` as processes of their own.

`service` lays out a job's folder (`job`), starts the referee in it or takes one that is ready (`spare`), and reads
one verdict back (`verdict`). The referee goes through a `session`: is the task fit (`admission`), is the candidate
right (`correctness`, beside the `reference`), how long does it take (`timing`), what ran (`evidence`). What runs a
model is the `runner`, isolated; `instruments` watch one after its verdict.

Nothing is re-exported here, so that a runner starts without loading what only the service needs.
"""
