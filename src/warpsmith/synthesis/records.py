"""What the stages of synthesis hand on: operators, composed tasks, the rows of a set."""

from enum import StrEnum

from pydantic import Field, model_validator

from warpsmith.types import Record, sha256_hex
from warpsmith.types.kinds import Device


class OperatorKind(StrEnum):
    """How an operator is called."""

    MODULE = "module"
    """A public `torch.nn` module: constructed once, then called."""
    FUNCTION = "function"
    """A function of torch or `torch.nn.functional`."""
    BLOCK = "block"
    """A class whose own source text stands alone: of a model library, or a user's. It is a task by itself."""


class Family(StrEnum):
    """What kind of computation it is: composers balance by it."""

    ACTIVATION = "activation"
    ELEMENTWISE = "elementwise"
    BINARY = "binary"
    REDUCTION = "reduction"
    NORM = "norm"
    SOFTMAX = "softmax"
    SCAN = "scan"
    LINEAR = "linear"
    CONV = "conv"
    POOL = "pool"
    ATTENTION = "attention"
    MLP = "mlp"
    ROTARY = "rotary"
    ROUTING = "routing"
    RECURRENT = "recurrent"
    SSM = "ssm"
    RESHAPE = "reshape"
    RESAMPLE = "resample"
    INDEX = "index"
    SORT = "sort"
    LOSS = "loss"
    DISTANCE = "distance"
    OTHER = "other"


class Values(StrEnum):
    """What is known of a tensor's values. Found by probing, never proven."""

    ANY = "any"
    SIGNED_UNIT = "signed_unit"
    """Within [-1, 1]."""
    NONNEGATIVE = "nonnegative"
    UNIT = "unit"
    """Within [0, 1]."""
    POSITIVE = "positive"
    POSITIVE_UNIT = "positive_unit"
    """Within (0, 1]."""


class Parameter(Record):
    """A number that a call takes, drawn from `choices`.

    A choice is a Python literal or integer arithmetic over the names of the dimensions that flow in (`d0`, `d1`, …,
    `last`) and of the parameters drawn before: `"3"`, `"0.1"`, `"d1 // 4"`, `"max(1, d1 // 8)"`.
    """

    name: str
    choices: tuple[str, ...] = Field(min_length=1)
    size: bool = False
    """A size that may be scaled: it becomes a module-level name of the task. Others stand in the call."""


class InputTemplate(Record):
    """A tensor that forward takes."""

    name: str
    shape: tuple[str, ...]
    """Expressions as in `Parameter.choices`, one a dimension."""
    dtype: str = "float32"
    draw: str = "torch.randn({shape})"
    """Python that draws it; `{shape}` becomes the sizes, other names in braces parameters and dimensions."""


class Operator(Record):
    """One operator, and how it is written, constructed and fed."""

    name: str
    """Dotted public name, as in the labels of a task: `torch.nn.Conv2d`, `torch.cumsum`."""
    kind: OperatorKind
    variant: str = ""
    """Tells templates of one name apart: `depthwise`."""
    family: Family
    library: str
    version: str
    licence: str
    ranks: tuple[int, ...] = ()
    """Ranks of the tensor that flows in; for a block those of its first input."""
    requires: tuple[str, ...] = ()
    """Conditions over the dimensions and parameters, in the same arithmetic with comparisons: `"d1 % 2 == 0"`."""
    parameters: tuple[Parameter, ...] = ()
    first: InputTemplate | None = None
    """The tensor that flows in where it is none that another operator gives (indices): it can only come first."""
    inputs: tuple[InputTemplate, ...] = ()
    """Inputs beside the tensor that flows in; for a block all of its inputs."""
    constructor: str | None = None
    """Python that makes the module, parameters and dimensions in braces: `nn.GroupNorm({groups}, {d1})`."""
    code: str
    """Python of the call: `{x}` is what flows in, `{self}` the module, `{NAME}` an input, parameter, dimension."""
    takes: Values = Values.ANY
    """Values that may flow in; others give NaN or infinities."""
    gives: dict[Values, Values] = Field(default_factory=dict)
    """For each class of values that may flow in, that of what flows out; any where nothing is said."""
    void_on: tuple[Values, ...] = ()
    """Values that it hands back unchanged, or makes a constant of."""
    keeps_shape: bool = False
    ends: bool = False
    """Nothing follows it: its output is no floating-point tensor, or too small."""
    trace: tuple[str, ...] = ()
    """The aten operators that it calls: equal for two names of one operator."""
    dims_out: tuple[str, ...] | None = None
    """Dimensions that flow out where they are known as expressions, `?` for one that is not; None: nothing known."""
    source: str | None = None
    """For a block: the whole text, imports included, that defines its class."""
    entry: str | None = None
    """For a block: the class in `source`."""
    origin: str = ""
    """Where its text came from: a module's dotted name, a file and class. Empty for what is only called."""

    @model_validator(mode="after")
    def _consistent(self) -> "Operator":
        if self.kind is OperatorKind.BLOCK:
            if self.source is None or self.entry is None or self.constructor is None:
                raise ValueError("a block has a source, an entry and a constructor")
        elif (self.constructor is not None) != (self.kind is OperatorKind.MODULE):
            raise ValueError("a module has a constructor, a function none")
        return self


