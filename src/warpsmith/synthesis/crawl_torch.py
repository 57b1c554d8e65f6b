"""The operators of the installed torch: templates where calls need arguments, trying where they need none."""

import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from warpsmith.synthesis.function_templates import function_templates
from warpsmith.synthesis.module_templates import module_templates
from warpsmith.synthesis.omissions import reason_by_name
from warpsmith.synthesis.probing import NotUsableError, Probed, keeps_shape, probe
from warpsmith.synthesis.records import Catalogue, Family, LeftOut, Omission, Operator
from warpsmith.synthesis.templates import Template, function, module, tensor

LICENCE = "BSD-3-Clause"
_RANKS = "2345"
_ARITHMETIC = frozenset({"aten.add", "aten.sub", "aten.mul", "aten.div"})
_SPECIAL = re.compile(r"bessel|airy|polynomial|zeta|gamma|erfcx|log_ndtr|ndtri|i0e?$|i1e?$")


def crawl_torch(told: Callable[[str], None] = lambda text: None) -> Catalogue:
    """Every public module, function of `torch.nn.functional`, torch, `torch.special` and `torch.linalg`.

    Each is an operator that was tried, or is listed with the reason why not. Takes about a minute.
    """
    torch.set_num_threads(1)
    operators: list[Operator] = []
    omitted: dict[str, Omission] = {}
    version = torch.__version__.split("+")[0]

    def consider(template: Template, *, alias_of: set[tuple[str, ...]] | None = None) -> None:
        name = template.public_name
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = probe(template)
        except NotUsableError as error:
            omitted.setdefault(name, Omission(name=name, reason=error.reason, detail=str(error)))
            return
        if alias_of is not None:
            if found.trace in alias_of:
                omitted.setdefault(name, Omission(name=name, reason=LeftOut.ALIAS))
                return
            alias_of.add(found.trace)
        operators.append(_operator(template, found, version))

    for template in [*module_templates(), *function_templates()]:
        consider(template)
    named = {op.name for op in operators}
    told(f"{len(named)} operators by templates")
    for templates in (_guessed_modules(named | set(omitted)), _guessed_functions(named | set(omitted))):
        seen: set[tuple[str, ...]] = set()
        for template in templates:
            consider(template, alias_of=seen)
    named = {op.name for op in operators}
    told(f"{len(named)} operators")
    for name, thing in _public():
        if name not in named and name not in omitted:
            reason = reason_by_name(name, thing)
            omitted[name] = Omission(name=name, reason=reason)
    return Catalogue(
        libraries={"torch": version},
        licences={"torch": LICENCE},
        operators=tuple(sorted(operators, key=lambda op: (op.name, op.variant))),
        omitted=tuple(omitted[name] for name in sorted(omitted) if name not in named),
    )


def _operator(template: Template, found: Probed, version: str) -> Operator:
    return Operator(
        name=template.public_name, kind=template.kind, variant=template.variant,
        family=_family(template, found), library="torch", version=version, licence=LICENCE, ranks=found.ranks,
        requires=template.requires, parameters=template.parameters, first=template.first,
        inputs=template.inputs, constructor=template.constructor, code=template.code, takes=found.takes,
        gives=found.gives, void_on=found.void_on,
        keeps_shape=found.keeps_shape, ends=template.ends or not found.floating, trace=found.trace,
        dims_out=template.dims_out,
    )  # fmt: skip


def _family(template: Template, found: Probed) -> Family:
    """Functions that are seldom used in models are told from those that are."""
    if template.family is Family.ELEMENTWISE and _SPECIAL.search(template.name):
        return Family.OTHER
    return template.family


def _guessed_modules(known: set[str]) -> Iterator[Template]:
    """Modules that need no argument and take one tensor: most are activations."""
    for name, thing in _public():
        if (
            not inspect.isclass(thing)
            or name in known
            or reason_by_name(name, thing) is not LeftOut.NO_TEMPLATE
        ):
            continue
        needed = [
            p for p in list(inspect.signature(thing.__init__).parameters.values())[1:]
            if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]  # fmt: skip
        if not needed:
            yield module(name.rpartition(".")[2], Family.ACTIVATION, _RANKS)


def _guessed_functions(known: set[str]) -> Iterator[Template]:
    """Functions of one tensor, and of two of one shape, that run so and keep the shape."""
    for name, thing in _public():
        if inspect.isclass(thing) or name in known or reason_by_name(name, thing) is not LeftOut.NO_TEMPLATE:
            continue
        short = name.replace("torch.nn.functional.", "F.")
        family = Family.ACTIVATION if short.startswith("F.") else Family.ELEMENTWISE
        one = function(short, family, _RANKS, "{x}")
        if keeps_shape(one):
            yield one
            continue
        # what divides by it or takes its logarithm takes positive values
        positive = tensor("other", "same", "torch.rand({shape}) + 0.5")
        two = function(short, Family.BINARY, _RANKS, "{x}, {other}", inputs=(positive,))
        if keeps_shape(two):
            yield two


def _public() -> Iterator[tuple[str, Any]]:
    """Dotted names and what they stand for, in a fixed order, those of `torch.nn.functional` before torch's."""
    for name in sorted(dir(torch.nn)):
        thing = getattr(torch.nn, name)
        if inspect.isclass(thing) and issubclass(thing, torch.nn.Module):
            yield f"torch.nn.{name}", thing
    for space, label in (
        (torch.nn.functional, "torch.nn.functional"), (torch, "torch"), (torch.special, "torch.special"),
        (torch.linalg, "torch.linalg"),
    ):  # fmt: skip
        for name in sorted(dir(space)):
            thing = getattr(space, name)
            if not name.startswith("_") and callable(thing) and not inspect.isclass(thing):
                yield f"{label}.{name}", thing
