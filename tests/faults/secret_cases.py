"""Of the matrix: where secrets stand in other shapes, and where they are echoed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.faults.cases import PROFILE, SHORT, Case, Content, profiled, saved, workload

_FILES: Mapping[str, Content] = {"w.py": workload()}
_SAVED: Mapping[str, Content] = {"p.json": PROFILE.read_text(encoding="utf-8")}


def more_secrets() -> Iterator[Case]:
    """Where secrets stand in other shapes, and where they are echoed."""
    value = "correct-horse-battery"
    for name, line in {
        "a pair": f"raise ValueError(('token', '{value}'))",
        "a list of pairs": f"raise ValueError([('user', 'me'), ('api_key', '{value}')])",
        "bytes": f"raise ValueError(b'password={value}')",
        "a pair of bytes": f"raise ValueError((b'Authorization', b'Basic {value}'))",
        "a list of headers": f"raise ValueError(['X-Api-Key', '{value}'])",
        "adjacent literals": f"dict(token='x-' '{value}', z=1 / 0)",
        "literals on two lines": f"dict(token='x-'\n            '{value}',\n            z=1 / 0)",
        "a header of letters": "raise ValueError('Authorization: Basic dXNlcjpwYXNzd29yZA')",
        "YAML": f"raise ValueError('password: \"{value}\"')",
        "an option in a text": f"raise ValueError('ran: tool --password {value}9 x')",
        "a URL of a database": f"raise ValueError('postgres://me:{value}@host/db')",
        "a cookie": f"raise ValueError('Cookie: sessionid={value}; x=1')",
        "an element": f"raise ValueError('<password>{value}</password>')",
        "an index": f"raise ValueError(\"cfg['token'] = '{value}'\")",
        "a call": f"raise ValueError(\"login(password='{value}')\")",
        "setenv": f"raise ValueError(\"os.environ.setdefault('API_TOKEN', '{value}')\")",
    }.items():
        yield profiled(f"tells {name}", 3, produce=line, never=(value, "dXNlcjpwYXNzd29yZA"))
    url = {"DATABASE_URL": f"postgres://me:{value}@host/db"}
    yield profiled(
        "the password of a variable's URL",
        3,
        variables=url,
        never=(value,),
        produce="raise ValueError(os.environ['DATABASE_URL'].split(':')[2].split('@')[0])",
    )
    for given in (
        ("--rounds", f"token={value}"),
        ("--rounds", "ghp_" + "a" * 36),
        (f"--api-key={value}",),
        ("--timeout", f"https://me:{value}@h"),
        ("--strategy", f"password={value}"),
        ("--seed", "Bearer abc123def456ghi"),
        ("--set", f"token={value}"),
        ("--set", f"n=token={value}"),
        ("--sweep", f"token={value}"),
        ("--format", f"token={value}"),
        ("--memory-budget", f"password={value}"),
        ("--ignore", f"password={value}"),
        ("--rule", f"password={value}=3"),
        (f"password={value}",),
    ):
        yield Case(
            f"echoes {' '.join(given)[:40]}",
            ("profile", "w.py", *SHORT, *given),
            2,
            _FILES,
            never=(value, "a" * 36, "abc123def456ghi"),
        )
    for command in (
        ("report", f"token={value}.json"),
        ("compare", f"token={value}.json", "b.json"),
        ("trace", f"token={value}.sqlite"),
        ("predict", f"https://me:{value}@h/p.json", "--target", "h200"),
        ("predict", "p.json", "--target", f"https://me:{value}@h/d.toml"),
    ):
        yield Case(
            f"echoes a missing file, {command[0]} {len(command[1])}", command, 5, _SAVED, never=(value,)
        )
    for command in (
        (f"password={value}",),
        ("rules", f"password={value}"),
        ("devices", "show", f"password={value}"),
        ("strategies", f"token={value}"),
    ):
        yield Case(f"echoes a name, {command[0][:20]} {len(command)}", command, 2, never=(value,))
    # Without a GPU a script cannot run at all.
    yield Case(
        "script: its own arguments",
        ("profile", "s.py", *SHORT, "--", "--token", value),
        2,
        {"s.py": "import sys\nimport cupy\nraise ValueError(sys.argv)\n"},
        never=(value,),
    )
    slow = workload(parameters=', token: str = ""', produce="time.sleep(0.2); print(token)")
    stop = f"{{advisor}} profile w.py --no-gpu --set token={value} & p=$!; sleep 3; kill -TERM $p; wait $p"
    yield Case("partial results", (), 130, {"w.py": slow}, never=(value,), shell=stop)
    telling = {
        "p.json": saved(
            lambda p: (
                p["results"][0].update(reason=f"password={value}")
                if "reason" in p["results"][0]
                else p["notes"].append(f"('token', '{value}')")
            )
        )
    }
    for command in (
        ("report", "p.json", "--out", "out", "--format", "html,md,json"),
        ("predict", "p.json", "--target", "h200", "--out", "out"),
        ("compare", "p.json", "p.json"),
    ):
        yield Case(f"a pair in a profile, {command[0]}", command, 0, telling, never=(value,))
