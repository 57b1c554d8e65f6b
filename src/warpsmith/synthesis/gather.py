"""A class of a model library with all that its text needs, as one text that needs torch alone. Pure text work.

Annotations, docstrings, comments and decorators of the library go; its registries of activations and attention
functions, its configuration and its logger are stood in for by a few lines each.
"""

import ast
import builtins
import copy
import hashlib
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

MAX_LINES = 400

_STAND_INS = {
    "ACT2FN": """ACT2FN = {
    "relu": nn.ReLU(), "relu2": lambda x: torch.relu(x).square(), "relu6": nn.ReLU6(), "gelu": nn.GELU(),
    "gelu_new": nn.GELU(approximate="tanh"), "gelu_fast": nn.GELU(approximate="tanh"),
    "gelu_python": nn.GELU(), "gelu_pytorch_tanh": nn.GELU(approximate="tanh"), "silu": nn.SiLU(),
    "swish": nn.SiLU(), "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x), "sigmoid": nn.Sigmoid(),
    "tanh": nn.Tanh(), "mish": nn.Mish(), "linear": nn.Identity(), "leaky_relu": nn.LeakyReLU(),
    "hard_swish": nn.Hardswish(), "elu": nn.ELU(), "selu": nn.SELU(),
}""",
    "ALL_ATTENTION_FUNCTIONS": """class AttentionFunctions:
    def get_interface(self, name, default):
        return default

    def __contains__(self, name):
        return False


ALL_ATTENTION_FUNCTIONS = AttentionFunctions()""",
    "GradientCheckpointingLayer": "GradientCheckpointingLayer = nn.Module",
    "is_torchdynamo_compiling": "def is_torchdynamo_compiling():\n    return torch.compiler.is_compiling()",
    "is_flash_attention_requested": "def is_flash_attention_requested(*args, **kwargs):\n    return False",
    "use_fused_attn": "def use_fused_attn(*args, **kwargs):\n    return True",
    "is_fast_norm": "def is_fast_norm():\n    return False",
    "maybe_autocast": "def maybe_autocast(*args, **kwargs):\n    return torch.autocast('cpu', enabled=False)",
    "logger": "import logging\n\nlogger = logging.getLogger(__name__)",
    "init": "init = nn.init",
    "is_torch_greater_or_equal": "def is_torch_greater_or_equal(*args, **kwargs):\n    return True",
}
_ABSENT = re.compile(r"is_\w+_(available|requested|enabled|compatible)|is_\w*(tracing|jitting|proxy)")
"""Functions that ask whether something optional is there: it is not."""
CONFIG = '''class Config:
    """Stands in for the library's configuration."""

    def __init__(self, **values):
        self.__dict__.update(values)'''
_DECORATORS = frozenset(
    {"staticmethod", "classmethod", "property", "cached_property", "no_grad", "torch.no_grad()"}
)
_FREE_LIBRARIES = frozenset({"torch", "numpy", *sys.stdlib_module_names})


class NotStandaloneError(Exception):
    """The text needs what cannot be gathered; the message names it."""


@dataclass
class LibraryFile:
    """A file of the library: what it defines at its top level and what its imports bring."""

    root: Path
    """The folder that holds the library's package."""
    path: Path
    defined: dict[str, ast.stmt] = field(default_factory=dict)
    imported: dict[str, ast.Import | ast.ImportFrom] = field(default_factory=dict)

    @classmethod
    def read(cls, root: Path, path: Path) -> "LibraryFile":
        """Raises OSError or SyntaxError."""
        file = cls(root, path)
        for node in _flat(ast.parse(path.read_text("utf-8")).body):
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    file.defined[name] = node
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    file.defined[name] = node
                case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                    for alias in aliases:
                        file.imported[alias.asname or alias.name.split(".")[0]] = node
        return file

    @cached_property
    def header(self) -> list[str]:
        """Lines of the file's head that say whose it is."""
        lines = self.path.read_text("utf-8").splitlines()[:20]
        return [line for line in lines if line.startswith("#") and "opyright" in line]


