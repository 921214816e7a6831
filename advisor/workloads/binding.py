"""Matches the stages' parameters with the buffers: who gets what, and what each stage does to it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from advisor.errors import WorkloadError, nearest
from advisor.profiles.schema import AccessMode, ArrayForm, BufferRecord, Loop, Side, StageRecord, distinct
from advisor.strategies.parts import Part, Region, region_of
from advisor.strategies.schedule import StageUse
from advisor.workloads import definition
from advisor.workloads.arguments import FORMS_EXPLAINED, require_plain
from advisor.workloads.definition import RESERVED, Access, Buffer, Stage, StageFunction, Workload
from advisor.workloads.stage_code import located, place_of, samples_textures


def annotated(function: StageFunction, annotation: Any, where: str) -> tuple[Access | None, Any]:
    """The access an annotation carries, and the type it asks for; a string is evaluated."""
    if isinstance(annotation, str):
        annotation = _evaluate(function, annotation, where)
    if isinstance(bare := getattr(annotation, "access", None), Access):
        return bare, Any
    if get_origin(annotation) is not Annotated:
        return None, Any
    wanted, *extras = get_args(annotation)
    for extra in extras:
        access = extra
        if not isinstance(extra, (Access, str)):
            access, _ = annotated(function, extra, where)
        if isinstance(access, Access):
            return access, wanted
    return None, Any


def form_of(wanted: Any, who: str, parameter: str) -> ArrayForm | None:
    """The form of `In[wanted]`: a tensor's class, a Numba array's, or int for the address. None for the bare
    `In` and for NumPy's and CuPy's own arrays. Recognized by its module's name: no library is imported.
    Raises `WorkloadError` for a type that names no form."""
    home = str(getattr(wanted, "__module__", "")).partition(".")[0]
    if wanted is Any or isinstance(wanted, TypeVar) or home in ("numpy", "cupy"):
        return None
    forms: dict[str, ArrayForm] = {"torch": "torch", "numba": "numba"}
    if form := "pointer" if wanted is int else forms.get(home):
        return form
    kind = getattr(wanted, "__name__", wanted)
    raise WorkloadError(
        f"{who} takes buffer {parameter!r} as {kind!s}, which is not a supported array type",
        next_step=f"Write {parameter}: In[torch.Tensor] or In[int], or name the form: {FORMS_EXPLAINED}",
    )


def part_of(key: Any, buffer: Buffer, where: str) -> Part | None:
    """The part that the stage touches; None for all of the buffer. Raises `WorkloadError` for no region."""
    if key is None or isinstance(key, Region):
        return key or buffer.valid
    if buffer.valid is not None:
        raise WorkloadError(
            f"{where}: its annotation has a slice, but {buffer.valid!r} already says how much of it is valid",
            next_step=f"Remove the slice, or valid={buffer.valid!r}.",
        )
    try:
        region = region_of(key, buffer.dimensions)
    except ValueError as problem:
        step = "Write integers within the shape, slices without a step, `...`: InOut[0, :], In[:16]."
        raise WorkloadError(f"{where}: {problem}", next_step=step) from None
    return None if region.share == 1 else region


def _evaluate(function: StageFunction, text: str, where: str) -> Any:
    """A string annotation in the scope of its function; names of our own that a local import hides, too. A
    name that only annotations use is not in the closure: it may be a library that is imported already. Raises
    `WorkloadError` for a part that needs a name that is not known here."""
    plain = inspect.unwrap(function)
    problem: NameError | None = None
    with suppress(Exception):
        own = {**getattr(plain, "__globals__", {}), **inspect.getclosurevars(plain).nonlocals}
        for scope in (own, {**sys.modules, **vars(definition), **own}):
            try:
                return eval(text, scope)
            except NameError as unknown:
                problem = unknown
    if problem is not None and ":" in text:
        raise WorkloadError(
            f"{where}: the annotation {text} cannot be evaluated: {problem}",
            next_step="With `from __future__ import annotations`, an annotation can use only names of the "
            "module and names that the stage's body uses. Remove that import, or write a number.",
        )
    return getattr(definition, text.rpartition(".")[2], None)


Phase = Literal["setup", "frame"]


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Parameters of a stage's function: buffers by name, and others. `specials` are those of `RESERVED`."""

    access: Mapping[str, AccessMode] = field(default_factory=dict)
    specials: frozenset[str] = frozenset()
    forms: Mapping[str, ArrayForm] = field(default_factory=dict)
    """Buffers that it asks for in another form than the side's own arrays."""
    parts: Mapping[str, Part] = field(default_factory=dict)
    """The part that it touches, for buffers of which it touches a part."""

    def __str__(self) -> str:
        regions = {name: part for name, part in self.parts.items() if isinstance(part, Region)}
        modes = (f"{name}: {mode}{regions.get(name, '')}" for name, mode in self.access.items())
        return ", ".join(modes) or "no buffer"


