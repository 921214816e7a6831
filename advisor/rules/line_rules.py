"""Rules by line of a script: copies, waits and locks that a loop makes, on one device."""

from __future__ import annotations

from advisor import units
from advisor.devices.entries import FOLLOWS
from advisor.profiles.crossings import KERNEL_ARGUMENT
from advisor.rules.base import Finding, Limits
from advisor.rules.lines import LineCase, often
from advisor.rules.snippets.lines import UserLine, kept, on_gpu, pinned, uploaded_once
from advisor.strategies.syntax import names_changed, names_tested, names_written

ONE_DRAM = "CPU and GPU have one DRAM: in mapped or managed memory the data would need no copy at all."
RARE = 0.1
"""Reads in a frame that are as rare as the advice on a condition makes them, every tenth frame."""


def pageable_transfer(case: LineCase, _: Limits) -> Finding | None:
    if not case.is_pageable or case.crossing.non_blocking:
        return None
    return page_locked(case, "The driver passes it through its own page-locked buffer, and the host waits.")


def pageable_async_copy(case: LineCase, _: Limits) -> Finding | None:
    """An asynchronous copy was asked for, from or to pageable memory."""
    cause = "The call asks for an asynchronous copy, but from pageable memory the driver stages it."
    return page_locked(case, cause) if case.is_pageable and case.crossing.non_blocking else None


def hidden_host_copy(case: LineCase, _: Limits) -> Finding | None:
    cause = "The library first copies it on the CPU into page-locked memory of its own."
    return page_locked(case, cause) if case.is_copy and case.crossing.staged else None


def page_locked(case: LineCase, cause: str) -> Finding | None:
    """One page-locked array that is kept, in place of what the line copies now."""
    crossing, up = case.crossing, case.crossing.kind == "upload"
    repeats, origin = crossing.repeats, crossing.origin
    is_constant = repeats is not None and 0 < repeats.compared == repeats.same
    if up and not is_constant and case.line.made_on_gpu:
        return _made_on_gpu(case)
    if case.scope.loop is None:
        return None  # page-locking costs more than one copy
    if crossing.call == KERNEL_ARGUMENT or (crossing.library == "numba" and not case.line.call):
        return _kernel_arrays(case)
    if case.loaders:
        return _pinned_batches(case, cause)
    if up and case.line.operand[:1] in ("[", "("):
        return None  # numbers in a list become an array first, which costs more than its copy
    if origin and (origin.kind == "mmap" or (origin.kept and not case.line.filled)):
        return None  # the driver copies mapped files so itself; one array cannot hold all results
    origin_place = f" ({case.at(origin.place)})" if origin and origin.place else ""
    fill_place = origin_place.strip(" ()") or "where it is made"
    filled = "" if up else case.line.filled
    return case.advice(
        f"Page-lock `{filled}`" if filled else f"Keep one page-locked array for {case.what}",
        f"{case.moved} {'from' if up else 'into'} pageable memory. {cause}",
        "It is new memory in each frame, so the first write to each page is a page fault."
        if origin and origin.each_frame
        else "",
        "The gain includes the time, as measured, that other lines lose to the copy."
        if case.beside_seconds
        else "",
        f"The gain holds if what makes the data{origin_place} can write into that array." if up else "",
        "" if up or filled else "The next download overwrites it: nothing may hold it longer than a frame.",
        ONE_DRAM if case.one_dram else "",
        "Its size differs from frame to frame: lock as much as the largest needs." if crossing.varies else "",
        saved=case.locked_seconds,
        after=pinned(case.line, up=up, before=case.before_loop, fill=fill_place),
        change=None if crossing.varies or filled else "lock" if up else "reuse",
    )


def _made_on_gpu(case: LineCase) -> Finding:
    is_random = "torch.rand" in case.line.operand
    return case.advice(
        "Make this tensor on the GPU",
        f"{case.moved} of what PyTorch can make there. The gain is the time of the copies.",
        "Random numbers then come from the GPU's generator, so they differ." if is_random else "",
        saved=case.frame_seconds,
        after=case.line.made_on_gpu,
    )


