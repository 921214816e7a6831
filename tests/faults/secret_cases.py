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


def secrets() -> Iterator[Case]:
    """What the program masks it masks everywhere."""
    said = {"an option": ("--set", f"password={SECRET}"), "an option, glued": (f"--set=api_key={SECRET}",)}
    for name, more in said.items():
        key = "password" if "password" in more[-1] else "api_key"
        yield profiled(
            f"tells {name}",
            3,
            *more,
            parameters=f', {key}: str = ""',
            never=(SECRET,),
            produce=f"raise ValueError('with ' + {key})",
        )
        yield profiled(
            f"prints {name}", 0, *more, parameters=f', {key}: str = ""', never=(SECRET,), use=f"print({key})"
        )
    variable = {"MY_SERVICE_TOKEN": SECRET}
    yield profiled(
        "tells a variable",
        3,
        variables=variable,
        never=(SECRET,),
        produce="raise ValueError(os.environ['MY_SERVICE_TOKEN'])",
    )
    yield profiled("a variable in its docstring", 0, variables=variable, never=(SECRET,), doc=SECRET)
    lines = {"SERVICE_SECRET": f"first-line-{SECRET}\nsecond-line-{SECRET}\n"}
    yield profiled(
        "tells a line of a variable",
        3,
        variables=lines,
        never=(SECRET,),
        produce="raise KeyError(os.environ['SERVICE_SECRET'].splitlines()[1])",
    )
    numbers = ("--set", "token=83749261")
    yield profiled("a number as a token", 0, *numbers, parameters=", token: int = 0", never=("83749261",))
    cut = "os.write(1, ('y' * 190 + os.environ['MY_SERVICE_TOKEN']).encode()); os._exit(3)"
    yield profiled("cut in a secret", 4, variables=variable, never=(SECRET[:6],), produce=cut)
    for name, line in {
        "a note": f"e = ValueError('x'); e.__notes__ = ['token={SECRET}']; raise e",
        "a cause": f"raise ValueError('x') from KeyError('password={SECRET}')",
        "a dictionary": f"raise KeyError({{'login': {{'api_key': '{SECRET}'}}}})",
        "the lines of a call": f"dict(a=1,\n            token='{SECRET}',\n            z=1 / 0)",
    }.items():
        yield profiled(f"tells a secret in {name}", 3, produce=line, never=(SECRET,))
    forms = [first + second for first, second in FORMS.values()]
    yield profiled("tells all forms of tokens", 3, produce=f"raise ValueError({forms!r})", never=tuple(forms))
    swept = ("profile", "w.py", *SHORT, "--sweep", f"token={SECRET},other-{SECRET}")
    yield Case(
        "sweep: over a secret", swept, 0, {"w.py": workload(parameters=', token: str = ""')}, never=(SECRET,)
    )

    failing = workload(parameters=', token: str = ""', produce="raise ValueError(token)")
    yield Case("sweep: over a secret that fails", swept, 3, {"w.py": failing}, never=(SECRET,))

    again = f"{{advisor}} {COMMAND} --set token={{word}} && {{advisor}} report out/profile.json --out again"
    for word in ("pageable", "synchronize", "produce", "measured"):
        yield Case(
            f"a secret that is the word {word}",
            (),
            0,
            {"w.py": workload(parameters=', token: str = ""')},
            variables={"SERVICE_TOKEN": word},
            shell=again.replace("{word}", word),
        )
    yield from _names()
    parts = {
        "LOGIN_SECRET": f'{{"user": "me-or-you", "key": "{SECRET}"}}',
        "PAIR_TOKEN": "a-name:9-second-half",
    }
    half = "raise ValueError(os.environ['LOGIN_SECRET'][-20:-2] + ' ' + os.environ['PAIR_TOKEN'][-13:])"
    yield profiled(
        "tells parts of variables", 3, variables=parts, produce=half, never=(SECRET[-18:], "9-second-half")
    )