@dataclass(frozen=True, kw_only=True)
class BoundStage(Parameters):
    """A stage whose parameters are known."""

    stage: Stage
    name: str
    phase: Phase
    twin: Parameters = Parameters()
    """Parameters of the CPU twin."""

    def implementation(self, *, cpu: bool) -> tuple[StageFunction, Parameters]:
        """The function to run and its parameters: the twin where there is one and no GPU."""
        if cpu and self.stage.cpu is not None:
            return self.stage.cpu, self.twin
        return self.stage.function, self

    @property
    def side(self) -> Side:
        return self.stage.side

    @property
    def use(self) -> StageUse:
        stage = self.stage
        return StageUse(self.name, self.side, self.access, stage.every, stage.loop, self.parts, stage.gpu)

    def record(self) -> StageRecord:
        return StageRecord(
            name=self.name,
            side=self.side,
            phase=self.phase,
            passes={name: float(value) for name, value in self.stage.passes.items()},
            flops=None if self.stage.flops is None else float(self.stage.flops),
            arrays=dict(self.forms),
            every=self.stage.every,
            loop=self.stage.loop,
            textures=self.side == "device" and samples_textures(self.stage.function),
            gpu=self.stage.gpu,
            line=place_of(self.stage.function) or None,
        )


@dataclass(frozen=True)
class BoundWorkload:
    workload: Workload
    setup: tuple[BoundStage, ...]
    frame: tuple[BoundStage, ...]
    check: BoundStage | None

    @property
    def stages(self) -> tuple[BoundStage, ...]:
        return (*self.setup, *self.frame)

    @property
    def loops(self) -> tuple[Loop, ...]:
        return distinct(stage.stage.loop for stage in self.frame)

    def without_kernels(self) -> BoundWorkload:
        """For tracing on a CPU: a kernel that has no twin and declares its passes does nothing."""

        def idle(stage: BoundStage) -> BoundStage:
            runs = stage.side == "host" or stage.stage.cpu is not None or not stage.stage.passes
            return stage if runs else replace(stage, stage=replace(stage.stage, cpu=no_kernel))

        return replace(self, setup=tuple(map(idle, self.setup)), frame=tuple(map(idle, self.frame)))

    def buffer_records(self) -> tuple[BufferRecord, ...]:
        return tuple(
            BufferRecord(
                name=name,
                shape=buffer.dimensions,
                dtype=str(buffer.element),
                bytes=buffer.nbytes,
                access={s.name: s.access[name] for s in self.stages if name in s.access},
                external=buffer.external,
                scratch=buffer.scratch,
                valid=buffer.valid,
                regions={s.name: p.bounds for s in self.stages if isinstance(p := s.parts.get(name), Region)},
                line=buffer.line,
            )
            for name, buffer in self.workload.buffers.items()
        )


def no_kernel(**_: object) -> None:
    """Stands in for a kernel that only a GPU can run."""


def bind(workload: Workload) -> BoundWorkload:
    """Binds every stage. Raises `WorkloadError` naming the stage, the parameter and the remedy."""
    names: set[str] = set()
    setup = tuple(_bind(stage, "setup", workload, names) for stage in workload.setup)
    frame = tuple(_bind(stage, "frame", workload, names) for stage in workload.frame_stages)
    check = None if workload.check is None else _bind_check(workload.check, workload, (*setup, *frame))
    bound = BoundWorkload(workload, setup, frame, check)
    for wrong, step in (*_misfits(bound), *_endless(bound)):
        raise WorkloadError(wrong, next_step=step)
    return bound


