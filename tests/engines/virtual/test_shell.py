"""The very small shell: what it reads, it plays as a POSIX shell does; the rest it does not touch."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.virtual.cards import make_cards
from engines.virtual.nvidia_smi import NvidiaSmi
from engines.virtual.programs import FOREVER, STDERR, STDOUT, Program
from engines.virtual.shell import ScriptNotUnderstood, read_script
from gpus.nvidia_smi import read_probe
from gpus.probe_command import PROBE_COMMAND, split_probe_output
from tests.services.needs import need

ENV = {"NAME": "ada", "EMPTY": "", "PATH": "/usr/bin:/bin"}


def play(script: str, *, serves: bool = False, smi: NvidiaSmi | None = None) -> tuple[bytes, bytes, int]:
    """Standard output, standard error and the exit code; pauses are not waited for."""
    program = Program(["sh", "-c", script], ENV, smi, serves)
    steps = [step for step in program.run() if isinstance(step, tuple)]
    out, err = (b"".join(text for stream, text in steps if stream == each) for each in (STDOUT, STDERR))
    return out, err, program.exit_code


def really(script: str) -> subprocess.CompletedProcess[bytes]:
    """The same in a real shell."""
    busybox = shutil.which("busybox") or need("busybox is not installed (Debian package busybox-static)")
    return subprocess.run([busybox, "sh", "-c", script], capture_output=True, env=ENV, check=False)


SCRIPTS = [
    "echo one; echo two",
    "echo 'one; two' && false || echo three; exit 3",
    "true && echo yes || echo no",
    "false && echo yes || echo no",
    "false; echo $?",
    'echo "$NAME" \'$NAME\' ${NAME} "a  b"   c',
    "echo ${EMPTY:-default} ${NONE:-other} [$NONE]",
    'X=1; echo $X; Y=$X$X; echo "$Y"',
    'echo a\\;b "c\\"d" e\\ f',
    "echo -n no end",
    "printf 'a\\nb %s-%d\\n' x 7",
    "echo lost >/dev/null; echo kept",
    "echo wrong >&2; echo right",
    "echo both 2>&1",
    "echo gone >/dev/null 2>&1; echo $?",
    "# a comment\necho after",
    "echo not#a comment",
    "set -e; false; echo never",
    "set -e; false || true; echo still",
    "exit 300",
    "exec echo last; echo never",
    "echo a\necho b\n\nfalse",
    "nonsense; echo $?",
    "X=' a  b '; echo $X; echo x$X; echo $X$X; echo \"$X\"; echo x${X}y",
    "echo '' $NONE \"\" end",
    "N='echo run'; $N me",
    "X=1 printenv X; echo [$X]",
    "X=1; printenv X; export X; printenv X; NAME=b; printenv NAME",
    "status=$?; echo; exit $status",
    "",
    "true;",
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_does_what_a_real_shell_does(script: str):
    real = really(script)
    assert play(script) == (real.stdout, real.stderr, real.returncode)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["echo a", "false", "true", "echo $?", "X=1", "echo $X", "exit 2", "echo 'q;'", "; ", " && ", " || "]
        ),
        max_size=9,
    )
)
def test_any_chain_of_commands_does_what_a_real_shell_does(parts: list[str]):
    script = "".join(part if part in ("; ", " && ", " || ") else f"{part} " for part in parts)
    real = really(script)
    try:
        read_script(script)
    except ScriptNotUnderstood:
        # Only what a real shell finds wrong, too.
        assert b"syntax error" in real.stderr
        return
    if b"syntax error" not in real.stderr:
        assert play(script) == (real.stdout, real.stderr, real.returncode)


@pytest.mark.parametrize(
    "script",
    [
        "while true; do echo tick; sleep 1; done",
        "echo a | cat",
        "echo $(date)",
        "echo `date`",
        "(echo a)",
        "if true; then echo a; fi",
        "echo a > /tmp/file",
        "sleep 1 &",
        "echo 'open",
        'echo "open',
        "trap 'exit 0' TERM; sleep 5",
        "&& echo a",
        "echo a &&",
    ],
)
def test_what_needs_a_real_shell_is_a_service_or_an_error_and_never_half_played(script: str):
    out, err, code = play(script)
    assert (out, code) == (b"", 2)
    assert err.startswith(b"sh: not understood by a virtual shell: ")
    assert list(Program(["sh", "-c", script], ENV).run()) == [
        (STDOUT, f"virtual process started: {script}\n".encode()),
        FOREVER,
    ]


def test_a_container_without_a_command_is_a_service():
    assert list(Program([], ENV).run()) == [(STDOUT, b"virtual process started: the image's own command\n"), FOREVER]


@pytest.mark.parametrize(
    ("text", "seconds"), [("1", 1), ("0.5", 0.5), ("2m", 120), ("infinity", FOREVER), ("1h", 3600), ("3s", 3)]
)
def test_sleep_takes_its_time(text: str, seconds: float):
    assert list(Program(["sleep", text], ENV).run()) == [seconds]


def test_the_probes_command_gives_both_answers_and_nvidia_smis_code():
    cards = make_cards("host", 3)
    program = Program(PROBE_COMMAND, ENV, NvidiaSmi(cards))
    output = b"".join(step[1] for step in program.run() if isinstance(step, tuple))
    report = read_probe(*split_probe_output(output), exit_code=program.exit_code)
    assert (report.failure, program.exit_code) == (None, 0)
    assert [device.uuid for device in report.devices] == [card.uuid for card in cards]


def test_the_probes_command_without_a_card_ends_with_nvidia_smis_code():
    program = Program(PROBE_COMMAND, ENV, NvidiaSmi([]))
    output = b"".join(step[1] for step in program.run() if isinstance(step, tuple))
    assert program.exit_code == 6
    assert b"No devices were found" in output
