"""PyTorch for a whole script on a machine without a GPU: tensors that say `cuda` and live on the CPU.

A tensor of the GPU is one of the class `Cuda`: results of functions that are given one are of it too, in
every thread. Values are the CPU's. What only a GPU can tell raises `CannotPlay`; times are not a number.
"""

from __future__ import annotations

import contextlib
import weakref
from importlib import import_module
from multiprocessing.reduction import ForkingPickler
from operator import attrgetter
from typing import Any

from advisor.measure.recording import played
from advisor.measure.recording.calls import Call, replace, wrapping
from advisor.measure.recording.played import NAME, NAN, Device, Event, Graph, Idle, Stream, fact, values_of

_HOST_LENGTHS = ("_pack_padded_sequence", "_pad_packed_sequence")
"""Functions that give a tensor and lengths, which stay on the host."""
_ANSWERS: dict[str, dict[str, Any]] = {
    "cuda": {
        **dict.fromkeys(("is_available", "is_initialized", "is_bf16_supported"), True),
        **dict.fromkeys(("synchronize", "empty_cache", "init", "set_device", "reset_peak_memory_stats")),
        **dict.fromkeys(("manual_seed", "manual_seed_all")),
        "device_count": 1,
        "current_device": 0,
        "get_device_name": NAME,
        "mem_get_info": (NAN, NAN),
        "is_current_stream_capturing": False,
        "graph_pool_handle": (0, 0),
    },
    "accelerator": {
        **dict.fromkeys(("set_device_index", "synchronize")),
        "is_available": True,
        "current_device_index": 0,
    },
    "cuda.nvtx": dict.fromkeys(("range_push", "range_pop", "mark", "range_start", "range_end")),
}
"""Results of functions that give the same whatever they are asked, by the module of torch."""


def play(torch: Any) -> None:
    """Changes the imported module so that `cuda` is there."""
    players[:] = [Player(torch)]
    players[0].play()


def _received(tensor: Any) -> Any:
    return players[0].move(tensor) if players else tensor