class Library:
    """Files of an installed library, each read once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: dict[Path, LibraryFile] = {}

    def file(self, path: Path) -> LibraryFile:
        """Raises OSError or SyntaxError."""
        if path not in self._files:
            self._files[path] = LibraryFile.read(self.root, path)
        return self._files[path]

    def gather(self, path: Path, name: str) -> str:
        """The text of class `name` of the file and of all that it needs. Raises NotStandaloneError."""
        return _Gathering(self).text(self.file(path), name)

    def owner(self, file: LibraryFile, name: str) -> LibraryFile:
        """The file of this library that defines what a file calls `name`, as far as its imports lead there."""
        node = file.imported.get(name)
        if name in file.defined or not isinstance(node, ast.ImportFrom):
            return file
        source = self.source_of(file, node)
        return file if source is None else self.owner(source, name)

    def source_of(self, file: LibraryFile, node: ast.ImportFrom) -> LibraryFile | None:
        """The file of this library that an import reads from; None for another library."""
        module = node.module or ""
        if node.level:
            base = file.path
            for _ in range(node.level):
                base = base.parent
        elif module.split(".")[0] == self.root.name:
            base = self.root.parent
        else:
            return None
        target = base.joinpath(*module.split(".")) if module else base
        found = target.with_suffix(".py") if target.with_suffix(".py").is_file() else target / "__init__.py"
        return self.file(found) if found.is_file() else None


class _Gathering:
    def __init__(self, library: Library) -> None:
        self.library = library
        self.parts: dict[str, str] = {}
        """Texts by the name that they define, what is needed before what needs it."""
        self.owners: dict[str, Path] = {}
        self.imports: dict[str, None] = {"import torch": None, "import torch.nn as nn": None}
        self.pending: list[str] = []

    def text(self, file: LibraryFile, name: str) -> str:
        self.need(file, name)
        if any("config" in part for part in self.parts.values()):
            self.parts = {"Config": CONFIG, **self.parts}
        text = "\n\n\n".join([*self.parts.values()])
        head = "\n".join(self.imports)
        if len(text.splitlines()) > MAX_LINES:
            raise NotStandaloneError(f"its text has {len(text.splitlines())} lines")
        return f"{head}\n\n\n{text}\n"

    def need(self, file: LibraryFile, name: str) -> None:
        if name in self.parts or name in self.pending:
            owner = self.library.owner(file, name).path
            if self.owners.get(name, owner) != owner and name not in _STAND_INS:
                raise NotStandaloneError(f"two things named {name}")
            return
        if name in _STAND_INS and (name == "logger" or name not in file.defined):
            self.parts[name] = _STAND_INS[name]
        elif _ABSENT.fullmatch(name) and name in file.imported:
            self.parts[name] = f"def {name}(*args, **kwargs):\n    return False"
        elif name in file.defined:
            self.owners[name] = file.path
            self.pending.append(name)
            node = _bare(file.defined[name])
            for used in _free_names(node):
                self.need(file, used)
            self.pending.remove(name)
            self.parts[name] = ast.unparse(node)
        elif name in file.imported:
            self.need_import(file, name)
        elif not hasattr(builtins, name):
            raise NotStandaloneError(f"{name} is defined nowhere")

    def need_import(self, file: LibraryFile, name: str) -> None:
        node = file.imported[name]
        alias = next(a for a in node.names if (a.asname or a.name.split(".")[0]) == name)
        if isinstance(node, ast.Import) or (
            not node.level and (node.module or "").split(".")[0] in _FREE_LIBRARIES
        ):
            module = alias.name if isinstance(node, ast.Import) else node.module or ""
            if module.split(".")[0] not in _FREE_LIBRARIES:
                raise NotStandaloneError(f"it imports {module}")
            single = copy.copy(node)
            single.names = [alias]
            self.imports[ast.unparse(single)] = None
            return
        source = self.library.source_of(file, node)
        if source is None or (alias.asname or alias.name) != alias.name:
            raise NotStandaloneError(f"it imports {name} from {node.module or '.'}")
        self.need(source, alias.name)


class _Bare(ast.NodeTransformer):
    """Takes away annotations, docstrings and the library's decorators; gives unwritten parameters values."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self._plain(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._plain(node)

    def _plain(self, node: ast.FunctionDef | ast.ClassDef) -> ast.AST:
        node.decorator_list = [d for d in node.decorator_list if ast.unparse(d) in _DECORATORS]
        is_text = (
            node.body and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
        )
        node.body = (node.body[1:] if is_text else node.body) or [ast.Pass()]
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return ast.Pass()
        return self.visit(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.func) in ("nn.Parameter", "torch.nn.Parameter") and node.args:
            made = node.args[0]
            if isinstance(made, ast.Call) and ast.unparse(made.func) == "torch.empty":
                made.func = ast.parse("torch.randn", mode="eval").body
                node.args[0] = ast.BinOp(made, ast.Mult(), ast.Constant(0.02))
        return node


def _bare(node: ast.stmt) -> ast.stmt:
    return ast.fix_missing_locations(_Bare().visit(copy.deepcopy(node)))


def _free_names(node: ast.AST) -> list[str]:
    """Names that the text reads and binds nowhere itself, in order."""
    bound = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    bound |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
    bound |= {n.name for n in ast.walk(node) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    bound |= {n.name for n in ast.walk(node) if isinstance(n, ast.ExceptHandler) and n.name}
    if isinstance(node, ast.Assign):
        bound = set()
    read = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    return [name for name in dict.fromkeys(read) if name not in bound]


def _flat(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _flat(node.body)


def body_hash(node: ast.ClassDef) -> str:
    """Hash of a class's text; the name of the model, which classes of one file begin with, does not count."""
    text = ast.unparse(_bare(node))
    prefix = model_prefix(node.name)
    text = re.sub(rf"\b{re.escape(prefix)}", "", text) if len(prefix) > 2 else text
    return hashlib.sha256(text.encode()).hexdigest()


_PARTS = re.compile(
    r"(Vision|Text|Audio|Self|Cross|Sparse|Moe|Rotary|RMS|Layer|Attention|MLP|Norm|Expert|Router|Conv|Mamba|Mixer"
    r"|Feed|FFN|Intermediate|Output|Gate|TopK|Activation|Dense|Decoder|Encoder).*"
)


def model_prefix(name: str) -> str:
    """`LlamaAttention` → `Llama`."""
    return _PARTS.sub("", name)
