"""Times, kernels and limits in words for a model that is to make a kernel faster."""

from collections.abc import Iterator

from warpsmith.types import (
    Bound,
    Evidence,
    KernelKind,
    KernelProfile,
    ProfileReport,
    Roofline,
    TimeStats,
    Verdict,
)

_MAX_KERNELS = 6
_MAX_NAME = 100
_NEAR_FLOOR = 0.85
_HIGH = 75.0
_LOW = 40.0
_FEW_LAUNCHES = 3.0
_MUCH = 0.15
_STALLS = {
    "long_scoreboard": "waits for global memory: more loads in flight (unroll, float4), fewer bytes, cp.async",
    "short_scoreboard": "waits for shared memory or special functions: bank conflicts, fewer exp/div, wider accesses",
    "mio_throttle": "the shared-memory pipe is full: wider accesses (float4), values kept in registers, shuffles",
    "lg_throttle": "too many small loads and stores queued: vectorise them",
    "barrier": "waits at __syncthreads: uneven work between barriers; smaller blocks or warp-level reductions",
    "math_pipe_throttle": "the arithmetic pipe is full: that is good, or use tensor cores",
    "wait": "fixed latency between dependent instructions: more independent work a thread",
    "not_selected": "enough warps are ready: occupancy is no problem",
    "no_instruction": "instruction cache misses: less unrolling, fewer branches",
    "branch_resolving": "branches: make them uniform in a warp",
    "dispatch_stall": "the dispatcher holds back: mixed pipes; rarely worth work",
    "membar": "waits at a memory fence: fewer __threadfence",
    "sleeping": "waits in __nanosleep",
    "drain": "waits for stores at the end of the kernel: fewer, wider stores",
    "imc_miss": "constant cache misses: pass fewer or smaller constants",
    "tex_throttle": "the texture pipe is full: plain loads",
}


def speed_lines(verdict: Verdict) -> Iterator[str]:
    """Times beside the baselines', the kernels, and what to try."""
    timings = verdict.timings
    if timings is None:
        return
    shown = [("Torch Baseline", timings.eager), ("Torch Compile", timings.compile)]
    told = [f"{name}: {_us(stats)}" for name, stats in [*shown, ("CUDA Extension", timings.candidate)]]
    yield ", ".join(told)
    if verdict.speedup is not None:
        paper = verdict.speedup.paper
        compiled = f"{_ratio(paper.compile)} over torch.compile (goal: above 1.05x)"
        yield f"Speed-up: {_ratio(paper.eager)} over eager, {compiled}."
    yield f"Spread: p25 {timings.candidate.p25_ms * 1000:.1f} us, p75 {timings.candidate.p75_ms * 1000:.1f} us."
    if verdict.evidence is not None:
        yield from _kernel_lines(verdict.evidence)
    if verdict.floor is not None and verdict.floor.share is not None:
        yield (
            f"Byte floor: {verdict.floor.floor_ms * 1000:.1f} us to read inputs and write outputs once; "
            f"you are at {verdict.floor.share:.0%} of it."
        )
    for advice in _advice(verdict):
        yield f"Next: {advice}"


def roofline_lines(verdict: Verdict) -> Iterator[str]:
    """The limits of the GPU and where the submission stands."""
    timings, roofline = verdict.timings, verdict.roofline
    if timings is None:
        return
    if roofline is None:
        yield "No roofline: this GPU's peaks are not known, or the products cannot be counted."
    else:
        yield f"Limit: {roofline.bound.value}. {_work(roofline)}"
        yield (
            f"Products at their peak {roofline.compute_ms * 1000:.1f} us, traffic at full bandwidth "
            f"{roofline.memory_ms * 1000:.1f} us, your time {timings.candidate.median_ms * 1000:.1f} us: "
            f"{roofline.share:.0%} of the roofline."
        )
        yield f"Attained: {roofline.attained_gb_s:.4g} GB/s, {roofline.attained_tflops:.4g} TFLOP/s."
    for advice in _advice(verdict):
        yield f"Next: {advice}"


def profiled_kernels(report: ProfileReport) -> str:
    """What Nsight Compute measured, kernel by kernel, with the likely cause."""
    if report.problem:
        return f"Not profiled: {report.problem}"
    lines = ["Nsight Compute, a mean launch of each kernel, those first that took the longest together:"]
    for kernel in report.kernels[:_MAX_KERNELS]:
        lines += [
            f"{_plain(kernel.kernel)} ({kernel.launches} launches)",
            f"  {', '.join(kernel.figures('us')) or 'nothing was measured'}",
        ]
        lines += [
            f"  waits {s.cycles:.1f} cycles: {s.reason}: {_STALLS.get(s.reason, 'see NVIDIA’s guide')}"
            for s in kernel.stalls
        ]
        if cause := _kernel_cause(kernel):
            lines.append(f"  Likely cause: {cause}")
    if len(report.kernels) > _MAX_KERNELS:
        lines.append(f"and {len(report.kernels) - _MAX_KERNELS} shorter kernels")
    return "\n".join(lines)