def _bind(stage: Stage, phase: Phase, workload: Workload, others: set[str]) -> BoundStage:
    """Binds a stage under a name of its own, which is added to the names of `others`."""
    names = (stage.name, *(f"{stage.name}-{number}" for number in range(2, len(others) + 2)))
    name = next(name for name in names if name not in others)
    others.add(name)
    if phase == "setup" and stage.every > 1:
        wrong = f"stage {name!r} of set-up has every={stage.every}, but set-up runs only once"
        raise WorkloadError(wrong, next_step="Omit every=, or list the stage in frame=[...].")
    own = _parameters(stage.function, name, workload.buffers, None, stage.arrays, stage.side)
    for buffer in own.access:
        if workload.buffers[buffer].scratch and stage.side == "host":
            wrong = (
                f"host stage {name!r} uses buffer {buffer!r}, which is scratch and never leaves the device"
            )
            step = "Remove scratch=True, or use the buffer only in device stages."
            raise WorkloadError(wrong, next_step=step)
    for buffer in stage.passes:
        if buffer not in own.access:
            wrong = f"passes of stage {name!r} names {buffer!r}, which the stage does not take"
            raise WorkloadError(wrong, next_step=f"It takes: {', '.join(own.access) or 'no buffer'}.")
    twin = Parameters()
    if stage.cpu is not None:
        twin = _parameters(stage.cpu, f"{name} (cpu)", workload.buffers, own, side=stage.side)
        if (twin.access, twin.parts) != (own.access, own.parts):
            wrong = f"the CPU twin of stage {name!r} takes {twin}, the stage itself {own}"
            step = "Both must take the same buffers with the same annotations."
            raise WorkloadError(wrong, next_step=step)
    return BoundStage(stage=stage, name=name, phase=phase, twin=twin, **vars(own))


def _misfits(bound: BoundWorkload) -> Iterator[tuple[str, str]]:
    """Lengths that no stage writes, and scratch buffers of several GPUs, each with the next step."""
    written = {name for stage in bound.stages for name in stage.use.writes()}
    for name, buffer in bound.workload.buffers.items():
        if buffer.valid is not None and buffer.valid not in written:
            wrong = (
                f"no stage writes buffer {buffer.valid!r}, which says how much of buffer {name!r} is valid"
            )
            yield wrong, f"Write it in a stage: {buffer.valid}[0] = n, annotated {buffer.valid}: Out."
        gpus = sorted({stage.stage.gpu for stage in bound.stages if name in stage.access})
        if buffer.scratch and len(gpus) > 1:
            which = f"stages on GPU {' and '.join(map(str, gpus))} use it"
            wrong = f"buffer {name!r} is scratch, which never leaves its device, but {which}"
            yield wrong, "Remove scratch=True, or declare a buffer for each GPU."


def _endless(bound: BoundWorkload) -> Iterator[tuple[str, str]]:
    """Loops whose buffer their own stages do not write, or the host cannot read as a number."""
    buffers = bound.workload.buffers
    for loop in bound.loops:
        what, named = f"repeat until {loop.until!r}", f"buffer {loop.until!r}"
        if (buffer := buffers.get(loop.until)) is None:
            new = f'"{loop.until}": Buffer(1, np.bool_), and write it in a stage of the loop.'
            near = nearest(loop.until, buffers)
            yield f"{what}: there is no {named}{near}", f"Buffers: {', '.join(buffers)}. Add {new}"
            continue
        if any(isinstance(stage.parts.get(loop.until), Region) for stage in bound.stages):
            wrong = f"a stage annotates {named} with a slice, but the host reads all of it"
            yield f"{what}: {wrong}", "Remove the slice."
        if buffer.scratch:
            wrong = f"the host reads {named}, which is scratch and never leaves the device"
            yield f"{what}: {wrong}", "Remove scratch=True."
        if buffer.element.kind not in "biuf":
            wrong = f"{named} has the dtype {buffer.element}, which is not a number"
            yield f"{what}: {wrong}", "Write Buffer(1, np.bool_)."
        body = [stage for stage in bound.frame if stage.stage.loop == loop]
        if not any(loop.until in stage.use.writes() for stage in body):
            wrong = f"no stage of the loop writes {named}, so it would always run {loop.at_most} iterations"
            where = ", ".join(stage.name for stage in body)
            yield f"{what}: {wrong}", f"Write it in one of {where}, annotated Out or InOut."


