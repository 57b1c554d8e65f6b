"""Operators of an installed model library: classes of its files, each made a text that stands alone.

Nothing is imported from the library: its files are read. Each class is gathered (`gather`), given a constructor and
inputs by the names of its arguments (`block_templates`), and tried on the CPU at small sizes; what does not run is
left out with its reason.
"""

import ast
import contextlib
import importlib.metadata
import importlib.util
import inspect
import re
import signal
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsmith.errors import MissingExtraError
from warpsmith.synthesis.block_templates import PARAMETERS, SMALL, VALUES, Feeding, family_of, feedings
from warpsmith.synthesis.gather import CONFIG, Library, LibraryFile, NotStandaloneError, body_hash
from warpsmith.synthesis.records import Catalogue, Family, LeftOut, Omission, Operator, OperatorKind

_LICENCES = {"Apache-2.0": "Licensed under the Apache License, Version 2.0."}
_TRY_TIMEOUT_S = 10.0
_MODULE = "nn.Module"
_BASES = frozenset(
    {_MODULE, "torch.nn.Module", "GradientCheckpointingLayer", "nn.LayerNorm", "nn.Conv1d", "nn.Conv2d"}
)
_CONFIG_NAMES = frozenset({"config", "text_config", "vision_config"})


@dataclass(frozen=True)
class ModelLibrary:
    """A library whose files hold operators."""

    name: str
    licence: str
    """Of its files."""
    files: str
    """Those below its folder that are looked at; {only} is what `only` says, or *."""
    install: str
    """How to get it."""


TRANSFORMERS = ModelLibrary(
    "transformers", "Apache-2.0", "models/{only}/modeling_*.py", "pip install 'warpsmith[synth]'"
)
TIMM = ModelLibrary("timm", "Apache-2.0", "layers/{only}.py", "pip install --no-deps timm: it is only read")


@dataclass(frozen=True)
class Crawled:
    """What a crawl found: operators, and what was left out and why."""

    library: ModelLibrary
    operators: tuple[Operator, ...]
    omitted: tuple[Omission, ...]
    classes: int
    """`nn.Module` classes in all modeling files."""
    version: str
    by_family: dict[str, dict[str, int]]
    """For each family, candidates by what became of them: `listed` or a reason."""

    def added_to(self, catalogue: Catalogue) -> Catalogue:
        """The catalogue with these operators and omissions after its own."""
        return catalogue.model_copy(
            update={
                "libraries": {**catalogue.libraries, self.library.name: self.version},
                "licences": {**catalogue.licences, self.library.name: self.library.licence},
                "operators": (*catalogue.operators, *self.operators),
                "omitted": (*catalogue.omitted, *self.omitted),
            }
        )


def crawl_installed(
    library: ModelLibrary, *, told: Callable[[int, int], None] = lambda done, total: None, only: str = ""
) -> Crawled:
    """Crawls an installed library; see `crawl_library`. Raises MissingExtraError where it is not installed."""
    spec = importlib.util.find_spec(library.name)
    if spec is None or spec.origin is None:
        raise MissingExtraError(
            f"crawling {library.name} needs {library.name}", hint=f"get it with {library.install}"
        )
    version = importlib.metadata.version(library.name)
    return crawl_library(Path(spec.origin).parent, version, library, told=told, only=only)


def crawl_library(
    root: Path,
    version: str,
    of: ModelLibrary = TRANSFORMERS,
    *,
    told: Callable[[int, int], None] = lambda done, total: None,
    only: str = "",
) -> Crawled:
    """Crawls the library's files below `root`; `only`: a pattern for the part of their path that may differ.

    Runs the classes' code in this process. `told` is called with the files done and how many there are.
    """
    library = Library(root)
    paths = sorted(root.glob(of.files.format(only=only or "*")))
    operators: list[Operator] = []
    omitted: list[Omission] = []
    seen: dict[str, str] = {}
    outcomes: Counter[tuple[str, str]] = Counter()
    classes = 0
    for done, path in enumerate(paths, 1):
        file = library.file(path)
        for name, node in file.defined.items():
            if not isinstance(node, ast.ClassDef) or not {ast.unparse(b) for b in node.bases} & _BASES:
                continue
            classes += 1
            family = family_of(name)
            if family is None:
                continue
            full = ".".join([of.name, *path.relative_to(root).with_suffix("").parts, name])
            first = seen.setdefault(body_hash(node), full)
            if first != full:
                outcomes[family.value, LeftOut.DUPLICATE.value] += 1
                omitted.append(Omission(name=full, reason=LeftOut.DUPLICATE, detail=first))
                continue
            found = _operator(library, file, node, family, full, (of, version))
            if isinstance(found, Operator):
                operators.append(found)
            else:
                omitted.append(found)
            outcome = "listed" if isinstance(found, Operator) else found.reason.value
            outcomes[family.value, outcome] += 1
        told(done, len(paths))
    by_family: dict[str, dict[str, int]] = {}
    for (family_name, outcome), count in sorted(outcomes.items()):
        by_family.setdefault(family_name, {})[outcome] = count
    return Crawled(of, tuple(operators), tuple(omitted), classes, version, by_family)


