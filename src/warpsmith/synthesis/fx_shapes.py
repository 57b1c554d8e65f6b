"""What a traced node is: its operator's name, shape, dtype and axes."""

from typing import Any


def name_of(target: Any) -> str:
    """`aten.add.Tensor` → `add`, `operator.getitem` → `getitem`."""
    parts = str(target).split(".")
    return (
        parts[1]
        if len(parts) > 1 and parts[0] in ("aten", "prims")
        else getattr(target, "__name__", parts[-1])
    )


def shape_of(node: Any) -> tuple[int, ...] | None:
    """Shape of a node's tensor; None where it is no tensor."""
    shape = getattr(_value(node), "shape", None)
    return None if shape is None else tuple(int(size) for size in shape)


def dtype_kind(node: Any) -> str:
    """`float`, `complex`, `int` or `bool`: which precision is not told apart."""
    dtype = getattr(_value(node), "dtype", None)
    if dtype is None:
        return "none"
    if dtype.is_complex:
        return "complex"
    return "float" if dtype.is_floating_point else "bool" if str(dtype) == "torch.bool" else "int"


def order_of(node: Any) -> tuple[int, ...] | None:
    """The axes of its input, in the order in which a transposition or permutation hands them on."""
    name = name_of(node.target).removesuffix("_copy")
    rank = len(shape_of(node.args[0]) or ())
    if name == "permute":
        return tuple(axis % rank for axis in node.args[1])
    order = list(range(rank))
    if name in ("t", "numpy_T"):
        return tuple(reversed(order))
    if name in ("transpose", "swapaxes"):
        first, second = (axis % rank for axis in node.args[1:3])
        order[first], order[second] = order[second], order[first]
        return tuple(order)
    return None


def axis(dim: int, rank: int) -> tuple[int, int]:
    """An axis counted from the front, and of how many."""
    return (rank, dim % max(rank, 1))


def stretched(shape: tuple[int, ...] | None, result: tuple[int, ...]) -> int:
    """How many of the last axes of `result` an operand is repeated along: a row's scale is repeated along one."""
    count = 0
    if shape is None:
        return count
    for position in range(1, len(result) + 1):
        own = shape[-position] if position <= len(shape) else 1
        if own == 1 and result[-position] > 1:
            count += 1
        else:
            break
    return count if len(shape) else 0


def changes_nothing(name: str, node: Any) -> bool:
    """A slice of everything, a permutation of one axis, a dropout that drops nothing."""
    if name in ("slice", "constant_pad_nd"):
        return shape_of(node) == shape_of(node.args[0])
    return name in ("dropout", "native_dropout", "alpha_dropout", "feature_dropout")


def known_number(value: Any) -> float | None:
    """The number that a constant tensor of one element holds, where that is known without allocating."""
    value = getattr(value, "constant", None) if type(value).__name__ == "FakeTensor" else value
    if value is None or not hasattr(value, "numel") or value.numel() != 1 or value.is_meta:
        return None
    return float(value.item()) if not value.dtype.is_complex else None


def _value(node: Any) -> Any:
    value = getattr(node, "meta", {}).get("val")
    return value[0] if isinstance(value, list | tuple) and value else value
