"""What a report must not tell: names, homes, secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import thread_time
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from builders import failed, profile, skipped
from every import every
from hypothesis import given
from hypothesis import strategies as st
from nsys_exports import Export
from rendering import shown
from running import advisor

from advisor.devices.environment import command_line
from advisor.errors import FileProblem
from advisor.nsys.capturing import read_report
from advisor.nsys.exports import FileTrace
from advisor.profiles import secrets
from advisor.profiles.base import Record, TextKind
from advisor.profiles.files import read_toml
from advisor.profiles.fleets import FleetRecord, Row
from advisor.profiles.reading import load, parse, require_readable
from advisor.profiles.redaction import Redactor, without_environment, without_names
from advisor.profiles.schema import Profile
from advisor.profiles.secrets import MASK, is_secret, mask, masked, masked_and_bounded, secret_values
from tests.faults.secret_cases import FORMS

PARTS = (
    *("x", "x-", "-x ", "://a:", "-eyJ", "token=(", "a='", 'token="', "token: ", "pw>"),
    *("sk-", "password: |\n ", "-----END RSA PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----", "mysql -p"),
    *("name: token value=", "://a:b@", "a", "abcdef1", "aaaaaaab-", "SG.a", "eyJaaaaaaaa", "QUJD\n", " \n"),
)
ROOT = Path(__file__).parents[1]
TEXTS = read_toml(ROOT / "tests" / "data" / "secret-texts.toml")
PLACE = Redactor(
    home="/home/alice", directory="/home/alice/project", user="alice", host="workstation7.lab.org"
)


@every(
    ("text", "shown"),
    [
        ("/home/alice/project/workloads/add.py", "workloads/add.py"),
        ("in /home/alice/project.", "in .."),
        ("cd /home/alice/project", "cd ."),
        ("cd /home/alice/project/", "cd ."),
        ("'/home/alice/project'", "'.'"),
        ("/home/alice/projects/x.py", "~/projects/x.py"),
        ('File "/home/alice/.venv/lib/x.py", line 3', 'File "~/.venv/lib/x.py", line 3'),
        ("/home/bob/data and /Users/carol/data", "~/data and ~/data"),
        ("/scratch/alice/data", "/scratch/<user>/data"),
        ("alice@workstation7: malice", "<user>@<host>: malice"),
        ("/scratch/alice_data/my-alice", "/scratch/<user>_data/my-<user>"),
        ("on workstation7.lab.org", "on <host>"),
        ("https://me:hunter2@host/x", "https://***@host/x"),
        ("got ghp_abcdefghijklmnopqrstuvwxyz012345", f"got {MASK}"),
        ("nothing to hide: 3 of 4", "nothing to hide: 3 of 4"),
    ],
)
def test_names_and_places_are_hidden(text: str, shown: str) -> None:
    assert PLACE.hide(text) == shown


@given(st.text(max_size=60))
def test_hiding_twice_changes_nothing(text: str) -> None:
    assert PLACE.hide(PLACE.hide(text)) == PLACE.hide(text)


def test_names_of_secrets_are_told_from_others() -> None:
    secret = ("token", "--api-key", "db_password", "awsSecretAccessKey", "AUTH", "hf_token", "private_key")
    other = ("key", "keyframes", "tokenizer", "author", "passes", "n", "--set", "compass")
    assert [name for name in (*secret, *other) if is_secret(name)] == [*secret]


def test_values_of_secrets_are_masked_in_a_command() -> None:
    typed = ["profile", "--token", "t0p", "--set", "api_key=abc", "--set=password=x=y", "--rounds", "3"]
    shown = f"profile --token {MASK} --set api_key={MASK} --set=password={MASK} --rounds 3"
    assert " ".join(masked(typed)) == shown
    assert masked(["--token", "--quiet"]) == ["--token", "--quiet"]
    assert masked(["-p", "hunter2", "-phunter2", "-pSECRET"]) == ["-p", MASK, f"-p{MASK}", f"-p{MASK}"]
    assert masked(["-p=SECRET"]) == [f"-p={MASK}"]
    told = secret_values(["-phunter2", "-p=hunter3", "-p", "train", "-ptrain", "-p=train"], {})
    assert told == ["hunter2", "hunter3"], "train.py keeps its name"
    harmless = ["-p", "8080", "-p", "fp16", "-p", "./data", "-p", "-v", "-p1e-3", "-pfp16", "-p=8080", "-p"]
    assert masked(harmless) == harmless
    assert command_line(["profile", "--set", "secret=s3cr3t"]) == "advisor profile --set 'secret=***'"


@every("form", FORMS)
def test_forms_of_secrets(form: str) -> None:
    """Whatever stands around them."""
    secret = "".join(FORMS[form])
    for text in (secret, f"got {secret}, then more", f"({secret})", f"line\n{secret}\nline"):
        shown = mask(text)
        assert FORMS[form][1] not in shown or (form == "credentials in a URL" and "pa55word" not in shown)
        assert MASK in shown
        assert mask(shown) == shown


@every("text", TEXTS["ordinary"])
def test_ordinary_texts_stay(text: str) -> None:
    assert mask(text) == text


@every("text", TEXTS["secret"])
def test_secrets_in_texts(text: str) -> None:
    secret = "correcthorse7" if "QUJD" in text else "correct-horse-7"  # lines of a key are Base64
    shown = mask(text.replace("{}", secret).format())
    assert "horse" not in shown
    assert shown.count("'") % 2 == text.count("'") % 2
    assert mask(shown) == shown


@every("part", PARTS)
def test_masking_takes_time_in_proportion_to_the_text(part: str) -> None:
    """The square of it would be minutes here."""
    began = thread_time()
    assert len(mask(part * (64_000 // len(part)), ("abcdef1234567890", "aaaaaaab-aaaaaaac"))) > 2
    assert thread_time() - began < 3


@given(st.lists(st.sampled_from((">", "</", "<", "a1", " "))).map("".join))
def test_elements_are_masked_if_they_end_in_the_same_word(rest: str) -> None:
    value = re.match(r"\s*>([^\s<>]+)[^\s<]*</", rest)
    masked_rest = f"{rest[: value.start(1)]}{MASK}{rest[value.end(1) :]}" if value else rest
    assert mask(f"secret {rest}") == f"secret {masked_rest}"


def test_secrets_of_options_and_variables_and_their_parts_are_masked() -> None:
    values = secrets.of_process(
        ["profile", "--set", "password=hunter2", "--rounds", "3"],
        {
            "AWS_SECRET_ACCESS_KEY": "x1y2" * 10,
            "PATH": "/usr/bin",
            "SHORT_TOKEN": "1",
            "MY_TOKEN": "abcdef123456ghijkl7890",
            "CREDENTIALS": '{"type": "service_account", "key_password": "hunterhunter", "id": "a1b2c3d4e5"}',
            "PASSWORDS": "alpha-token-1,beta-token-2",
            "QUOTED_TOKEN": '"quotedvalue9"',
            "AUTH": "name:secondhalf99",
            "KEY_LINES_SECRET": "first-line-1\nsecond-line-2\n",
            "DATABASE_URL": "postgres://me:p%40ss@word1@h/x",
            "SSH_AUTH_SOCK": "/home/alice/.ssh/agent",
        },
    )
    secret = (
        *("cdef123456ghij", "123456ghijkl7890", "hunterhunter", "a1b2c3d4e5", "beta-token-2", "hunter2"),
        *("second-line-2", "quotedvalue9", "secondhalf99", "p@ss@word1", "p%40ss@word1", "x1y2" * 10),
    )
    for part in secret:
        assert mask(f"x{part}y", values) == f"x{MASK}y"
    harmless = "service_account", "ghijkl", "/home/alice/.ssh/known_hosts", "name", "alpha-", "/usr/bin"
    for text in (*harmless, "words 1234567"):
        assert mask(text, values) == text


def test_a_secret_is_masked_before_a_text_is_cut() -> None:
    """However long the text is, and wherever the secret lies in it."""
    secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    for length in (90, 5_000, 100_000):
        for before in (*range(0, 130, 7), length - 60):
            text = "-" * before + secret + " word" * ((length - before) // 5)
            shown = masked_and_bounded(text, 90)
            assert len(shown) < 150
            assert "abc" not in shown
            assert "789" not in shown


def records(of: type[Record]) -> Iterator[type[Record]]:
    """That one and those in it."""
    yield of
    waiting = [field.annotation for field in of.model_fields.values()]
    while waiting:
        form = waiting.pop()
        if isinstance(form, type) and issubclass(form, Record):
            yield from records(form)
        waiting += get_args(form)


@every("saved", [Profile, FleetRecord, Row, FileTrace])
def test_every_text_that_is_saved_says_what_it_is(saved: type[Record]) -> None:
    """A new one has to choose between `Word`, `Name` and `Text`, by which it is masked."""

    def bare(form: Any) -> bool:
        if get_origin(form) is Annotated and any(isinstance(each, TextKind) for each in get_args(form)):
            return False
        return form is str or any(map(bare, get_args(form)))

    for record in set(records(saved)):
        for name, field in record.model_fields.items():
            told = any(isinstance(each, TextKind) for each in field.metadata)
            assert told or get_origin(field.annotation) is Literal or not bare(field.annotation), (
                record,
                name,
            )


def test_a_secret_that_is_a_word_of_ours_leaves_a_profile_that_can_be_read() -> None:
    made = profile(notes=("Interrupted: pageable it was", "pageable"))
    stages = (stage.name for stage in made.workload.stages)
    for word in ("pageable", "pinned", "Interrupted", "synchronize", "cuda", *stages):
        shown = without_names(made, replace(PLACE, secrets=(word,)))
        again = parse(shown.to_json(), "p.json")
        assert [row.strategy for row in again.results] == [row.strategy for row in made.results]
        assert again.notes[0].startswith("Interrupted")
        assert again.device == made.device
    assert without_names(made, replace(PLACE, secrets=("pageable",))).notes[1] == MASK


def test_a_profile_that_cannot_be_read_again_is_told() -> None:
    require_readable(profile().to_json(), "p.json")
    with pytest.raises(FileProblem, match=r"p\.json was saved, but cannot be read again"):
        require_readable(profile().to_json().replace('"format": 2', '"format": "***"'), "p.json")


def test_secrets_in_the_names_of_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "correct-horse-7")
    export = Export(tmp_path / "t.sqlite")
    export.domain()
    for name, begin, end, index in (
        ("strategy:pinned", 0, 100, None),
        ("frame", 10, 50, 3),
        ("device:correct-horse-7", 12, 48, None),
    ):
        export.range(name, begin, end, index)
    export.kernel(15, 20, "copy<token=hunter2-7>")
    export.kernel(30, 40, "/data/" + "".join(FORMS["a token of GitHub"]) + "/x.cu")
    told = read_report(export.done(), None, tmp_path).model_dump_json()
    assert told.count(MASK) >= 3
    assert not [part for part in ("hunter2", FORMS["a token of GitHub"][1], "correct-horse") if part in told]


def telling() -> Profile:
    """A profile that says all that it must not."""
    path = "/home/alice/project/workloads/add.py"
    told = {"absent": {"nvml": "no /home/alice/lib"}, "warnings": ("alice is busy",)}
    parameters = {"tokens": 512_000, "api_key": "hunter2", "pass": 8136047, "data": "/home/alice/data"}
    plain = profile()
    return profile(
        command=f"advisor profile {path}",
        results=(failed(reason=path, detail=f'File "{path}"'), skipped(reason="on workstation7")),
        environment=plain.environment.model_copy(update=told),
        notes=("kept in /home/alice/project",),
        workload=plain.workload.model_copy(update={"file": path, "parameters": parameters}),
    )


def test_no_form_of_a_profile_tells_names() -> None:
    made = without_names(telling(), PLACE)
    for text in (made.model_dump_json(), shown(made, "html"), shown(made, "md")):
        for name in ("alice", "workstation7", "hunter2", "/home"):
            assert name not in text
    assert made.workload.file == "workloads/add.py"
    # A language model's tokens are a size.
    parameters = {"tokens": 512_000, "api_key": MASK, "pass": MASK, "data": "~/data"}
    assert made.workload.parameters == parameters
    assert (made.notes, made.results[0].reason) == (("kept in .",), "workloads/add.py")


def test_published_without_the_machine(tmp_path: Path) -> None:
    telling().save(tmp_path / "p.json")
    written = ["--format", "html,md,json", "--out", str(tmp_path / "out"), "--quiet", "--no-environment"]
    advisor("report", tmp_path / "p.json", *written, cwd=ROOT)
    made = load(tmp_path / "out" / "profile.json")
    assert made == without_environment(made), "nothing is left to leave out"
    assert "3.11.7" not in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
