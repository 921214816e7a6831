"""The whole examination: a pure function of the facts."""

from __future__ import annotations

from advisor.doctor.facts import Facts
from advisor.doctor.gpu_checks import gpu_findings
from advisor.doctor.host_checks import host_findings
from advisor.doctor.tool_checks import tool_findings
from advisor.profiles.checkup import Checkup


def examine(facts: Facts) -> Checkup:
    """Ready where a GPU that is there can be measured on; without one, since predicting needs none."""
    findings = (*gpu_findings(facts), *tool_findings(facts), *host_findings(facts))
    if not facts.gpus:
        verdict = (
            "`advisor profile` runs workloads on the CPU here and predicts; there is no GPU to measure on."
        )
        return Checkup(ready=True, verdict=verdict, findings=findings)
    works = facts.probe is not None and not facts.probe.problem
    verdict = (
        "`advisor profile` can measure on this machine."
        if works
        else "There is a GPU, but nothing can be measured on it yet: see what is missing."
    )
    return Checkup(ready=works, verdict=verdict, findings=findings)
