"""Of the matrix: secrets, wherever they stand and are echoed."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.case import COMMAND, FILES, SAVED, SECRET, SHORT, Case, profiled, saved, workload

FORMS = {
    "a token of GitHub": ("ghp_", "abcdefghijklmnopqrstuvwxyz0123456789"),
    "a token of GitLab": ("glpat-", "abcdefghij0123456789"),
    "a key of Amazon": ("AKIA", "ABCDEFGHIJKLMNOP"),
    "a key of Google": ("AIza", "SyA0123456789abcdefghijklmnopqrstuv"),
    "a key of Stripe": ("sk_live_", "0123456789abcdefghijklmn"),
    "a token of Slack": ("xoxb-", "123456789012-abcdefghijkl"),
    "a token of Hugging Face": ("hf_", "abcdefghijklmnopqrstuvwxyz01234567"),
    "a JSON web token": ("eyJhbGciOiJIUzI1NiJ9.", "eyJzdWIiOiIxIn0.abcDEF012345"),
    "a header": ("Bearer ", "abc123def456ghi789"),
    "credentials in a URL": ("https://me:pa55word@", "host"),
    "a token in a URL": ("https://host/x?token=", "abc123def456"),
    "a token of NVIDIA": ("nvapi-", "abcDEF0123456789abcdef-xyz"),
    "a token of Vault": ("hvs.", "CAESIabcdefghijklmnop0123"),
    "a key of SendGrid": ("SG.", "abcdefghijklmnopqrstuv.ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefg"),
    "a key of OpenAI": ("sk-", "proj-abcdefghijkl0123456789"),
    "a token of npm": ("npm_", "abcdefghijklmnopqrstuvwxyz0123456789"),
    "a token of PyPI": ("pypi-", "AgEIcHlwaS5vcmcCJDAwMDAwMDAw"),
    "an assignment": ("password=", "s3cr3t-value"),
    "JSON": ('"api_key": "', "s3cr3t-value"),
}
"""The beginning and the rest apart, so that nobody's scanner takes this file for a leak."""

_VALUE = "correct-horse-battery"
_TOLD = {
    "a secret in a note": f"e = ValueError('x'); e.__notes__ = ['token={_VALUE}']; raise e",
    "a secret in a cause": f"raise ValueError('x') from KeyError('password={_VALUE}')",
    "a secret in the lines of a call": f"dict(a=1,\n            token='{_VALUE}',\n            z=1 / 0)",
    "a pair": f"raise ValueError(('token', '{_VALUE}'))",
    "literals on two lines": f"dict(token='x-'\n            '{_VALUE}',\n            z=1 / 0)",
    "all variables": f"raise ValueError(dict(os.environ, MY_PASSWORD='{_VALUE}'))",
}
"""Errors of a stage; test_redaction.py has the forms of texts."""
_IN_A_VARIABLE: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "a variable": (SECRET, "os.environ['SERVICE_SECRET']", (SECRET,)),
    "a part of a variable of JSON": (
        f'{{"user": "me-or-you", "key": "{SECRET}"}}',
        "os.environ['SERVICE_SECRET'][-20:-2]",
        (SECRET[-18:],),
    ),
}
"""The variable, what a stage tells of it, and what nobody may see."""
_GIVEN = (
    *(f"--rounds token={_VALUE}", f"--rounds ghp_{'a' * 36}", f"--api-key={_VALUE}"),
    *(f"--timeout https://me:{_VALUE}@h", f"--strategy password={_VALUE}", f"--set token={_VALUE}"),
    *(f"--set n=token={_VALUE}", f"--sweep token={_VALUE}", f"--format token={_VALUE}"),
    *(f"--memory-budget password={_VALUE}", f"--ignore password={_VALUE}", f"--rule password={_VALUE}=3"),
    f"password={_VALUE}",
)
_ECHOED: dict[tuple[str, ...], int] = {
    ("report", f"token={_VALUE}.json"): 5,
    ("compare", f"token={_VALUE}.json", "b.json"): 5,
    ("trace", f"token={_VALUE}.sqlite"): 5,
    ("predict", f"https://me:{_VALUE}@h/p.json", "--target", "h200"): 5,
    ("predict", "p.json", "--target", f"https://me:{_VALUE}@h/d.toml"): 5,
    (f"password={_VALUE}",): 2,
    ("rules", f"password={_VALUE}"): 2,
    ("devices", "show", f"password={_VALUE}"): 2,
    ("strategies", f"token={_VALUE}"): 2,
    ("fleet", "w.py", "--scheduler", f"tls://me:{_VALUE}@h:1", "--out", "out"): 2,
}
"""Commands that name what is not there."""


