"""Answers of the judge for a model that acts on them: the fact, the likely cause, the lines.

What a cause is guessed from are figures of the records, never the wording of a message.
"""

import math
import re
from collections.abc import Iterator, Sequence

from warpsmith.agent.actions_speed import roofline_lines, speed_lines
from warpsmith.errors import SubmissionUnreadableError
from warpsmith.types import (
    CompileResult,
    CompileStatus,
    Device,
    Phase,
    Status,
    Submission,
    SubmissionForm,
    Verdict,
)
from warpsmith.workspace.submission import MODEL_FILE

MAX_CHARS = 8000
_MAX_EXCERPTS = 4
_AROUND = 2
_MAX_LINE = 160
# FILE:LINE as g++, the simulator and Python write it, FILE(LINE) as nvcc does
_FILE = r"[\w./-]+\.(?:cuh?|cpp|cc|hpp|h|py|inl|inc)"
_PLACE = re.compile(rf'(?<![\w./-])({_FILE})(?::|\(|", line )(\d{{1,6}})')
# as the judge writes it
_LINE_OF = re.compile(rf"\bline (\d{{1,6}}) of ({_FILE})")
_CALLS = re.compile(r"^\s*(?:import|from)\s+cuda_extension\b", re.MULTILINE)
_MANY = 0.5
_FEW = 0.02
_ROUNDING = 5e-2


def capped(text: str, limit: int = MAX_CHARS) -> str:
    """`text` with its middle left out where it is longer than `limit`."""
    if len(text) <= limit:
        return text
    half = limit // 2 - 40
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def restored_lines(paths: Sequence[str]) -> Iterator[str]:
    """Says which fixed files were written back."""
    if paths:
        verb = "belongs" if len(paths) == 1 else "belong"
        yield (
            f"[note] {', '.join(paths)} {verb} to the task; changed or missing, now restored. "
            "Only model_new.py and what you add beside it is judged."
        )


def unreadable(error: SubmissionUnreadableError) -> str:
    """The workspace is no submission."""
    hint = f"\nDo this: {error.hint}." if error.hint else ""
    return f"[FAIL] The workspace cannot be judged: {error}.{hint}"


def compiled(built: CompileResult, submission: Submission) -> str:
    """What a build says."""
    if built.status is CompileStatus.OK:
        cached = ", unchanged since it was built" if built.cached else ""
        return "\n".join([f"Compile success ({built.seconds:.1f} s{cached}).", *_resources(built)])
    fact = {
        CompileStatus.FAILED: "Compilation failed.",
        CompileStatus.TIMED_OUT: "Compilation took too long and was stopped. Likely cause: templates or "
        "#pragma unroll over large counts; build fewer variants.",
        CompileStatus.UNSUPPORTED: "This device cannot build or run what the sources use; on a GPU it may be fine.",
    }[built.status]
    return "\n".join([fact, built.log.rstrip(), *excerpts(built.log, submission)])


def verified(verdict: Verdict, submission: Submission) -> str:
    """Whether the submission is correct."""
    if verdict.status in (Status.PASSED, Status.UNSTABLE):
        return "\n".join(["[PASS] verify success", *_error(verdict), *_notes(verdict)])
    return "\n".join(_failure(verdict, submission))


def timed(verdict: Verdict, submission: Submission) -> str:
    """How fast it is, beside what."""
    if verdict.status not in (Status.PASSED, Status.UNSTABLE):
        return "\n".join(["Not timed, because it is not correct yet.", *_failure(verdict, submission)])
    if verdict.timings is None:
        return "\n".join([_untimed(verdict), "[PASS] verify success", *_error(verdict), *_notes(verdict)])
    return "\n".join([*speed_lines(verdict), *_notes(verdict)])


def sanitized(verdict: Verdict, submission: Submission) -> str:
    """What the sanitizer found: its checks, then the verdict."""
    if verdict.status not in (Status.PASSED, Status.UNSTABLE):
        return "\n".join(_failure(verdict, submission))
    ran = [check for check in verdict.checks if check.check in ("sanitizer", "memcheck")]
    lines = [f"{c.check}: {'' if c.passed else 'found. '}{c.detail}" for c in ran]
    if not ran:
        lines = ["No sanitizer is installed here; the plain judgement found nothing wrong."]
    return "\n".join([*lines, "[PASS] verify success", *_notes(verdict)])


def beside_roofline(verdict: Verdict, submission: Submission) -> str:
    """How far from the hardware's limits."""
    if verdict.timings is None:
        return timed(verdict, submission)
    return "\n".join(roofline_lines(verdict))


def excerpts(said: str, submission: Submission) -> Iterator[str]:
    """The submission's lines that a message names, with those around them."""
    shown: list[tuple[str, int]] = []
    for named, number in _places(said):
        path = next((p for p in submission.files if named == p or named.endswith("/" + p)), None)
        if path is None or any(path == p and abs(number - n) <= _AROUND for p, n in shown):
            continue
        lines = submission.files[path].splitlines()
        if not 1 <= number <= len(lines):
            continue
        yield f"{path}:"
        for at in range(max(1, number - _AROUND), min(len(lines), number + _AROUND) + 1):
            yield f"{'>' if at == number else ' '}{at:5d} | {lines[at - 1][:_MAX_LINE]}"
        shown.append((path, number))
        if len(shown) == _MAX_EXCERPTS:
            return


def _places(said: str) -> Iterator[tuple[str, int]]:
    """File and line of each place that a message names, the judge's own words first."""
    yield from ((match[2], int(match[1])) for match in _LINE_OF.finditer(said))
    yield from ((match[1], int(match[2])) for match in _PLACE.finditer(said))