def _operator(
    library: Library,
    file: LibraryFile,
    node: ast.ClassDef,
    family: Family,
    full: str,
    release: tuple[ModelLibrary, str],
) -> Operator | Omission:
    """The operator that a class of a release makes, tried; or why it makes none."""
    of, version = release
    try:
        source = library.gather(file.path, node.name)
    except NotStandaloneError as error:
        return Omission(name=full, reason=LeftOut.NOT_STANDALONE, detail=str(error))
    try:
        constructor = _constructor(node, source, _defaults(library, file))
        ways = _ways(node)
    except LookupError as error:
        return Omission(name=full, reason=LeftOut.NO_TEMPLATE, detail=str(error.args[0]))
    problem = "no template of its inputs"
    try:
        module = _imported(source)
        with _limited(_TRY_TIMEOUT_S):
            made = _made(module, constructor)
    except Exception as error:  # noqa: BLE001  whatever a class raises is the answer
        return Omission(name=full, reason=LeftOut.FAILS, detail=_one_line(error))
    for feeding in ways:
        try:
            with _limited(_TRY_TIMEOUT_S):
                outputs = _tried(made, feeding, module)
        except Exception as error:  # noqa: BLE001  whatever a class raises is the answer
            problem = _one_line(error)
            continue
        if outputs is None:
            problem = "its output is no tensor that depends on its inputs"
            continue
        code = "{self}(" + ", ".join(_argument(*pair) for pair in feeding.arguments) + ")"
        code = code if outputs == 1 else f"{code}[0]" if outputs == 0 else f"torch.cat({code}, dim=-1)"
        return Operator(
            name=full, kind=OperatorKind.BLOCK, family=family, library=of.name, version=version,
            licence=of.licence, ranks=(len(feeding.inputs[0].shape),), parameters=PARAMETERS, inputs=feeding.inputs,
            constructor=constructor, code=code, source=_note(file, node.name, of, version) + source, entry=node.name,
            origin=full,
        )  # fmt: skip
    return Omission(name=full, reason=LeftOut.FAILS, detail=problem)


def _note(file: LibraryFile, name: str, of: ModelLibrary, version: str) -> str:
    """Where the text is from, whose it is and what was changed in it, as its licence asks for."""
    where = file.path.relative_to(file.root)
    lines = [
        f"# {name} of {of.name} {version}, {where}. {_LICENCES[of.licence]}",
        *file.header,
    ]
    lines.append("# Changed: gathered with what it needs; annotations, docstrings and decorators taken away.")
    return "\n".join(lines) + "\n"


# --- templates from a class's text


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((m for m in node.body if isinstance(m, ast.FunctionDef) and m.name == name), None)


def _arguments(method: ast.FunctionDef) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the arguments without and with a default, `self` left out."""
    given = [a.arg for a in [*method.args.posonlyargs, *method.args.args]]
    count = len(given) - len(method.args.defaults)
    only = list(zip(method.args.kwonlyargs, method.args.kw_defaults, strict=True))
    required = [*given[1:count], *(a.arg for a, default in only if default is None)]
    return tuple(required), (*given[max(count, 1) :], *(a.arg for a, default in only if default is not None))


def _constructor(node: ast.ClassDef, source: str, defaults: dict[str, str]) -> str:
    """Python that makes the class. Raises LookupError for an argument that nothing is known of."""
    method = _method(node, "__init__")
    required = _arguments(method)[0] if method is not None else ()
    words = []
    for name in required:
        if name in _CONFIG_NAMES or name.endswith("config"):
            words.append(f"{name}={_config(source, defaults)}")
        elif name in VALUES:
            words.append(f"{name}={VALUES[name]}")
        else:
            raise LookupError(f"its constructor takes {name}")
    return f"{node.name}({', '.join(words)})"


def _config(source: str, defaults: dict[str, str]) -> str:
    """The configuration with every attribute that the text reads. Unknown ones are left to fail when it is tried."""
    tree = ast.parse(source)
    read = dict.fromkeys(
        n.attr
        for n in ast.walk(tree)
        if isinstance(n, ast.Attribute) and ast.unparse(n.value).rsplit(".", 1)[-1] in _CONFIG_NAMES
    )
    read |= dict.fromkeys(
        n.args[1].value
        for n in ast.walk(tree)
        if isinstance(n, ast.Call)
        and ast.unparse(n.func) == "getattr"
        and len(n.args) == 2
        and isinstance(n.args[1], ast.Constant)
    )
    known = []
    for name in sorted(filter(lambda name: isinstance(name, str), read)):
        given = defaults.get(name, "")
        # words and switches as the model has them; sizes that fit each other from the table
        is_word = given[:1] in ("'", '"') or given in ("True", "False")
        value = given if is_word else VALUES.get(name) or given or _guess(name)
        known += [f"{name}={value}"] if value else []
    return f"Config({', '.join(known)})"


def _defaults(library: Library, file: LibraryFile) -> dict[str, str]:
    """Python of the literals that the model's configuration classes give their attributes; the first class wins."""
    found: dict[str, str] = {}
    for path in sorted(file.path.parent.glob("configuration_*.py")):
        for node in library.file(path).defined.values():
            if isinstance(node, ast.ClassDef):
                for name, value in _literals(node):
                    found.setdefault(name, value)
    return found


