"""The C types a launcher may take, and what stands for each in Python and PyTorch."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How a scalar of this type is passed."""

    INTEGER = "integer"
    FLOAT = "float"
    BOOL = "bool"
    HALF = "half"
    BFLOAT16 = "bfloat16"
    POINTEE = "pointee"
    """Only behind a pointer."""


@dataclass(frozen=True)
class CType:
    """`ctype` names one of `ctypes`, `dtype` one of `torch`; `alignment` (bytes) where above the dtype's."""

    kind: Kind
    dtype: str | None
    ctype: str | None = None
    low: int = 0
    high: int = 0
    alignment: int = 0


def _integer(bits: int, signed: bool) -> CType:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    name = f"int{bits}" if signed else f"uint{bits}"
    return CType(Kind.INTEGER, name, f"c_{name}", low, high)


def _vectors() -> dict[str, CType]:
    elements = {
        "float": ("float32", 4),
        "double": ("float64", 8),
        "int": ("int32", 4),
        "uint": ("uint32", 4),
        "short": ("int16", 2),
        "ushort": ("uint16", 2),
        "char": ("int8", 1),
        "uchar": ("uint8", 1),
    }
    vectors = {
        f"{prefix}{lanes}": CType(Kind.POINTEE, dtype, alignment=min(size * lanes, 16))
        for prefix, (dtype, size) in elements.items()
        for lanes in (2, 4)
    }
    for spelled in ("half2", "__half2"):
        vectors[spelled] = CType(Kind.POINTEE, "float16", alignment=4)
    for spelled in ("__nv_bfloat162", "nv_bfloat162"):
        vectors[spelled] = CType(Kind.POINTEE, "bfloat16", alignment=4)
    return vectors


_HALF = CType(Kind.HALF, "float16", "c_uint16")
_BFLOAT16 = CType(Kind.BFLOAT16, "bfloat16", "c_uint16")
_I64, _U64 = _integer(64, True), _integer(64, False)

TYPES: dict[str, CType] = {
    "void": CType(Kind.POINTEE, None),
    "bool": CType(Kind.BOOL, "bool", "c_bool"),
    "float": CType(Kind.FLOAT, "float32", "c_float"),
    "double": CType(Kind.FLOAT, "float64", "c_double"),
    "half": _HALF,
    "__half": _HALF,
    "__nv_bfloat16": _BFLOAT16,
    "nv_bfloat16": _BFLOAT16,
    "__nv_fp8_e4m3": CType(Kind.POINTEE, "float8_e4m3fn"),
    "__nv_fp8_e5m2": CType(Kind.POINTEE, "float8_e5m2"),
    "cuComplex": CType(Kind.POINTEE, "complex64", alignment=8),
    "cuFloatComplex": CType(Kind.POINTEE, "complex64", alignment=8),
    "cuDoubleComplex": CType(Kind.POINTEE, "complex128", alignment=16),
    "char": _integer(8, True),
    "signed char": _integer(8, True),
    "unsigned char": _integer(8, False),
    "short": _integer(16, True),
    "unsigned short": _integer(16, False),
    "int": _integer(32, True),
    "unsigned int": _integer(32, False),
    # x86-64 Linux: long is 64 bits
    "long": _I64,
    "unsigned long": _U64,
    "long long": _I64,
    "unsigned long long": _U64,
    "size_t": _U64,
    "ssize_t": _I64,
    "ptrdiff_t": _I64,
    "intptr_t": _I64,
    "uintptr_t": _U64,
    "uint": _integer(32, False),
    **{f"int{bits}_t": _integer(bits, True) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": _integer(bits, False) for bits in (8, 16, 32, 64)},
    **_vectors(),
}


def canonical(spelled: str) -> str:
    """One spelling for all orders of the built-in words: `long unsigned int` → `unsigned long`.

    Qualified names keep their last part (`std::int64_t` → `int64_t`).
    """
    words = spelled.replace("::", " :: ").split()
    if "::" in words:
        return words[-1]
    if not set(words) <= {"unsigned", "signed", "long", "short", "int", "char"}:
        return " ".join(words)
    sign = "unsigned " if "unsigned" in words else ""
    if "char" in words:
        return "signed char" if "signed" in words else f"{sign}char"
    if "short" in words:
        return f"{sign}short"
    if longs := words.count("long"):
        return sign + " ".join(["long"] * longs)
    return f"{sign}int"
