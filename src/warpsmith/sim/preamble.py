"""Makes PyTorch code written for CUDA run on the CPU, in a process that does nothing else.

After `install()` every CPU tensor answers as a CUDA tensor would (`is_cuda`, `device`), the device "cuda" means the
CPU wherever a PyTorch function is given it, and `torch.cuda` describes an H200. Copies to the CPU are real copies.
Nothing is undone: the candidate's process is the place for it. Other threads see `torch.cuda` but not the device.
"""

from typing import Any

from warpsmith.errors import SubmissionUnsupportedError

_INSTALLED = "_warpsmith_sim"


def install() -> None:
    """Installs the preamble once; imports torch. To be called before the submission is imported."""
    import torch

    if getattr(torch.cuda, _INSTALLED, False):
        return
    from warpsmith.sim.cuda_module import patch_cuda_module

    patch_cuda_module(torch)
    _refuse_extension_builds()
    _keep_default_device_on_cpu(torch)
    _load_to_cpu(torch)
    _poison_new_tensors(torch)
    torch.backends.cudnn.is_acceptable = lambda _tensor: False  # type: ignore[assignment]
    torch.Generator = _generator_class(torch)  # type: ignore[misc]
    setattr(torch.cuda, _INSTALLED, True)
    _device_mode(torch).__enter__()


def _refuse_extension_builds() -> None:
    import torch.utils.cpp_extension as cpp_extension

    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise SubmissionUnsupportedError(
            "torch.utils.cpp_extension cannot build on the simulator",
            hint="put the kernels into .cu files of the submission, or judge it on a GPU",
        )

    cpp_extension.load = refuse
    cpp_extension.load_inline = refuse


def _poison_new_tensors(torch: Any) -> None:
    """`torch.empty` gives NaN, or the largest integer: what is left unwritten cannot be right by chance."""
    torch.utils.deterministic.fill_uninitialized_memory = True
    # not torch.use_deterministic_algorithms, which loads the compiler for a second
    torch._C._set_deterministic_algorithms(True, warn_only=True)


def _keep_default_device_on_cpu(torch: Any) -> None:
    original = torch.set_default_device

    def set_default_device(device: Any) -> None:
        # a default device acts below the function mode, so "cuda" must not reach it
        cuda = device is not None and torch.device(device).type == "cuda"
        original("cpu" if cuda else device)

    torch.set_default_device = set_default_device


def _load_to_cpu(torch: Any) -> None:
    original = torch.load

    def load(f: Any, map_location: Any = None, **kwargs: Any) -> Any:
        named = not callable(map_location) and not isinstance(map_location, dict)
        return original(f, map_location="cpu" if named else map_location, **kwargs)

    torch.load = load


def _generator_class(torch: Any) -> type:
    class Generator(torch.Generator):
        """A generator of the CPU, whatever device it is asked for."""

        def __new__(cls, device: Any = "cpu") -> "Generator":
            return super().__new__(cls, "cpu")

    return Generator


def _named_device(torch: Any, value: Any) -> str | None:
    """Device type that an argument names, or None where it names none."""
    if isinstance(value, torch.device):
        return value.type
    if isinstance(value, str) and (value in ("cpu", "cuda") or value.startswith("cuda:")):
        return value.partition(":")[0]
    return None


def _device_mode(torch: Any) -> Any:
    """The function mode that reads "cuda" as the CPU, and the CPU as "cuda" where a tensor's device is asked."""
    from torch.overrides import TorchFunctionMode

    tensor = torch._C.TensorBase
    cpu = torch.device("cpu")
    getters = {
        tensor.device.__get__: torch.device("cuda", 0),
        tensor.is_cuda.__get__: True,
        tensor.is_cpu.__get__: False,
        torch.Tensor.get_device: 0,
    }
    untouched = {torch._C._nn._parse_to, torch.device}
    no_ops = {torch.Tensor.cuda, torch.Tensor.pin_memory, torch.Tensor.record_stream}

    def on_cpu(value: Any) -> Any:
        return cpu if _named_device(torch, value) == "cuda" else value

    class DeviceMode(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            kwargs = dict(kwargs or {})
            if func in getters:
                return getters[func] if args[0].device.type == "cpu" else func(*args)
            if func in untouched:
                return func(*args, **kwargs)
            if func in no_ops:
                return args[0]
            copies = func is torch.Tensor.cpu or (
                func is torch.Tensor.to and _goes_to_cpu(torch, args, kwargs)
            )
            if "device" in kwargs:
                device = kwargs["device"]
                kwargs["device"] = cpu if type(device) is int else on_cpu(device)
            kwargs.pop("pin_memory", None)
            result = func(*map(on_cpu, args), **kwargs)
            return result.clone() if copies and result is args[0] else result

    return DeviceMode()


def _goes_to_cpu(torch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether `Tensor.to` is given the CPU: on a GPU that is a copy, so it is one here."""
    return any(_named_device(torch, value) == "cpu" for value in (*args[1:2], kwargs.get("device")))