def _literals(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    pairs: list[tuple[str, ast.expr | None]] = []
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            pairs.append((part.target.id, part.value))
        elif isinstance(part, ast.FunctionDef) and part.name == "__init__":
            given = part.args.args[len(part.args.args) - len(part.args.defaults) :]
            pairs += [(a.arg, value) for a, value in zip(given, part.args.defaults, strict=True)]
    for name, value in pairs:
        if isinstance(value, ast.Constant | ast.UnaryOp | ast.Tuple | ast.List):
            yield name, ast.unparse(value)


def _guess(name: str) -> str | None:
    """Python of a configuration's attribute by what its name is like."""
    guesses = (
        (r"bias|norm_topk|^use_|^is_|^has_|_prenorm|^do_|clip|scale_attn|^tie_", "False"),
        (r"eps", "1e-06"),
        (r"drop|noise", "0.0"),
        (r"act", "'silu'"),
        (r"heads|experts$", "8"),
        (r"intermediate|ffn", "4 * {hidden}"),
        (r"hidden_size|embed|dim$|channels", "{hidden}"),
        (r"scal", "1.0"),
    )
    return next((value for words, value in guesses if re.search(words, name)), None)


def _ways(node: ast.ClassDef) -> list[Feeding]:
    """Ways of calling the class. Raises LookupError for an argument of forward that nothing is known of."""
    method = _method(node, "forward")
    if method is None:
        if any(ast.unparse(base) in ("nn.LayerNorm", "nn.Conv1d", "nn.Conv2d") for base in node.bases):
            return feedings(("x",), ())
        raise LookupError("it has no forward of its own")
    required, optional = _arguments(method)
    if not required and "hidden_states" in optional:
        required = ("hidden_states",)
    found = feedings(required, optional)
    if not found or not required:
        raise LookupError(f"its forward takes {', '.join(required) or 'nothing'}")
    return found


def _argument(name: str, value: str) -> str:
    return f"{name}={value}"


# --- trying


def _imported(source: str) -> types.ModuleType:
    module = types.ModuleType("warpsmith_block")
    # dataclasses look their class up through its module
    sys.modules[module.__name__] = module
    exec(
        compile(source if "class Config" in source else f"{source}\n{CONFIG}", "<block>", "exec"),
        module.__dict__,
    )
    return module


def _filled(text: str) -> str:
    return re.sub(r"{(\w+)}", lambda match: str(SMALL.get(match[1], match[1])), text)


def _made(module: types.ModuleType, constructor: str) -> Any:
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        return eval(_filled(constructor), module.__dict__).eval()


def _tried(made: Any, feeding: Feeding, module: types.ModuleType) -> int | None:
    """How its output is told: 1 a tensor, 0 a tensor first of several things, 2 tensors alone; None for others."""
    import torch

    names: dict[str, Any] = {}
    for template in feeding.inputs:
        shape = ", ".join(str(eval(size, {}, dict(SMALL))) for size in template.shape)
        names[template.name] = eval(_filled(template.draw.replace("{shape}", shape)), {"torch": torch})
    with torch.no_grad():
        arguments = {n: eval(_filled(value), {}, names) for n, value in feeding.arguments}
        found = made(**arguments)
    if isinstance(found, torch.Tensor):
        return 1 if _counts(found) else None
    if not isinstance(found, tuple | list) or not found or not _counts(found[0]):
        return None
    alone = all(_counts(part) and part.shape[:-1] == found[0].shape[:-1] for part in found)
    return 2 if alone and len(found) > 1 else 0


def _counts(value: Any) -> bool:
    """Whether it is a tensor of numbers that a judge could compare."""
    import torch

    return (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.numel() > 1
        and bool(torch.isfinite(value).all())
        and not bool((value == value.flatten()[0]).all())
    )


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raises TimeoutError after this time; only in a main thread, elsewhere nothing limits it."""

    def end(number: int, frame: object) -> None:
        raise TimeoutError(f"took longer than {seconds:g} s")

    try:
        before = signal.signal(signal.SIGALRM, end)
    except ValueError:
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {inspect.cleandoc(lines[0])[:160]}" if lines else type(error).__name__
