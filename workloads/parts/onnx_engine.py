"""inference.py's network in ONNX Runtime, bound to the buffers' addresses."""

import numpy as np

from advisor.errors import WorkloadError

PROVIDERS = {"onnxruntime": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}
ENGINES = ("auto", "arrays", *PROVIDERS)


def open_session(engine, stream, shapes):
    """A session on the stream's GPU, or on the CPU where `stream` is None; None where arrays are to do.

    Raises `WorkloadError` where what `engine` names is not installed; "auto" takes what there is.
    """
    if engine not in ENGINES:
        raise WorkloadError(f"engine is {engine!r}", next_step=f"Choose from {', '.join(ENGINES)}.")
    if engine == "arrays":
        return None
    try:
        import onnx
        import onnxruntime
    except ImportError as problem:
        return _without(engine, str(problem), "pip install 'gpu-memory-advisor[onnx]'")
    provider, options = "CPUExecutionProvider", {}
    if stream is not None:
        provider = PROVIDERS.get(engine, "CUDAExecutionProvider")
        options = {"user_compute_stream": str(stream.ptr)}
        if provider == "CUDAExecutionProvider":
            options["use_tf32"] = "0"  # so that all engines give the same labels
    if provider not in onnxruntime.get_available_providers():
        return _without(engine, f"this ONNX Runtime has no {provider}", "pip install onnxruntime-gpu")
    made = _model(onnx, shapes).SerializeToString()
    return onnxruntime.InferenceSession(made, providers=[(provider, options)])


def _without(engine, reason, command):
    if engine in PROVIDERS:
        raise WorkloadError(
            f"engine={engine} cannot be had: {reason}",
            next_step=f"{command} (on a Jetson NVIDIA's wheel), or --set engine=arrays.",
        )


def _model(onnx, shapes):
    """The weights are inputs too, so that they lie where the strategy puts them."""
    make = onnx.helper
    inputs = [make.make_tensor_value_info(n, onnx.TensorProto.FLOAT, shape) for n, shape in shapes.items()]
    labels = make.make_tensor_value_info("labels", onnx.TensorProto.INT64, shapes["images"][:1])
    nodes = [
        make.make_node("Conv", ["images", "first"], ["a"], strides=[2, 2]),
        make.make_node("Relu", ["a"], ["b"]),
        make.make_node("Conv", ["b", "second"], ["c"], strides=[2, 2]),
        make.make_node("Relu", ["c"], ["d"]),
        make.make_node("Flatten", ["d"], ["e"]),
        make.make_node("MatMul", ["e", "dense"], ["f"]),
        make.make_node("ArgMax", ["f"], ["labels"], axis=1, keepdims=0),
    ]
    graph = make.make_graph(nodes, "network", inputs, [labels])
    return make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)


def run(session, labels, **inputs):
    """Binds the arrays by their addresses and runs; nothing is copied."""
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_input(name, *_described(array))
    binding.bind_output("labels", *_described(labels))
    session.run_with_iobinding(binding)


def _described(array):
    """Device type and index, dtype, shape, address. What the GPU reaches is "cuda", wherever it lies."""
    if isinstance(array, np.ndarray):
        return "cpu", 0, array.dtype.type, array.shape, array.ctypes.data
    return "cuda", array.device.id, array.dtype.type, array.shape, array.data.ptr