def _kernel_arrays(case: LineCase) -> Finding:
    """NumPy's arrays given to a kernel or ufunc of Numba's."""
    up = case.crossing.kind == "upload"
    title = "Give the kernel arrays that stay on the GPU" if up else "Copy back only what the CPU reads"
    return case.advice(
        title,
        f"{case.moved}: Numba copies each NumPy array that a kernel is given to the GPU and back, changed "
        "or not.",
        f"The gain is that of all these copies: what the CPU {'writes' if up else 'reads'} in each frame "
        "still needs one.",
        saved=case.frame_seconds,
        after=case.code("on-device"),
    )


def _pinned_batches(case: LineCase, cause: str) -> Finding:
    where = f"line{'s' * (len(case.loaders) > 1)} {', '.join(map(str, case.loaders))}"
    return case.advice(
        f"Set `pin_memory=True` in the DataLoader at {where}",
        f"{case.moved} from pageable memory. {cause}",
        "With it the loader copies each batch into page-locked memory in a thread of its own.",
        ONE_DRAM if case.one_dram else "",
        saved=case.locked_seconds,
        after=case.code("loader", lines=where),
        change="pin-memory",
    )


def small_transfers(case: LineCase, limits: Limits) -> Finding | None:
    """One copy for all of a line's in a frame: the bytes stay, the calls go but for one."""
    if not case.is_copy or case.times < limits["copies"] or case.size > limits["bytes"]:
        return None
    if case.scope.loop is None or case.crossing.call.startswith("Module."):
        return None  # once in a run it costs little, and a module moves its parameters itself
    call, one = case.modelled("pinned_copy_call_seconds"), case.line.with_operand("together")
    saved = (case.times - 1) * min(case.seconds, call)
    return case.advice(
        f"Copy the {round(case.times)} small arrays of a frame as one",
        f"{case.moved}: at that size the cost is the call, not the bytes. "
        f"One copy of all spares {round(case.times) - 1} calls of {units.seconds(call)}.",
        saved=saved,
        after=case.code("merged" if one else "merged-all", again=one),
    )


def repeated_upload(case: LineCase, limits: Limits) -> Finding | None:
    """The same bytes go to the GPU again and again."""
    repeats = case.crossing.repeats
    if case.crossing.kind != "upload" or case.scope.frames < 2:
        return None
    if case.line.is_constant:
        reason = "and they are constants in that line"
    elif repeats is None or not repeats.same == repeats.compared >= limits["compared"]:
        return None
    elif (rest := case.crossing.count - 1 - repeats.compared) > 0 and case.line.names & case.in_loop(
        names_written
    ):
        return None  # the loop writes into it: in frames that were not compared, as far as is known
    else:
        reason = (
            f"and {repeats.same} of {repeats.compared} uploads that were compared brought the same bytes as "
        )
        reason += f"the one before{f'; {rest} were not compared' if rest > 0 else ''}"
    saved = case.frame_seconds * (1 - 1 / case.crossing.count)
    target = case.line.result
    written = target and (target in case.in_loop(names_changed) or case.is_filled)
    upload = case.crossing.place.text.replace(target, f"{target}_once", 1)
    return case.advice(
        f"Upload {case.array} once, {case.before_loop}",
        f"{case.moved}, {reason}.",
        case.sampled,
        "The gain is the time of all uploads but the first.",
        "The GPU writes to the array in each frame: it gets a copy that is made there."
        if written
        else "Where the GPU writes into the array, let it write into a copy.",
        saved=saved,
        after=case.code("copied-there", new=target, upload=upload)
        if written
        else uploaded_once(case.line, case.before_loop),
        change=None if written else "hoist",
    )


