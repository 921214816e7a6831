"""Rules by line of a script: copies, waits and locks that a loop makes, on one device."""

from __future__ import annotations

from advisor import units
from advisor.profiles.crossings import Crossing
from advisor.rules.base import (
    Finding,
    Limits,
)
from advisor.rules.lines import LineCase, often
from advisor.rules.snippets.lines import UserLine, kept, merged, on_gpu, once, pinned, removed


def pageable_transfer(case: LineCase, limits: Limits) -> Finding | None:
    crossing = case.crossing
    if not case.is_copy or crossing.memory != "pageable" or crossing.staged or crossing.non_blocking:
        return None
    return page_locked(
        case,
        limits,
        "The driver passes it through its own page-locked buffer, and the host waits.",
    )


def page_locked(case: LineCase, limits: Limits, cause: str) -> Finding | None:
    """One page-locked array that is kept, in place of what the line copies now."""
    crossing, up = case.crossing, case.crossing.kind == "upload"
    repeats = crossing.repeats
    is_constant = repeats is not None and 0 < repeats.compared == repeats.same
    if up and not is_constant and case.line.made_on_gpu and case.is_worth(case.frame_seconds, limits):
        return _made_on_gpu(case)
    saved = (case.seconds - (case.pinned_seconds or case.seconds)) * case.times
    if case.scope.loop is None or not case.is_worth(saved, limits):  # locking costs more than one copy
        return None
    if case.loader is not None:
        return _pinned_batches(case, case.loader, cause, saved)
    origin = crossing.origin
    seen = f" ({case.at(origin.place)})" if origin and origin.place else ""
    made = seen.strip(" ()") or "where it is made"
    fresh = "It is new memory in each frame, whose pages the first write has to find." if _fresh(case) else ""
    return case.advice(
        f"Keep one page-locked array for {case.what}",
        f"{case.moved} {'from' if up else 'into'} pageable memory. {cause}",
        fresh,
        f"The gain holds if what makes the data{seen} can write into that array." if up else "",
        saved=saved,
        after=pinned(case.line, up=up, before=case.before_loop, made=made),
        change="lock" if up else "reuse",
    )


def _made_on_gpu(case: LineCase) -> Finding:
    is_random = "torch.rand" in case.line.operand
    return case.advice(
        "Make this tensor on the GPU",
        f"{case.moved} of what PyTorch can make there. The gain is the time of the copies.",
        "Random numbers then come from the GPU's generator: they are others." if is_random else "",
        saved=case.frame_seconds,
        after=case.line.made_on_gpu,
    )


def _pinned_batches(case: LineCase, loader: int, cause: str, saved: float) -> Finding:
    return case.advice(
        f"Set `pin_memory=True` in the DataLoader at line {loader}",
        f"{case.moved} from pageable memory. {cause}",
        "With it the loader copies each batch into page-locked memory in a thread of its own.",
        saved=saved,
        after=f"# line {loader}: DataLoader(..., pin_memory=True)\n{case.crossing.place.text}",
        change="pin-memory",
    )


def _fresh(case: LineCase) -> bool:
    return bool(case.crossing.origin and case.crossing.origin.each_frame)


def pageable_async_copy(case: LineCase, limits: Limits) -> Finding | None:
    """An asynchronous copy was asked for, from or to pageable memory."""
    crossing = case.crossing
    if not case.is_copy or crossing.memory != "pageable" or crossing.staged or not crossing.non_blocking:
        return None
    asked = "The call asks for an asynchronous copy, but from pageable memory the driver stages it."
    return page_locked(case, limits, asked)


def hidden_host_copy(case: LineCase, limits: Limits) -> Finding | None:
    if not case.is_copy or not case.crossing.staged:
        return None
    cause = "The library first copies it on the CPU into page-locked memory of its own."
    return page_locked(case, limits, cause)


def small_transfers(case: LineCase, limits: Limits) -> Finding | None:
    """One copy for all of a line's in a frame: the bytes stay, the calls go but for one."""
    if not case.is_copy or case.times < limits["copies"] or case.size > limits["bytes"]:
        return None
    saved = (case.times - 1) * min(case.seconds, case.call_seconds)
    if not case.is_worth(saved, limits):
        return None
    return case.advice(
        f"Copy the {round(case.times)} small arrays of a frame as one",
        f"{case.moved}: at that size the cost is the call, not the bytes. "
        f"One copy of all spares {round(case.times) - 1} calls of {units.seconds(case.call_seconds)}.",
        saved=saved,
        after=merged(case.line),
    )


