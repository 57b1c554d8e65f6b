"""`warpsmith doctor`: what this machine can do, and what to install."""

import json
from typing import Annotated

import typer

from warpsmith.cli.errors import INFRASTRUCTURE, PASSED, guarded
from warpsmith.cli.options import DebugOption


@guarded
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
    debug: DebugOption = False,
) -> int:
    """Say what this machine can do: exit status 0 if kernels can be judged here, on a GPU or simulated."""
    from warpsmith.cli import machine

    findings = machine.examine()
    able = {device: machine.missing_for(device, findings) for device in machine.DEVICES}
    if as_json:
        rows = [{"name": f.name, "ok": f.ok, "detail": f.detail, "install": f.hint} for f in findings]
        print(json.dumps({"checks": rows, "able": {device: not gaps for device, gaps in able.items()}}))
    else:
        for finding in findings:
            advice = f" -> {finding.hint}" if finding.hint and not finding.ok else ""
            print(f"{'ok' if finding.ok else 'missing':<8} {finding.name:<13} {finding.detail}{advice}")
        for device, gaps in able.items():
            print(f"{device:<8} {'works' if not gaps else 'does not work: ' + ', '.join(gaps)}")
    return PASSED if any(not gaps for gaps in able.values()) else INFRASTRUCTURE