def round_trip(case: LineCase, limits: Limits) -> Finding | None:
    """Uploads of bytes that a download brought."""
    crossing, repeats = case.crossing, case.crossing.repeats
    if crossing.kind != "upload" or repeats is None or repeats.checked < limits["checked"]:
        return None
    share = repeats.returned / repeats.checked
    saved = case.frame_seconds * share
    if share < limits["share"]:
        return None
    source = repeats.returned_from
    downloads = [c for _, c in case.scope.crossings if c.kind == "download" and c.place == source]
    is_kept = downloads and repeats.latest == repeats.returned
    return case.advice(
        f"Keep {case.what} on the GPU instead of bringing it back",
        f"{repeats.returned} of {repeats.checked} uploads brought back the bytes that {case.at(source)} had "
        "downloaded: the array is still on the GPU, unless it was changed there since.",
        case.sampled,
        "The gain is the time of the uploads; the download can go too if the host does not read it.",
        saved=saved,
        after=kept(case.line, UserLine.of(downloads[0]) if is_kept else None),
    )


def unread_upload(case: LineCase, limits: Limits) -> Finding | None:
    """Uploads that nothing on the GPU reads before they are overwritten."""
    crossing = case.crossing
    if crossing.kind != "upload" or not crossing.unread:
        return None
    share = crossing.unread / crossing.count
    saved = case.frame_seconds * share
    if share < limits["share"]:
        return None
    return case.advice(
        f"Upload {case.what} only where it is read",
        f"{crossing.unread} of {crossing.count} uploads ({units.percent(share)}) were overwritten before a "
        "call of the library read them. Kernels that are launched by other means are not seen: check these "
        "first.",
        saved=saved,
        after=case.code("where-read"),
    )


def pin_per_frame(case: LineCase, limits: Limits) -> Finding | None:
    saved = case.frame_seconds
    if case.crossing.kind != "lock" or case.times < limits["calls"]:
        return None
    if case.crossing.call == "Tensor.pin_memory":
        return case.advice(
            "Make the data in page-locked memory that is kept",
            f"`pin_memory()` copies a tensor on the CPU into page-locked memory, {often(case.times)} times "
            "in a frame: for a single transfer that costs more than it saves. Write into that memory, or "
            "leave the call out.",
            saved=saved,
            after=case.code("page-locked-source"),
        )
    return case.advice(
        f"Page-lock {case.what} once, not in every frame",
        f"{case.crossing.call} page-locks memory {often(case.times)} times in a frame. Locking visits "
        "every page and costs more than it saves for a single copy. The gain is the time of these calls.",
        saved=saved,
        after=case.code("locked-once"),
    )


def implicit_wait(case: LineCase, _: Limits) -> Finding | None:
    crossing, saved = case.crossing, case.frame_seconds
    if crossing.kind == "upload":
        return _blocking_upload(case)
    if crossing.kind != "wait" or case.scope.loop is None:
        return None
    kernels = (crossing.kernel_seconds or 0.0) / case.scope.frames
    delayed = f", and holds back {case.at(crossing.holds_back)}" if crossing.holds_back else ""
    reads = not crossing.call.endswith("ynchronize")
    if (not reads and case.scope.needs_waits) or (reads and case.times <= RARE):
        return None
    if reads:
        title, does, after = _value_read(case)
    elif case.is_timed:
        title, after = "Time fewer frames: this wait is for the clock", case.code("timed")
        does = "comes right before or after a reading of the clock, and returns"
    else:
        title, does = "Wait for the GPU only before its results are read", "returns"
        after = case.code("after-loop")
    return case.advice(
        title,
        f"`{case.line.call or crossing.call}` {does} when all earlier work is done{delayed}.",
        f"It stands for {units.seconds(kernels)} of kernels in a frame, which take as long without it."
        if kernels
        else "",
        "Asynchronous copies may rely on this wait: wait for them before the host touches their memory."
        if case.scope.needs_waits
        else "",
        "The gain is the time of the calls, without the kernels that they wait for.",
        saved=saved,
        after=after,
    )


