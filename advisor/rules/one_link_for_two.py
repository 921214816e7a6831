"""one-link-for-two: several GPUs share one link to the host, so that their copies do not add up."""

from collections import defaultdict

from advisor import units
from advisor.rules.base import Case, Finding, Limits, advice, gpu_fact, host_bytes, not_applicable, passed


def judge(case: Case, limits: Limits) -> Finding:
    row = case.chosen or case.fastest()
    assert row is not None
    moved = host_bytes(row.strategy, case.workload, case.device)
    copying = [gpu for gpu, count in moved.items() if count]
    if len(copying) < 2:
        return not_applicable(f"Under {row.strategy} no two GPUs copy from or to the host.")
    ports = defaultdict(list)
    for gpu in copying:
        if (port := gpu_fact(case, gpu, "root_port")) is None:
            return not_applicable("Which PCIe root port each GPU is below is not known.")
        ports[port].append(gpu)
    together = {port: gpus for port, gpus in ports.items() if len(gpus) > 1}
    if not together:
        return passed("Each GPU has a separate link to the host.", row.copies())
    share = row.part(row.transfer_seconds)
    if share < limits["share"]:
        return passed(f"Copies are only {units.percent(share)} of a frame of {row.strategy}.", row.copies())
    port, gpus = next(iter(together.items()))
    listed = " and ".join(f"GPU {gpu}" for gpu in gpus)
    detail = (
        f"{listed} are below one PCIe root port, {port}: their copies share one link to the host, and take "
        f"{units.percent(share)} of a frame of {row.strategy}. Choose GPUs below different ports with --gpus "
        "(`advisor doctor` lists them), or copy to one GPU and from there to the other (peer). The gain "
        "assumes that with separate links the copies take as long as those of the GPU that copies most."
    )
    saved = row.transfer_seconds * (1 - max(moved[gpu] for gpu in gpus) / sum(moved.values()))
    return advice(detail, row.copies(), row.frame(), saved=saved, inferred=True)
