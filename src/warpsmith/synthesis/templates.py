"""How a template of torch is written down; the tables are in `module_templates` and `function_templates`."""

from dataclasses import dataclass

from warpsmith.synthesis.records import Family, InputTemplate, OperatorKind, Parameter


@dataclass(frozen=True)
class Template:
    """An operator before it was tried: what probing finds (values, shapes, aten operators) is not in it."""

    name: str
    """As a user writes it: `nn.Conv2d`, `F.pad`, `torch.cumsum`."""
    family: Family
    ranks: tuple[int, ...]
    code: str
    """A module's constructor arguments are in `arguments`, and its call is `{self}({x})` unless it says otherwise."""
    arguments: str | None = None
    parameters: tuple[Parameter, ...] = ()
    inputs: tuple[InputTemplate, ...] = ()
    first: InputTemplate | None = None
    requires: tuple[str, ...] = ()
    dims_out: tuple[str, ...] | None = None
    variant: str = ""
    ends: bool = False

    @property
    def kind(self) -> OperatorKind:
        return OperatorKind.FUNCTION if self.arguments is None else OperatorKind.MODULE

    @property
    def public_name(self) -> str:
        """The dotted name: `torch.nn.functional.pad`."""
        head, _, tail = self.name.partition(".")
        return {"nn": "torch.nn.", "F": "torch.nn.functional."}.get(head, head + ".") + tail

    @property
    def constructor(self) -> str | None:
        return None if self.arguments is None else f"{self.name}({self.arguments})"


def module(
    name: str, family: Family, ranks: str, arguments: str = "", *parameters: Parameter,
    call: str = "{self}({x})", inputs: tuple[InputTemplate, ...] = (), first: InputTemplate | None = None,
    requires: str = "", dims: str = "", variant: str = "", ends: bool = False,
) -> Template:  # fmt: skip
    """A public module; `ranks` as digits, `requires` split at `;`, `dims` at spaces."""
    return Template(
        f"nn.{name}", family, _ranks(ranks), call, arguments, parameters, inputs, first, _split(requires, ";"),
        _split(dims, " ") or None, variant, ends,
    )  # fmt: skip


def function(
    name: str, family: Family, ranks: str, arguments: str, *parameters: Parameter, suffix: str = "",
    inputs: tuple[InputTemplate, ...] = (), requires: str = "", dims: str = "", variant: str = "",
    ends: bool = False,
) -> Template:  # fmt: skip
    """A function; `suffix` follows the call, such as `[0]`."""
    return Template(
        name, family, _ranks(ranks), f"{name}({arguments}){suffix}", None, parameters, inputs, None,
        _split(requires, ";"), _split(dims, " ") or None, variant, ends,
    )  # fmt: skip


def choose(name: str, *choices: object) -> Parameter:
    """A parameter that stands in the call."""
    return Parameter(name=name, choices=tuple(str(c) for c in choices))


def size(name: str, *choices: object) -> Parameter:
    """A parameter that is a size of the task."""
    return Parameter(name=name, choices=tuple(str(c) for c in choices), size=True)


def tensor(
    name: str, shape: str, draw: str = "torch.randn({shape})", dtype: str = "float32"
) -> InputTemplate:
    """Another input; `shape` split at spaces, `same` for that of what flows in."""
    return InputTemplate(name=name, shape=tuple(shape.split()), draw=draw, dtype=dtype)


def _ranks(digits: str) -> tuple[int, ...]:
    return tuple(int(digit) for digit in digits)


def _split(text: str, at: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(at) if part.strip())