def secrets() -> Iterator[Case]:
    """What the program masks it masks everywhere."""
    for name, more, key in (
        ("an option", ("--set", f"password={SECRET}"), "password"),
        ("an option, glued", (f"--set=api_key={SECRET}",), "api_key"),
    ):
        given = {"parameters": f', {key}: str = ""', "never": (SECRET,)}
        yield profiled(f"tells {name}", 3, *more, produce=f"raise ValueError('with ' + {key})", **given)
        yield profiled(f"prints {name}", 0, *more, use=f"print({key})", **given)
    for name, line in _TOLD.items():
        yield profiled(f"tells {name}", 3, produce=line, never=(_VALUE,))
    for name, (variable, told, never) in _IN_A_VARIABLE.items():
        variables = {"SERVICE_SECRET": variable}
        line = f"raise KeyError({told})"
        yield profiled(f"tells {name}", 3, variables=variables, never=never, produce=line)
    variable = {"MY_SERVICE_TOKEN": SECRET}
    yield profiled("a variable in its docstring", 0, variables=variable, never=(SECRET,), doc=SECRET)
    cut = "os.write(1, ('y' * 190 + os.environ['MY_SERVICE_TOKEN']).encode()); os._exit(3)"
    yield profiled("cut in a secret", 4, variables=variable, never=(SECRET[:6],), produce=cut)
    numbers = ("--set", "token=83749261")
    yield profiled("a number as a token", 0, *numbers, parameters=", token: int = 0", never=("83749261",))
    forms = [first + second for first, second in FORMS.values()]
    yield profiled("tells all forms of tokens", 3, produce=f"raise ValueError({forms!r})", never=tuple(forms))
    swept = ("profile", "w.py", *SHORT, "--sweep", f"token={SECRET},other-{SECRET}")
    for name, code, produce in (("", 0, "pass"), (" that fails", 3, "raise ValueError(token)")):
        files = {"w.py": workload(parameters=', token: str = ""', produce=produce)}
        yield Case(f"sweep: over a secret{name}", swept, code, files, never=(SECRET,))
    for word in ("pageable", "synchronize", "produce", "measured"):
        again = f"{{advisor}} {COMMAND} --set token={word} && {{advisor}} report out/profile.json --out again"
        files = {"w.py": workload(parameters=', token: str = ""')}
        variables = {"SERVICE_TOKEN": word}
        yield Case(f"a secret that is the word {word}", (), 0, files, variables=variables, shell=again)
    # User, home and working directory, in the pages of several runs and on the terminal.
    named = {"LOGNAME": "mallory-77", "USER": "mallory-77", "HOME": "/srv/mallory-77/home"}
    tell = "if n == 65: raise ValueError(f\"{os.environ['USER']} {os.environ['HOME']}/x {os.getcwd()}/y z\")"
    files, never = {"w.py": workload(produce=tell)}, ("mallory-77", "/srv/", "/tmp/fault-")
    for name, more, code in (
        ("a sweep with a value that fails", ("profile", "w.py", *SHORT, "--sweep", "n=64,65"), 0),
        ("the terminal", ("profile", "w.py", *SHORT, "--set", "n=65"), 3),
        ("a fleet", ("fleet", "w.py", "--local", "1", *SHORT, "--sweep", "n=64,65"), 0),
    ):
        yield Case(f"names: {name}", more, code, files, variables=named, never=never)


def echoes() -> Iterator[Case]:
    """Where secrets are repeated: refusals, partial results, pages, and what git tells."""
    for given in _GIVEN:
        command = ("profile", "w.py", *SHORT, *given.split(" "))
        yield Case(f"echoes {given[:40]}", command, 2, FILES, never=(_VALUE, "a" * 36))
    header = ("profile", "w.py", *SHORT, "--seed", "Bearer abc123def456ghi")
    yield Case("echoes --seed Bearer", header, 2, FILES, never=("abc123def456ghi",))
    for words, code in _ECHOED.items():
        name = f"echoes a name, {words[0][:20]} {len(''.join(words))}"
        yield Case(name, words, code, {**FILES, **SAVED}, never=(_VALUE,))
    # What a script prints itself passes as it is; what is said of it does not.
    script = {"s.py": "import io, sys, cupy\nsys.stderr = io.StringIO()\nraise ValueError(sys.argv)\n"}
    arguments = ("profile", "s.py", "--no-gpu", "--", "--token", _VALUE)
    yield Case("script: its own arguments", arguments, 3, script, never=(_VALUE,))
    slow = {"w.py": workload(parameters=', token: str = ""', produce="time.sleep(0.01); print(token)")}
    stop = "until [ -s advisor-report/profile.partial.json ]; do sleep 0.1; done; kill -TERM $p; wait $p"
    stop = f"{{advisor}} profile w.py --no-gpu --target h200 --set token={_VALUE} & p=$!; {stop}"
    yield Case("partial results", (), 130, slow, never=(_VALUE,), shell=stop)
    telling = {"p.json": saved(lambda p: p["notes"].append(f"('token', '{_VALUE}')"))}
    for command in (
        ("report", "p.json", "--out", "out", "--format", "html,md,json"),
        ("predict", "p.json", "--target", "h200", "--out", "out"),
        ("compare", "p.json", "p.json"),
    ):
        yield Case(f"a pair in a profile, {command[0]}", command, 0, telling, never=(_VALUE,))
    printing = {"w.py": workload(parameters=', token: str = ""', produce="print('here', token)")}
    shown = ("profile", "w.py", *(part for part in SHORT if part != "--quiet"), "--set", f"token={_VALUE}")
    says = ("output of the first run", "| here ***")
    yield Case("prints a secret in the first run", shown, 0, printing, says, (_VALUE,))
    commit = (
        f"git init -q .; git remote add origin https://me:{_VALUE}@host/r.git; git add w.py; "
        f"git -c user.name=n -c user.email=e@x commit -qm token={_VALUE}; git branch token={_VALUE}; "
    )
    against = "compare --run w.py --no-gpu --max-seconds 60 --fail-if slower=900% --out out --against"
    for name, code, line in (
        ("secrets of git", 0, f"{COMMAND} --format html,md,json"),
        ("a revision with a secret", 0, f"{against} token={_VALUE}"),
        ("an unknown revision with a secret", 2, f"{against} password={_VALUE}"),
    ):
        shell = f"{commit}{{advisor}} {line}; c=$?; rm -rf .git; exit $c"
        yield Case(name, (), code, FILES, never=(_VALUE,), shell=shell)
    folder = f"$'d/token={_VALUE}\\e[2J'"
    gather = f"mkdir -p {folder}; cp p.json {folder}/profile.json; {{advisor}} history d --out out"
    yield Case("history: a folder with a secret", (), 0, SAVED, never=(_VALUE,), shell=f"{gather}; rm -r d")