def _is_gpu(device: Any) -> bool:
    """Whether a device, by any of its names, is the one that is played."""
    return isinstance(device, int) or str(device).startswith("cuda")


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

            def __repr__(self, **options: Any) -> str:
                return str(super().__repr__(**options)).replace("Tensor(", "tensor(", 1)

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
                return player.move(result) if _is_gpu(side) else result

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
                replace(torch, name, wrapping(self._make))
        make = torch.Generator.__new__
        new = {"__new__": lambda kind, *_, **__: make(kind)}
        torch.Generator = type("Generator", (torch.Generator,), new)
        replace(torch, "load", wrapping(self._load))
        replace(torch, "from_dlpack", wrapping(self._share))
        torch.compile = lambda model=None, **_: model if model is not None else lambda function: function
        self._cuda_module()
        self._modules()
        replace(torch.autocast, "__init__", wrapping(self._autocast))

    def _tensor_methods(self) -> None:
        tensor = self._torch.Tensor
        for name in ("to", "cuda", "copy_", "pin_memory", "is_pinned", "__format__"):
            replace(tensor, name, wrapping(getattr(self, f"_{name.strip('_')}")))
        replace(tensor, "cpu", wrapping(lambda _, self, **__: self.to("cpu")))
        data = tensor.data

        def assign(target: Any, value: Any) -> None:
            data.__set__(target, value)
            (self.move if isinstance(value, self._kind) else self._leave)(target)

        tensor.data = property(lambda self: data.__get__(self), assign)

    def _to(self, call: Call, tensor: Any, *args: Any, copy: bool = False, **options: Any) -> Any:
        torch = self._torch
        place = 2 if args and isinstance(args[0], (torch.dtype, torch.Tensor)) else 3
        args, copy = args[:place], copy or any(args[place:])
        device, dtype, _, layout = torch._C._nn._parse_to(*args, **options)
        was = isinstance(tensor, self._kind)
        goes = was
        if args and isinstance(args[0], torch.Tensor):  # whose own device is the CPU's
            goes = isinstance(args[0], self._kind)
        elif device is not None:
            goes = _is_gpu(device)
        with self._plain():
            result = call(tensor, dtype or tensor.dtype, copy=copy, memory_format=layout)
            if result is tensor and goes != was:
                result = tensor.clone()
        return self.move(result) if goes else self._leave(result)

    def _cuda(self, _: Call, tensor: Any, *__: Any, **options: Any) -> Any:
        return tensor.to(**{**options, "device": "cuda"})

    def _format(self, call: Call, tensor: Any, how: str) -> str:
        """torch formats a single number only where the class is its own."""
        single = isinstance(tensor, self._kind) and not tensor.shape  # type: ignore[attr-defined]
        return format(tensor.item(), how) if single else call(tensor, how)

    def _copy(self, call: Call, tensor: Any, src: Any, non_blocking: bool = False) -> Any:
        with self._plain():
            call(tensor, src, non_blocking)
        return tensor

    def _is_pinned(self, _: Call, tensor: Any, *__: Any, **___: Any) -> bool:
        is_dense = tensor.layout is self._torch.strided
        return is_dense and tensor.untyped_storage().data_ptr() in self._pinned

    def _pin_memory(self, _: Call, tensor: Any, *__: Any, **___: Any) -> Any:
        return tensor if tensor.is_pinned() else self._lock(tensor.clone())

    def _lock(self, tensor: Any) -> Any:
        place = tensor.untyped_storage().data_ptr()
        self._pinned[place] = weakref.ref(tensor, lambda _: self._pinned.pop(place, None))
        return tensor

    def _make(self, call: Call, *args: Any, **options: Any) -> Any:
        """Functions that take `device`; its default is that of `with torch.device(...)`."""
        torch = self._torch
        if args and not isinstance(args[0], torch.Tensor) and (values := values_of(args[0])) is not None:
            args = self.move(torch.from_numpy(values)), *args[1:]
        source = args[0] if args and isinstance(args[0], torch.Tensor) else None
        device, pins = options.pop("device", None), options.pop("pin_memory", False)
        if device is None:
            device = source.device if source is not None else self._default_device()
        options["device"] = "cpu" if _is_gpu(device) else device
        with self._plain():
            result = call(*args, **options)
        if _is_gpu(device):
            same = source is not None and result is source and not source.is_cuda
            return self.move(result.clone() if same else result)
        return self._lock(result) if pins else result

    def _default_device(self) -> Any:
        modes = import_module("torch.overrides")._get_current_function_mode_stack()
        context = import_module("torch.utils._device").DeviceContext
        return next((mode.device for mode in reversed(modes) if isinstance(mode, context)), "cpu")

    def _share(self, call: Call, array: Any, *args: Any, **options: Any) -> Any:
        if (values := values_of(array)) is not None:
            return self.move(self._torch.from_numpy(values))
        return call(array, *args, **options)

    def _load(self, call: Call, f: Any, map_location: Any = None, **options: Any) -> Any:
        gpu = map_location is not None and _is_gpu(map_location)
        result = call(f, map_location="cpu" if gpu else map_location, **options)
        return self.move(result) if gpu else result

    def _autocast(
        self, call: Call, context: Any, device_type: str, dtype: Any = None, **options: Any
    ) -> None:
        """Autocast for cuda is the CPU's, with the types that cuda's would have."""
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or self._torch.float16
        call(context, device_type, dtype=dtype, **options)

    def _cuda_module(self) -> None:
        torch, cuda, gpu = self._torch, self._torch.cuda, self._torch.accelerator

        def memory(*_: Any, **__: Any) -> int:
            played.tell("memory of the GPU: without one, torch.cuda.memory_allocated() is 0")
            return 0

        for name in ("memory_allocated", "max_memory_allocated", "memory_reserved"):
            setattr(cuda, name, memory)
        cuda.get_device_properties = lambda *_, **__: Device()
        cuda.get_device_capability = lambda *_, **__: (fact("major"), fact("minor"))
        cuda.get_rng_state = lambda *_, **__: torch.get_rng_state()
        cuda.set_rng_state = lambda new_state, *_, **__: torch.set_rng_state(new_state)
        cuda.get_rng_state_all = lambda: [torch.get_rng_state()]
        cuda.set_rng_state_all = lambda states: torch.set_rng_state(states[0])
        cuda.CUDAGraph, cuda.graph, cuda.Stream, cuda.Event = Graph, Idle, Stream, Event
        cuda.make_graphed_callables = lambda callables, *_, **__: callables
        cuda.stream = lambda stream: stream or contextlib.nullcontext()
        cuda.current_stream = gpu.current_stream = lambda *_, **__: Stream.current[-1]
        cuda.default_stream = lambda *_, **__: Stream.null
        cuda.set_stream = Stream.use
        cuda.device = contextlib.nullcontext
        cuda.nvtx.range = lambda *_, **__: contextlib.nullcontext()
        gpu.current_accelerator = lambda *_, **__: torch.device("cuda")
        for path, answers in _ANSWERS.items():
            for name, answer in answers.items():
                setattr(attrgetter(path)(torch), name, lambda *_, answer=answer, **__: answer)

    def _modules(self) -> None:
        """Where the number of a GPU names it, and modules that are spread over all GPUs: here one."""
        torch = self._torch
        parallel: Any = import_module("torch.nn.parallel.data_parallel")

        def parse(call: Call, *args: Any, **options: Any) -> Any:
            named = (torch.device("cuda", each) if type(each) is int else each for each in args)
            if type(number := options.get("device")) is int:
                options["device"] = torch.device("cuda", number)
            return call(*named, **options)

        def scatter(_: Any, *arguments: Any) -> Any:
            moved = import_module("torch.utils._pytree").tree_map_only(
                torch.Tensor, lambda tensor: tensor.to("cuda"), arguments[:2]
            )
            return tuple((each,) for each in moved)

        def group(call: Call, lists: Any, *rest: Any) -> Any:
            return {
                (self._device if isinstance(parts[0][0][0], self._kind) else device, dtype): parts
                for (device, dtype), parts in call(lists, *rest).items()
            }

        replace(torch._C._nn, "_parse_to", wrapping(parse))
        replace(torch._C, "_group_tensors_by_device_and_dtype", wrapping(group))
        parallel._check_balance = lambda _: None
        torch.nn.DataParallel.scatter = scatter