class LeftOut(StrEnum):
    """Why something that was found is no operator of a catalogue."""

    NO_TEMPLATE = "no_template"
    """It is called in no way that the templates know."""
    CONTAINER = "container"
    """It computes nothing of its own."""
    DEPRECATED = "deprecated"
    QUANTIZED = "quantized"
    LAZY = "lazy"
    IDENTITY_IN_EVAL = "identity_in_eval"
    """Dropout and the like: nothing in the execution mode of tasks."""
    RANDOM = "random"
    DATA_DEPENDENT_SHAPE = "data_dependent_shape"
    COMPLEX = "complex"
    NEEDS_GRADIENT = "needs_gradient"
    DISCONTINUOUS = "discontinuous"
    """It jumps: an honest computation that rounds otherwise lands elsewhere."""
    IN_PLACE = "in_place"
    """A form that writes to its argument, of an operator that is listed."""
    ALIAS = "alias"
    """Another name of an operator that is listed."""
    DISTRIBUTED = "distributed"
    OPTIMIZER_STATE = "optimizer_state"
    UTILITY = "utility"
    """Makes, checks or converts; computes nothing that a kernel would."""
    FAILS = "fails"
    """Its template did not run where it was tried."""
    NOT_STANDALONE = "not_standalone"
    """Its source needs what cannot be gathered."""
    TOO_LARGE = "too_large"
    DUPLICATE = "duplicate"
    """Its body is that of another one, names aside."""
    WEIGHTS_NEEDED = "weights_needed"


class Omission(Record):
    """Something that was found and is not listed, and why."""

    name: str
    reason: LeftOut
    detail: str = ""