def _bind_check(function: StageFunction, workload: Workload, stages: tuple[BoundStage, ...]) -> BoundStage:
    everything = Parameters(access=dict.fromkeys(workload.buffers, "in"))
    declared = _parameters(function, "check", workload.buffers, everything)
    written = {name for stage in stages for name in stage.use.writes()}
    for buffer in declared.access:
        if buffer not in written:
            step = "Remove that parameter from check, or write the buffer in a stage."
            raise WorkloadError(f"check reads buffer {buffer!r}, which no stage writes", next_step=step)
    return BoundStage(stage=Stage(function, "host"), name="check", phase="frame", **vars(declared))


def _parameters(
    function: StageFunction,
    stage: str,
    buffers: Mapping[str, Buffer],
    default: Parameters | None,
    arrays: ArrayForm | None = None,
    side: Side = "host",
) -> Parameters:
    """The function's parameters; those without an annotation are as in `default`."""
    who = f"stage {located(stage, function)}"
    require_plain(function, who)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        wrong = f"stage {stage!r} is {function!r}, whose parameters cannot be read"
        step = "Wrap it in a plain Python function with named parameters."
        raise WorkloadError(wrong, next_step=step) from None
    modes, parts, forms = dict[str, AccessMode](), dict[str, Part](), dict[str, ArrayForm]()
    for parameter in parameters:
        name = parameter.name
        _require_possible(parameter, who, buffers, side)
        if name in buffers:
            access, form = _mode(function, parameter, who, default)
            modes[name] = access.mode
            if part := part_of(access.part, buffers[name], f"{who}, buffer {name!r}"):
                parts[name] = part
            if chosen := form or arrays:
                forms[name] = chosen
    specials = frozenset(each.name for each in parameters if each.name not in buffers) & {*RESERVED}
    return Parameters(access=modes, specials=specials, forms=forms, parts=parts)


def _require_possible(
    parameter: inspect.Parameter, who: str, buffers: Mapping[str, Buffer], side: Side
) -> None:
    """Raises `WorkloadError` for a parameter that nothing can be given for."""
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        wrong = f"{who} takes {parameter}; stages are called with buffers by name"
        raise WorkloadError(wrong, next_step=f"Name the buffers it uses: {', '.join(buffers)}.")
    if name == "gpu" and side == "host":
        step = "Remove the parameter; `gpus` is the number of GPUs, in every stage."
        raise WorkloadError(f"host {who} takes 'gpu', but it runs on no GPU", next_step=step)
    if name not in (*buffers, *RESERVED) and parameter.default is parameter.empty:
        wrong = f"{who} takes {name!r}, which is not a buffer{nearest(name, (*buffers, *RESERVED))}"
        step = f"Buffers: {', '.join(buffers)}. Also available by name: {', '.join(RESERVED)}."
        raise WorkloadError(wrong, next_step=step)


def _mode(
    function: StageFunction, parameter: inspect.Parameter, who: str, default: Parameters | None
) -> tuple[Access, ArrayForm | None]:
    """Its access to the buffer, or to a part of it, and the form that it wants."""
    name = parameter.name
    access, wanted = annotated(function, parameter.annotation, f"{who}, buffer {name!r}")
    if access is None and default is not None and name in default.access:
        return Access(default.access[name], default.parts.get(name)), None
    if access is None:
        step = f"Annotate the parameter: {name}: In (reads), Out (overwrites) or InOut."
        raise WorkloadError(f"{who} does not annotate buffer {name!r}", next_step=step)
    return access, form_of(wanted, who, name)