def _failure(verdict: Verdict, submission: Submission) -> Iterator[str]:
    """The fact, the likely cause and the lines of a verdict that is not a pass."""
    yield f"[FAIL] {verdict.status.value} during {verdict.phase.value}: {verdict.detail or 'no detail'}"
    log = verdict.compile.log.rstrip() if verdict.compile and verdict.status is Status.COMPILE_FAILED else ""
    if log:
        yield log
    for check in verdict.checks:
        if not check.passed:
            yield f"check {check.check} failed: {check.detail}"
    yield from _error(verdict)
    if cause := _cause(verdict, submission):
        yield f"Likely cause: {cause}"
    yield from excerpts(
        "\n".join([verdict.detail, log, *(c.detail for c in verdict.checks if not c.passed)]), submission
    )
    yield from _notes(verdict)


def _error(verdict: Verdict) -> Iterator[str]:
    if verdict.error is not None:
        error = verdict.error
        where = f" at {error.where}" if error.where else ""
        part = (
            f", {error.mismatched_fraction:.2%} of the elements outside" if error.mismatched_fraction else ""
        )
        yield f"error: relative {error.rel:.2e}, largest {error.max_abs:.3g}{where}{part}"


def _notes(verdict: Verdict) -> Iterator[str]:
    yield from (f"note: {note}" for note in verdict.notes)


def _cause(verdict: Verdict, submission: Submission) -> str:
    if verdict.status is Status.CRASHED and verdict.phase is Phase.LOAD:
        if submission.form is SubmissionForm.SINGLE_FILE and _CALLS.search(submission.files[MODEL_FILE]):
            return (
                "there is no .cu file, and cuda_extension is made of these: write kernels/NAME.cu with the kernel "
                'and `extern "C" void NAME_launcher(..., cudaStream_t stream)`.'
            )
        return (
            "a Python error while model_new.py was imported or ModelNew was made, before any kernel ran: a missing "
            "import (torch.nn is only nn after `from torch import nn`), a misspelt name, or other arguments of "
            "__init__ than get_init_inputs() gives."
        )
    return _CAUSES.get(verdict.status, "") if verdict.status is not Status.WRONG else _why_wrong(verdict)


def _why_wrong(verdict: Verdict) -> str:
    error = verdict.error
    if error is None and verdict.phase is Phase.CORRECTNESS:
        return (
            "no figure can be given: NaN or infinity where the reference has none (elements that no thread writes, "
            "exp without the maximum subtracted), or another structure, shape or dtype than Model's output."
        )
    if error is None:
        return (
            "ModelNew is loaded with Model's parameters and must have exactly these, by name and shape. Remove from "
            "__init__ what Model has not (what forward is given is no parameter), and add what it has. Compare with "
            "model.py."
        )
    if not (math.isfinite(error.rel) and math.isfinite(error.max_abs)):
        return (
            "NaN or infinity: memory that is never written (torch.empty, shared memory), exp without subtracting the "
            "maximum, or a division by zero. Sanitize names reads of unwritten memory."
        )
    if error.rel < _ROUNDING and error.mismatched_fraction < _MANY:
        return (
            "accuracy rather than logic: sum in float32 (several partial sums, then a tree), subtract the mean "
            "before squaring, and do not round intermediate values to half precision or TF32."
        )
    if error.mismatched_fraction <= _FEW:
        return (
            "a few elements are wrong: the last block or the tail of a vectorised loop, an index beyond 2^31, or a "
            "missing __syncthreads. Look at the index above and at the sizes that are no multiple of the tile."
        )
    if error.mismatched_fraction >= _MANY:
        return (
            "most elements are wrong: the formula, a transposed or permuted index, a weight that is not read, a "
            "stride, or inputs that forward changed in place."
        )
    return "part of the output is wrong: a tile, channel or batch index, or a barrier that some threads do not reach."


def _untimed(verdict: Verdict) -> str:
    if verdict.device is Device.SIM:
        return "No times: this is the simulator, which proves correctness and says nothing about speed."
    return "No times were taken."


def _resources(built: CompileResult) -> Iterator[str]:
    for kernel in built.kernels:
        spills = kernel.spill_store_bytes + kernel.spill_load_bytes
        yield (
            f"  {kernel.kernel}: {kernel.registers} registers, {kernel.shared_bytes} bytes of shared memory"
            + (
                f", {spills} bytes of spills: use fewer live values, less unrolling or a smaller tile"
                if spills
                else ""
            )
        )


_CAUSES = {
    Status.CRASHED: "where a line of model_new.py is named, what Python says of that line; else an illegal address "
    "(an index beyond a tensor, a host pointer), or a launch with too many threads or too much shared memory: "
    "Sanitize names the line.",
    Status.TIMED_OUT: "a loop that does not end, a barrier that not all threads of a block reach, or a spin on "
    "memory that nobody writes.",
    Status.CHEATED: "the check above saw what the rules forbid. Compute the result anew in every call from the "
    "inputs and weights, on the stream that is passed, in your own kernels, cuBLAS or cuDNN.",
    Status.UNSTABLE: "times differ from call to call: work that depends on earlier calls, allocation in forward, or "
    "a busy GPU.",
    Status.UNSUPPORTED: "this device lacks something that is used; that says nothing about correctness.",
    Status.TASK_REFUSED: "the task itself cannot be judged: nothing that you change would help.",
    Status.INFRASTRUCTURE: "not your submission. Ask again.",
}
