"""The judge: `service.LocalJudge` outside, `referee` and `runner` as processes of their own.

Nothing is re-exported here, so that a runner starts without loading what only the service needs.
"""