def _names() -> Iterator[Case]:
    """User, home and working directory, in the pages of several runs and on the terminal."""
    named = {"LOGNAME": "mallory-77", "USER": "mallory-77", "HOME": "/srv/mallory-77/home"}
    tell = "if n == 65: raise ValueError(f\"{os.environ['USER']} {os.environ['HOME']}/x {os.getcwd()}/y z\")"
    never = ("mallory-77", "/srv/", "/tmp/fault-")
    for name, more, code in (
        ("a sweep with a value that fails", ("profile", "w.py", *SHORT, "--sweep", "n=64,65"), 0),
        ("the terminal", ("profile", "w.py", *SHORT, "--set", "n=65"), 3),
        ("a fleet", ("fleet", "w.py", "--local", "1", *SHORT, "--sweep", "n=64,65"), 0),
    ):
        yield Case(
            f"names: {name}", more, code, {"w.py": workload(produce=tell)}, variables=named, never=never
        )


def more_secrets() -> Iterator[Case]:
    """Where secrets stand in other shapes, and where they are echoed."""
    value = "correct-horse-battery"
    for name, line in {
        "a pair": f"raise ValueError(('token', '{value}'))",
        "literals on two lines": f"dict(token='x-'\n            '{value}',\n            z=1 / 0)",
        "a header of letters": "raise ValueError('Authorization: Basic dXNlcjpwYXNzd29yZA')",
        "JSON in JSON": "import json; "
        f"raise ValueError(json.dumps(json.dumps([{{'client_secret': '{value}'}}])))",
        "all variables": f"raise ValueError(dict(os.environ, MY_PASSWORD='{value}'))",
        "a block of PGP": "raise ValueError('-----BEGIN PGP PRIVATE KEY BLOCK-----\\n\\n"
        f"{value.replace('-', '+')}\\n-----END PGP PRIVATE KEY BLOCK-----')",
    }.items():
        yield profiled(
            f"tells {name}", 3, produce=line, never=(value, value.replace("-", "+"), "dXNlcjpwYXNzd29yZA")
        )
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
            FILES,
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
            f"echoes a missing file, {command[0]} {len(command[1])}", command, 5, SAVED, never=(value,)
        )
    for command in (
        (f"password={value}",),
        ("rules", f"password={value}"),
        ("devices", "show", f"password={value}"),
        ("strategies", f"token={value}"),
    ):
        yield Case(f"echoes a name, {command[0][:20]} {len(command)}", command, 2, never=(value,))
    yield Case(
        "script: its own arguments",
        ("profile", "s.py", "--no-gpu", "--", "--token", value),
        3,
        # What a script prints itself passes as it is; what is said of it does not.
        {"s.py": "import io, sys, cupy\nsys.stderr = io.StringIO()\nraise ValueError(sys.argv)\n"},
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
    yield from _versions(value)


def _versions(value: str) -> Iterator[Case]:
    """Revisions, remotes, folders and addresses, which the pages of several runs name."""
    printing = {"w.py": workload(parameters=', token: str = ""', produce="print('here', token)")}
    shown = ("profile", "w.py", *(part for part in SHORT if part != "--quiet"), "--set", f"token={value}")
    says = ("output of the first run", "| here ***")
    yield Case("prints a secret in the first run", shown, 0, printing, says, (value,))
    commit = (
        f"git init -q .; git remote add origin https://me:{value}@host/r.git; git add w.py; "
        f"git -c user.name=n -c user.email=e@x commit -qm token={value}; git branch token={value}; "
    )
    end = "; c=$?; rm -rf .git; exit $c"
    profile = f"{{advisor}} {COMMAND} --format html,md,json"
    yield Case("secrets of git", (), 0, FILES, never=(value,), shell=f"{commit}{profile}{end}")
    for name, revision, code in (("a", "token", 0), ("an unknown", "password", 2)):
        compare = f"{{advisor}} compare --run w.py --against {revision}={value} --no-gpu --max-seconds 60"
        shell = f"{commit}{compare} --fail-if slower=900% --out out{end}"
        yield Case(f"{name} revision with a secret", (), code, FILES, never=(value,), shell=shell)
    folder = f"$'d/token={value}\\e[2J'"
    gather = f"mkdir -p {folder}; cp p.json {folder}/profile.json; {{advisor}} history d --out out"
    yield Case("history: a folder with a secret", (), 0, SAVED, never=(value,), shell=f"{gather}; rm -r d")
    address = ("fleet", "w.py", "--scheduler", f"tls://me:{value}@h:1", "--out", "out")
    yield Case("fleet: a secret in the address", address, 2, FILES, never=(value,))