def _blocking_upload(case: LineCase) -> Finding | None:
    """A tensor in page-locked memory, whose copy the host waits for where it need not."""
    crossing = case.crossing
    saved = min(case.modelled("synchronize_seconds"), case.seconds) * case.times
    blocks = crossing.memory == "pinned" and not crossing.non_blocking
    if not blocks or crossing.call not in ("Tensor.to", "Tensor.cuda") or case.scope.loop is None:
        return None
    return case.advice(
        "Copy with `non_blocking=True`",
        f"{case.moved} from page-locked memory, and the host waits until each copy is done. With "
        "`non_blocking=True` the call returns at once, and only work on the GPU waits for the copy.",
        "Nothing may write into that memory until then; batches of a DataLoader are new ones.",
        "The gain is that of the waits; a frame in which the host waits for the GPU anyway has none. More is "
        "gained where the host has work beside the copies.",
        saved=saved,
        after=case.code("non-blocking"),
        change="non-blocking",
    )


_READS = (
    (
        ("__getitem__", "__setitem__"),
        "Select with `where` in place of a mask",
        "needs the number of selected elements on the host and returns",
        "fixed-size",
    ),
    (
        ("nonzero", "argwhere", "unique", "unique_consecutive", "extract", "masked_select"),
        "Avoid results whose size the host waits for: {}",
        "needs the size of its result on the host and returns",
        "fixed-size",
    ),
    (("__format__", "__repr__", "__str__"), "Show values in fewer frames", "returns", "seldom"),
)
"""By how the call ends: title, what it does, and what to write."""


def _value_read(case: LineCase) -> tuple[str, str, str]:
    """Title, what the call does, and what to write for one that brings the host a value."""
    call, inside = case.crossing.call, "copies a value to the host inside of this call and returns"
    if not case.reads_itself:
        # GradScaler.step reads whether gradients are finite, unless the optimizer does (grad_scaler.py).
        if "GradScaler" in case.source and ".step(" in case.statement:
            return "Use an optimizer with `fused=True`", inside, case.code("fused")
        return "Look for an option that keeps this value on the GPU", inside, case.code("library")
    for ends, title, does, code in _READS:
        if call.endswith(ends):
            return title.format(call), does, case.code(code)
    if call.startswith("cupy."):
        title = f"Look for a function or an option that does not wait: {call}"
        return title, "reads a value of its own on the host and returns", case.code("with-sizes")
    after = on_gpu(case.line, tested=case.line.target in case.in_loop(names_tested))
    return f"Keep {case.what} on the GPU", "copies a value to the host and returns", after


def shared_dram_copy(case: LineCase, limits: Limits) -> Finding | None:
    """A copy within the one DRAM of CPU and GPU, of an array whose place the program can choose."""
    crossing, memory, origin = case.crossing, case.one_dram, case.crossing.origin
    if memory is None or not case.is_copy or crossing.memory == "managed" or case.scope.loop is None:
        return None
    if case.size <= limits["bytes"] or case.loaders or (origin and (origin.kept or origin.kind == "mmap")):
        return None
    saved = (case.seconds - case.modelled("synchronize_seconds")) * case.times
    up, old = crossing.kind == "upload", case.line.operand
    new = f"{old if old.isidentifier() else 'data' if old else 'array'}_shared"
    return case.advice(
        f"Let CPU and GPU share {case.array} instead of copying it",
        f"{case.moved}, within one DRAM. Mapped or managed memory needs no copy. Mapped (pinned): "
        f"{FOLLOWS[memory]['pinned']}. Managed: {FOLLOWS[memory]['managed']}.",
        f"Before the CPU {'writes' if up else 'reads'} it, it waits for the GPU; the gain is without that "
        "wait. That kernels may be slower on such memory is not in the gain.",
        "Each frame overwrites it: what a later one reads needs a copy.",
        saved=saved,
        after=case.code("shared-upload" if up else "shared-download", new=new),
    )