class Catalogue(Record):
    """What a crawl found."""

    schema_version: int = 1
    libraries: dict[str, str]
    """Version by library."""
    licences: dict[str, str]
    """SPDX identifier by library."""
    operators: tuple[Operator, ...]
    omitted: tuple[Omission, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Operators by family, sorted."""
        found = [op.family.value for op in self.operators]
        return {family: found.count(family) for family in sorted(set(found))}


class Origin(StrEnum):
    """Who wrote a task."""

    GRAMMAR = "grammar"
    LLM = "llm"
    BLOCK = "block"
    """A stand-alone operator of a model library, as it is."""
    USER = "user"
    """A module of the user's own."""
    PUBLISHED = "published"
    """A row of somebody else's set."""


class Provenance(Record):
    """From what a task was made."""

    origin: Origin
    libraries: tuple[str, ...]
    """`torch 2.13.0`, `transformers 5.24.0`."""
    licences: tuple[str, ...]
    mix: str = ""
    """Name of the mix that it was drawn for."""
    seed: int | None = None
    """With the catalogue and the mix, the task again."""
    model: str | None = None
    """The language model that wrote it."""


class CostEstimate(Record):
    """What the cost model says of a full-size task on a named GPU. Estimates, never measurements."""

    gpu: str
    eager_ms: float
    fused_ms: float
    """The same work with every intermediate kept on the chip: the products' FLOPs or the floor's bytes."""
    floor_ms: float
    """Inputs, weights and outputs once, at the datasheet's bandwidth."""
    fusion_gain: float
    """`eager_ms / fused_ms`."""
    headroom: float
    """`eager_ms / floor_ms`."""
    peak_bytes: int
    flops: int


class ComposedTask(Record):
    """A task as a composer wrote it, before anything was run but shape inference."""

    name: str
    ops: tuple[str, ...] = Field(min_length=1)
    """Names of the operators that run, in the order of their calls."""
    data_source: str
    """`torch#2`: library and number of operators."""
    code: str
    provenance: Provenance
    cost: CostEstimate | None = None
    index: int = 0
    """Its number in its mix and seed."""
    key: str = ""
    """Hash of the operators that run and the kinds of their calls: two tasks of one structure have one key."""
    trace: tuple[str, ...] = ()
    """The aten operators that its forward calls on the meta device."""

    @property
    def task_hash(self) -> str:
        """As that of `Task`: the hash of the code alone."""
        return sha256_hex(self.code)


class Band(StrEnum):
    """How hard a task is expected to be."""

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"
    EXPERT = "expert"


class Split(StrEnum):
    """Which part of a set a row belongs to: rows of one structure are in one part."""

    TRAIN = "train"
    VALIDATION = "validation"


class GpuTimes(Record):
    """Rough times of one task on one GPU, as `warpsmith check` takes them."""

    gpu: str
    torch: str
    eager_ms: float
    compile_ms: float | None = None
    peak_bytes: int | None = None

    @property
    def fusion_gain(self) -> float | None:
        """Eager over compile."""
        return self.eager_ms / self.compile_ms if self.compile_ms else None


class SynthRow(Record):
    """One row of a set. `ops`, `data_source` and `code` are the published schema; what follows is ours."""

    ops: tuple[str, ...]
    data_source: str
    code: str
    name: str = ""
    provenance: Provenance
    cost: CostEstimate | None = None
    times: tuple[GpuTimes, ...] = ()
    """One a GPU; empty where it was not measured."""
    fusion_gain: float | None = None
    """Eager over compile where measured, else the estimate."""
    pass_rate: float | None = None
    """Of a policy, where one is known: it decides the band."""
    band: Band
    fingerprint: str
    """Hash of the structure: neither sizes nor names change it."""
    split: Split

    @property
    def measured(self) -> bool:
        """Whether any GPU ran it."""
        return bool(self.times)

    @property
    def task_hash(self) -> str:
        """As that of `Task`."""
        return sha256_hex(self.code)


class Reject(StrEnum):
    """Why a task is not in the set; in the order in which the checks are made."""

    UNREADABLE = "unreadable"
    """Not Python, or without the three names."""
    DUPLICATE_CODE = "duplicate_code"
    DUPLICATE_STRUCTURE = "duplicate_structure"
    CONTAMINATED = "contaminated"
    """Too like a task of the benchmark."""
    MISLABELLED = "mislabelled"
    """`ops` is not what the code runs."""
    OUTSIDE_TIME = "outside_time"
    """Estimated or measured eager time outside the bounds."""
    OUTSIDE_MEMORY = "outside_memory"
    TOO_LARGE_TO_CHECK = "too_large_to_check"
    """No smaller sizes at which the CPU could check it."""
    RAISES = "raises"
    """Its import, its inputs, its constructor or its forward raised."""
    NOT_JUDGEABLE = "not_judgeable"
    """Its output is no tensor that a judge can compare."""
    NOT_FINITE = "not_finite"
    RANDOM = "random"
    UNWRITTEN_MEMORY = "unwritten_memory"
    CONSTANT_OUTPUT = "constant_output"
    INDISTINGUISHABLE = "indistinguishable"
    """Outputs for different inputs pass for each other."""
    ZEROS_PASS = "zeros_pass"
    COPY_PASSES = "copy_passes"
    IDLE_INPUT = "idle_input"
    IDLE_PARAMETER = "idle_parameter"
    ROUNDING_NOISE = "rounding_noise"
    JUMPS = "jumps"
    """Its output jumps where its inputs move a little: at full size some element always lies at the jump."""
    COMPILE_FAILS = "compile_fails"
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    """Its code ended the process that checked it."""
    INFRASTRUCTURE = "infrastructure"
    """The check was lost; it is made again."""


FILTER_VERSIONS = {Device.SIM: 2, Device.CUDA: 1}
"""Raised whenever a device's gates change, so that rows of older ones answer nothing."""


class FilterRow(Record):
    """What the filter said of one task. Goes on from a log of these."""

    task_hash: str
    device: Device
    filter_version: int
    rejects: tuple[Reject, ...] = ()
    """Empty: it is in. The first is the one that is counted."""
    detail: str = ""
    checked_hash: str | None = None
    """Hash of the smaller text that was run in its place."""
    cost: CostEstimate | None = None
    """Where the task came without an estimate."""
    times: GpuTimes | None = None
    seconds: float = 0.0
