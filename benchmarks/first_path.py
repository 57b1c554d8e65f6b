"""`warpsmith optimize` with the built-in policy on single tasks of one GPU, each in a process of its own.

    python benchmarks/first_path.py [--kernelbench FILE.jsonl --rows 1/19,1/23,…] [--out FILE] [TASK.py …]

Writes, a task: status, milestone reward, median times with quartiles, speed-ups over eager and torch.compile in
PyTorch's default mode, the byte floor and the share of it reached. A task already in FILE is not run again, so a
killed run goes on with the same command.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import RESULTS, save


def optimize(spec: str, runs: Path) -> dict:
    """One `warpsmith optimize`; the verdict's figures, or what it said instead."""
    out = runs / spec.replace("/", "_").replace("#", "_").replace(":", "_")[-80:]
    argv = [sys.executable, "-m", "warpsmith", "optimize", spec, "--device", "cuda", "--out", str(out)]
    start = time.perf_counter()
    done = subprocess.run(argv, capture_output=True, text=True)
    row = {"seconds": round(time.perf_counter() - start, 1), "exit_code": done.returncode}
    verdict_file = out / "verdict.json"
    if not verdict_file.exists():
        return {**row, "said": (done.stderr or done.stdout).strip().splitlines()[-3:]}
    verdict = json.loads(verdict_file.read_text())
    row["status"], row["detail"] = verdict["status"], verdict["detail"]
    for part in ("speedup", "floor", "error", "notes"):
        row[part] = verdict.get(part)
    for name, stats in (verdict.get("timings") or {}).items():
        row[name] = {k: v for k, v in (stats or {}).items() if k != "samples_ms"} or None
    row["judge_seconds"] = verdict.get("seconds")
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--kernelbench", type=Path)
    parser.add_argument("--rows", default="")
    parser.add_argument("--out", type=Path, default=RESULTS / "first_path.json")
    args = parser.parse_args()
    wanted = {Path(t).stem: t for t in args.tasks}
    wanted |= {f"kernelbench {r}": f"kernelbench:{args.kernelbench}#{r}" for r in args.rows.split(",") if r}
    rows = json.loads(args.out.read_text())["tasks"] if args.out.exists() else {}
    runs = Path(tempfile.mkdtemp(prefix="warpsmith-runs-"))
    for name, spec in wanted.items():
        if name in rows:
            continue
        rows[name] = optimize(spec, runs)
        print(name, json.dumps(rows[name]), flush=True)
        save(args.out, tasks=rows)


if __name__ == "__main__":
    main()