def _kernel_lines(evidence: Evidence) -> Iterator[str]:
    if evidence.kernels_problem:
        yield f"Kernels were not observed: {evidence.kernels_problem}"
    for kernel in evidence.kernels[:_MAX_KERNELS]:
        share = "" if kernel.share is None else f" {kernel.share:.0%} of the device time,"
        yield f"  {kernel.kind.value}:{share} {kernel.count} launches: {_plain(kernel.name)}"
    if len(evidence.kernels) > _MAX_KERNELS:
        yield f"  and {len(evidence.kernels) - _MAX_KERNELS} more kernels"
    if evidence.operators:
        most = sorted(evidence.operators, key=lambda name: -evidence.operators[name])[:_MAX_KERNELS]
        yield f"  torch operators that ran: {', '.join(most)}"


def _advice(verdict: Verdict) -> Iterator[str]:
    timings, evidence, floor = verdict.timings, verdict.evidence, verdict.floor
    roofline = verdict.roofline
    if timings is None:
        return
    if timings.candidate.launch_bound:
        yield "the call is hardly longer than its launch: only fewer launches and less Python in forward count."
    if evidence is not None:
        shares = evidence.shares()
        if (torch_share := shares.get(KernelKind.TORCH, 0.0)) > _MUCH:
            yield f"PyTorch's own kernels take {torch_share:.0%}: put that work into your kernels."
        copies = shares.get(KernelKind.MEMCPY, 0.0) + shares.get(KernelKind.MEMSET, 0.0)
        if copies > _MUCH:
            yield f"copies and fills take {copies:.0%}: write results in place, drop contiguous() and zeros()."
        if evidence.launches_per_call and evidence.launches_per_call > _FEW_LAUNCHES:
            launches = f"{evidence.launches_per_call:.3g} launches a call"
            yield f"{launches}: fuse neighbours, so that values between them stay in registers."
    memory_bound = roofline is None or roofline.bound is Bound.MEMORY
    if floor is not None and floor.share is not None and memory_bound:
        if floor.share >= _NEAR_FLOOR:
            yield "memory traffic is at its floor: only reading or writing less would help."
        else:
            yield "memory-bound, not at the floor: move each byte once, in 16-byte accesses, many in flight."
    if roofline is not None and roofline.bound is Bound.COMPUTE:
        yield "compute-bound: tensor cores (cuBLASLt, cuDNN) with fused epilogues, or less work."


def _kernel_cause(kernel: KernelProfile) -> str:
    dram, sm, occupancy = kernel.dram_percent, kernel.sm_percent, kernel.occupancy_percent
    if dram is not None and dram >= _HIGH:
        return "DRAM is saturated: only fewer bytes make it faster (fusion, smaller dtypes, no second pass)."
    if sm is not None and sm >= _HIGH:
        return "the SMs are saturated: fewer or cheaper instructions, or tensor cores."
    if occupancy is not None and occupancy < _LOW:
        return (
            f"latency: {occupancy:.0f} % of the warps an SM can hold are active. Fewer registers "
            f"({kernel.registers or 0:.0f} a thread) or less shared memory, more blocks, or more work a thread."
        )
    if dram is not None and sm is not None and dram < _LOW and sm < _LOW:
        return "latency: neither memory nor SMs are busy. A grid too small for the GPU, dependent loads, or barriers."
    return ""


def _work(roofline: Roofline) -> str:
    if not roofline.work:
        return "The reference holds no matrix product or convolution."
    return (
        "; ".join(
            f"{w.flops / 1e9:.4g} GFLOP in {w.precision.value}, peak {w.peak_tflops:g} TFLOP/s"
            for w in roofline.work
        )
        + f"; {roofline.intensity:.3g} FLOP a byte."
    )


def _us(stats: TimeStats | None) -> str:
    return "not measured" if stats is None else f"{stats.median_ms * 1000:.3f}us"


def _ratio(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3g}x"


def _plain(name: str) -> str:
    """On one line and printable: the submission chose it."""
    line = "".join(c if c.isprintable() else "?" for c in " ".join(name.split()))
    return line if len(line) <= _MAX_NAME else line[: _MAX_NAME - 1] + "…"
