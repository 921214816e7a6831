"""`advisor strategies` and `advisor rules`: what there is, and what it is for."""

from __future__ import annotations

from advisor.cli import options


def strategies() -> None:
    """List the strategies, and what each is good and bad for."""
    from advisor.strategies.registry import describe

    print(describe())


def rules(rule: options.Rule = None) -> None:
    """List the rules, or explain one with an example."""
    from advisor.cli.explaining import describe, overview
    from advisor.rules.registry import RULES, by_id

    print(describe(by_id(rule)) if rule is not None else overview(RULES))
