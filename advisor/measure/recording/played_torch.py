"""PyTorch for a whole script on a machine without a GPU: tensors that say `cuda` and live on the CPU.

A tensor of the GPU is one of the class `Cuda`: results of functions that are given one are of it too, in
every thread. Values are the CPU's. What only a GPU can tell raises `CannotPlay`; times are not a number.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from importlib import import_module
from multiprocessing.reduction import ForkingPickler
from typing import Any

from advisor.measure.recording import played
from advisor.measure.recording.calls import replace
from advisor.measure.recording.played import NAME, NAN, Device, Event, Graph, Idle, Stream, fact, values_of

_HOST_LENGTHS = ("_pack_padded_sequence", "_pad_packed_sequence")
"""Functions that give a tensor and lengths, which stay on the host."""


def play(torch: Any) -> None:
    """Changes the imported module so that `cuda` is there."""

    def memory(*_: Any) -> int:
        played.tell("memory of the GPU: without one, torch.cuda.memory_allocated() is 0")
        return 0

    players[:] = [Player(torch)]
    players[0].play()
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved"):
        setattr(torch.cuda, name, memory)


def _answers(torch: Any) -> Iterator[tuple[Any, str, Any]]:
    """Functions that give the same whatever they are asked: their module, name and result."""
    cuda, gpu = torch.cuda, torch.accelerator
    counts = {"device_count": 1, "current_device": 0, "get_device_name": NAME, "mem_get_info": (NAN, NAN)}
    cuda_answers = {
        **counts,
        **dict.fromkeys(("is_available", "is_initialized", "is_bf16_supported"), True),
        **dict.fromkeys(("synchronize", "empty_cache", "init", "set_device", "reset_peak_memory_stats")),
        **dict.fromkeys(("manual_seed", "manual_seed_all")),
        "is_current_stream_capturing": False,
        "graph_pool_handle": (0, 0),
    }
    accelerator = {
        "is_available": True,
        "current_accelerator": torch.device("cuda"),
        "current_device_index": 0,
    }
    accelerator |= dict.fromkeys(("set_device_index", "synchronize"))
    nvtx = dict.fromkeys(("range_push", "range_pop", "mark", "range_start", "range_end"))
    for owner, answers in ((cuda, cuda_answers), (gpu, accelerator), (cuda.nvtx, nvtx)):
        yield from ((owner, name, answer) for name, answer in answers.items())


def _received(tensor: Any) -> Any:
    return players[0].move(tensor) if players else tensor


players: list[Player] = []
"""The one of this process, once there is one."""


class _OnGpu:
    """Differences of a tensor on the GPU from one on the CPU."""

    __slots__ = ()
    is_cuda = property(lambda _: True)

    def get_device(self) -> int:
        return 0

    def record_stream(self, stream: Any) -> None:
        pass

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        return self.detach().cpu().__reduce_ex__(protocol)

    def numpy(self: Any, *, force: bool = False) -> Any:
        if force:
            return self.detach().cpu().numpy()
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            "memory first."
        )

    __array__ = numpy


class Player:
    """The classes of tensors on the played GPU, and the functions that make them."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._device = torch.device("cuda", 0)
        self._pinned: dict[int, weakref.ref[Any]] = {}
        self._plain = torch._C.DisableTorchFunctionSubclass
        self._kind, self._parameter = self._classes()

    def _classes(self) -> tuple[type, type]:
        torch, player, device = self._torch, self, self._device

        class Cuda(_OnGpu, torch.Tensor):  # type: ignore[misc, name-defined]
            device = property(lambda _: device)

            def __deepcopy__(self, memo: Any) -> Any:
                player._leave(self)
                try:
                    return player.move(self.__deepcopy__(memo))
                finally:
                    player.move(self)

            @classmethod
            def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                del types
                options = kwargs or {}
                side = options.pop("device", device) or device
                with player._plain():
                    result = func(*args, **options)
                if getattr(func, "__name__", "") in _HOST_LENGTHS:
                    return player.move(result[0]), result[1]
                return player.move(result) if player.is_gpu(side) else result

        Cuda.__name__ = Cuda.__qualname__ = "Tensor"
        parameter = type("Parameter", (torch.nn.Parameter, Cuda), {})
        for kind in (Cuda, parameter):
            ForkingPickler.register(kind, self._shared)
        parameter.__torch_function__ = Cuda.__torch_function__  # type: ignore[attr-defined]
        return Cuda, parameter

    def _shared(self, tensor: Any) -> Any:
        """A tensor for another process, which has the same memory: nothing is copied."""
        with self._plain():
            plain = tensor.detach()
            if isinstance(tensor, self._torch.nn.Parameter):
                plain = self._torch.nn.Parameter(plain, tensor.requires_grad)
        return _received, (plain,)

    def is_gpu(self, device: Any) -> bool:
        """Whether a device, by any of its names, is the one that is played."""
        return isinstance(device, int) or str(device).startswith("cuda")

    def move(self, result: Any) -> Any:
        """The same object, now on the GPU; tensors in lists and tuples too."""
        torch = self._torch
        if isinstance(result, torch.Tensor):
            if type(result) is torch.Tensor:
                result.__class__ = self._kind
            elif type(result) is torch.nn.Parameter:
                result.__class__ = self._parameter
        elif isinstance(result, (list, tuple, dict)):
            for each in result.values() if isinstance(result, dict) else result:
                self.move(each)
        return result

    def _leave(self, tensor: Any) -> Any:
        if isinstance(tensor, self._kind):
            parameter = isinstance(tensor, self._parameter)
            tensor.__class__ = self._torch.nn.Parameter if parameter else self._torch.Tensor
        return tensor

    # What the module gets

    def play(self) -> None:
        torch = self._torch
        self._tensor_methods()
        for function in import_module("torch.utils._device")._device_constructors():
            name = function.__name__
            if getattr(torch, name, None) is function:
                replace(torch, name, self._making)
        make = torch.Generator.__new__
        new = {"__new__": lambda kind, *_, **__: make(kind)}
        torch.Generator = type("Generator", (torch.Generator,), new)
        replace(torch, "load", self._loading)
        replace(torch, "from_dlpack", self._sharing)
        torch.compile = lambda model=None, **_: model if model is not None else lambda function: function
        self._cuda_module()
        self._modules()
        self._precision()
        torch.accelerator.current_stream = lambda *_: torch.cuda.current_stream()
        for owner, name, value in _answers(torch):
            setattr(owner, name, lambda *_, value=value, **__: value)

    def _tensor_methods(self) -> None:
        tensor, strided = self._torch.Tensor, self._torch.strided

        def is_pinned(tensor: Any, *_: Any) -> bool:
            return tensor.layout is strided and tensor.untyped_storage().data_ptr() in self._pinned

        def pin(tensor: Any, *_: Any) -> Any:
            return tensor if tensor.is_pinned() else self._lock(tensor.clone())

        replace(tensor, "to", self._to)
        replace(tensor, "cuda", lambda _: lambda self, *_, **options: self.to("cuda", **options))
        replace(tensor, "cpu", lambda _: lambda self, **_: self.to("cpu"))
        replace(tensor, "copy_", self._copy)
        replace(tensor, "pin_memory", lambda _: pin)
        replace(tensor, "is_pinned", lambda _: is_pinned)
        replace(tensor, "__format__", self._format)
        data = tensor.data

        def assign(target: Any, value: Any) -> None:
            data.__set__(target, value)
            (self.move if isinstance(value, self._kind) else self._leave)(target)

        tensor.data = property(lambda self: data.__get__(self), assign)

    def _to(self, call: Callable[..., Any]) -> Callable[..., Any]:
        torch = self._torch

        @functools.wraps(call, updated=())
        def to(tensor: Any, *args: Any, copy: bool = False, **options: Any) -> Any:
            place = 2 if args and isinstance(args[0], (torch.dtype, torch.Tensor)) else 3
            args, copy = args[:place], copy or any(args[place:])
            device, dtype, _, layout = torch._C._nn._parse_to(*args, **options)
            was = goes = isinstance(tensor, self._kind)
            if args and isinstance(args[0], torch.Tensor):  # whose own device is the CPU's
                goes = isinstance(args[0], self._kind)
            elif device is not None:
                goes = self.is_gpu(device)
            with self._plain():
                result = call(tensor, dtype or tensor.dtype, copy=copy, memory_format=layout)
                if result is tensor and goes != was:
                    result = tensor.clone()
            return self.move(result) if goes else self._leave(result)

        return to

    def _format(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """torch formats a single number only where the class is its own."""

        def written(tensor: Any, how: str) -> str:
            single = isinstance(tensor, self._kind) and not tensor.shape  # type: ignore[attr-defined]
            return format(tensor.item(), how) if single else call(tensor, how)

        return written

    def _copy(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call, updated=())
        def copy(tensor: Any, src: Any, non_blocking: bool = False) -> Any:
            with self._plain():
                call(tensor, src, non_blocking)
            return tensor

        return copy

    def _lock(self, tensor: Any) -> Any:
        place = tensor.untyped_storage().data_ptr()
        self._pinned[place] = weakref.ref(tensor, lambda _: self._pinned.pop(place, None))
        return tensor

    def _making(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Around functions that take `device`."""
        torch = self._torch

        @functools.wraps(call, updated=())
        def make(*args: Any, **options: Any) -> Any:
            if args and not isinstance(args[0], torch.Tensor) and (values := values_of(args[0])) is not None:
                args = self.move(torch.from_numpy(values)), *args[1:]
            source = args[0] if args and isinstance(args[0], torch.Tensor) else None
            device = options.pop("device", None)
            pins = options.pop("pin_memory", False)
            if device is not None and not self.is_gpu(device):
                options["device"] = device
            if device is None:
                device = source.device if source is not None else self._default_device()
            with self._plain(), torch.device("cpu"):
                result = call(*args, **options)
            if self.is_gpu(device):
                same = source is not None and result is source and not source.is_cuda
                return self.move(result.clone() if same else result)
            return self._lock(result) if pins else result

        return make

    def _sharing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def share(array: Any, *args: Any, **options: Any) -> Any:
            values = values_of(array)
            return (
                call(array, *args, **options) if values is None else self.move(self._torch.from_numpy(values))
            )

        return share

    def _default_device(self) -> Any:
        """The device of `with torch.device(...)` and torch.set_default_device."""
        modes = import_module("torch.overrides")._get_current_function_mode_stack()
        context = import_module("torch.utils._device").DeviceContext
        return next((mode.device for mode in reversed(modes) if isinstance(mode, context)), "cpu")

    def _loading(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def load(file: Any, map_location: Any = None, **options: Any) -> Any:
            gpu = map_location is not None and self.is_gpu(map_location)
            result = call(file, map_location="cpu" if gpu else map_location, **options)
            return self.move(result) if gpu else result

        return load

    def _cuda_module(self) -> None:
        cuda = self._torch.cuda
        cuda.get_device_properties = lambda *_: Device()
        cuda.get_device_capability = lambda *_: (fact("major"), fact("minor"))
        cuda.get_rng_state = lambda *_: self._torch.get_rng_state()
        cuda.set_rng_state = lambda state, *_: self._torch.set_rng_state(state)
        cuda.get_rng_state_all = lambda: [self._torch.get_rng_state()]
        cuda.set_rng_state_all = lambda states: self._torch.set_rng_state(states[0])
        cuda.CUDAGraph, cuda.graph, cuda.Stream, cuda.Event = Graph, Idle, Stream, Event
        cuda.make_graphed_callables = lambda callables, *_, **__: callables
        cuda.stream = lambda stream: stream or contextlib.nullcontext()
        cuda.current_stream = lambda *_: Stream.current[-1]
        cuda.default_stream = lambda *_: Stream.null
        cuda.set_stream = Stream.use
        cuda.device = contextlib.nullcontext
        cuda.nvtx.range = lambda *_, **__: contextlib.nullcontext()

    def _modules(self) -> None:
        """Where the number of a GPU names it, and modules that are spread over all GPUs: here one."""
        torch = self._torch
        parallel: Any = import_module("torch.nn.parallel.data_parallel")

        def parsing(call: Callable[..., Any]) -> Callable[..., Any]:
            def parse(*args: Any, **options: Any) -> Any:
                named = (torch.device("cuda", each) if type(each) is int else each for each in args)
                if type(number := options.get("device")) is int:
                    options = {**options, "device": torch.device("cuda", number)}
                return call(*named, **options)

            return parse

        def scatter(_: Any, *arguments: Any) -> Any:
            moved = import_module("torch.utils._pytree").tree_map_only(
                torch.Tensor, lambda tensor: tensor.to("cuda"), arguments[:2]
            )
            return tuple((each,) for each in moved)

        def grouping(call: Callable[..., Any]) -> Callable[..., Any]:
            def group(lists: Any, *rest: Any) -> Any:
                return {
                    (self._device if isinstance(tensors[0][0], self._kind) else device, dtype): (
                        tensors,
                        indices,
                    )
                    for (device, dtype), (tensors, indices) in call(lists, *rest).items()
                }

            return group

        replace(torch._C._nn, "_parse_to", parsing)
        replace(torch._C, "_group_tensors_by_device_and_dtype", grouping)
        parallel._check_balance = lambda _: None
        torch.nn.DataParallel.scatter = scatter

    def _precision(self) -> None:
        """Autocast for cuda is the CPU's, with the types that cuda's would have."""
        torch = self._torch

        def around(call: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(call)
            def init(self: Any, device_type: str, dtype: Any = None, **options: Any) -> None:
                if device_type == "cuda":
                    device_type, dtype = "cpu", dtype or torch.float16
                call(self, device_type, dtype=dtype, **options)

            return init

        replace(torch.autocast, "__init__", around)