def repeated_upload(case: LineCase, limits: Limits) -> Finding | None:
    """The same bytes go to the GPU again and again."""
    repeats, frames = case.crossing.repeats, case.scope.frames
    if case.crossing.kind != "upload" or repeats is None or repeats.compared < limits["compared"]:
        return None
    saved = case.frame_seconds * (1 - 1 / case.crossing.count)
    if repeats.same < repeats.compared or frames < 2 or not case.is_worth(saved, limits):
        return None
    return case.advice(
        f"Upload {case.what} once, {case.before_loop}",
        f"{case.moved}, and {repeats.same} of {repeats.compared} uploads that were compared "
        "brought the same bytes as the one before.",
        case.sampled,
        "The gain is the time of all uploads but the first.",
        saved=saved,
        after=once(case.line, case.before_loop, "# in the loop: use that array; nothing is uploaded"),
        change="hoist",
    )


def round_trip(case: LineCase, limits: Limits) -> Finding | None:
    """What a download brought goes back to the GPU unchanged."""
    crossing, repeats = case.crossing, case.crossing.repeats
    if crossing.kind != "upload" or repeats is None or repeats.checked < limits["checked"]:
        return None
    share = repeats.returned / repeats.checked
    saved = case.frame_seconds * share
    if share < limits["share"] or not case.is_worth(saved, limits):
        return None
    source = repeats.returned_from
    return case.advice(
        f"Keep {case.what} on the GPU instead of bringing it back",
        f"{repeats.returned} of {repeats.checked} uploads brought the very bytes that {case.at(source)} had "
        "downloaded: the array is still on the GPU.",
        case.sampled,
        "The gain is the time of the uploads; the download can go too if the host does not read it.",
        saved=saved,
        after=kept(case.line, _download(case, source)),
    )


def _download(case: LineCase, source: object) -> UserLine | None:
    """The line that brought the bytes to the host, as far as this frame has it."""
    its: list[Crossing] = [c for _, c in case.scope.crossings if c.kind == "download" and c.place == source]
    return UserLine.of(its[0]) if its else None


def unread_upload(case: LineCase, limits: Limits) -> Finding | None:
    """Uploads that nothing on the GPU reads before they are overwritten."""
    crossing = case.crossing
    if crossing.kind != "upload" or not crossing.unread:
        return None
    share = crossing.unread / crossing.count
    saved = case.frame_seconds * share
    if share < limits["share"] or not case.is_worth(saved, limits):
        return None
    return case.advice(
        f"Upload {case.what} only where it is read",
        f"{crossing.unread} of {crossing.count} uploads ({units.percent(share)}) were overwritten before a "
        "call of the library read them. Kernels that are launched by other means are not seen: check these "
        "first.",
        saved=saved,
        after=removed(case.line),
    )


def pin_per_frame(case: LineCase, limits: Limits) -> Finding | None:
    saved = case.frame_seconds
    if case.crossing.kind != "lock" or case.times < limits["calls"] or not case.is_worth(saved, limits):
        return None
    return case.advice(
        f"Page-lock {case.what} once, not in every frame",
        f"{case.crossing.call} page-locks memory {often(case.times)} times in a frame. Locking visits "
        "every page and costs more than it saves for a single copy. The gain is the time of these calls.",
        saved=saved,
        after=once(case.line, case.before_loop, "# in the loop: write into that memory"),
    )


def implicit_wait(case: LineCase, limits: Limits) -> Finding | None:
    crossing, saved = case.crossing, case.frame_seconds
    if crossing.kind != "wait" or case.scope.loop is None or not case.is_worth(saved, limits):
        return None
    kernels = (crossing.kernel_seconds or 0.0) / case.scope.frames
    held = f", and holds back {case.at(crossing.holds_back)}" if crossing.holds_back else ""
    reads, does = not crossing.call.endswith("ynchronize"), "returns"
    if not reads and case.scope.needs_waits:
        return None
    title = f"Keep {case.what} on the GPU" if reads else "Wait for the GPU only before its results are read"
    if crossing.call.endswith(("__getitem__", "__setitem__")):
        title = "Select with `where` in place of a mask"
        does = "needs the number of selected elements on the host and returns"
    elif reads:
        does = "copies a value to the host and returns"
    return case.advice(
        title,
        f"`{case.line.call or crossing.call}` {does} when all earlier work is done{held}.",
        f"It stands for {units.seconds(kernels)} of kernels in a frame, which take as long without it."
        if kernels
        else "",
        "Asynchronous copies may rely on this wait: wait for them before the host touches their memory."
        if case.scope.needs_waits
        else "",
        "The gain is the time of the calls, without the kernels that they wait for.",
        saved=saved,
        after=on_gpu(case.line, "after the loop") if reads else once(case.line, "after the loop"),
    )
