"""What a simulated process prints and how it ends."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from engines.virtual.nvidia_smi import NvidiaSmi
from engines.virtual.shell import Command, ScriptNotUnderstood, fields, is_assignment, joined, read_script

STDOUT, STDERR = 1, 2
FOREVER = float("inf")
NOT_FOUND = 127
SYNTAX_ERROR = 2

SHELLS = frozenset({"sh", "bash", "ash", "dash"})

Step = tuple[int, bytes] | float
"""Output on a stream, or a pause in seconds."""


@dataclass(slots=True)
class Program:
    """One command in one environment.

    A program that is not known here runs for ever as a service when ``serves`` (a
    container's own command), and is "not found" otherwise (a command run in one).
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    smi: NvidiaSmi | None = None
    serves: bool = True
    exit_code: int = 0
    _variables: dict[str, str] = field(default_factory=dict)
    _exported: set[str] = field(default_factory=set)
    _ended: bool = False
    _stops_on_error: bool = False

    def missing_executable(self) -> str | None:
        """The command's own name when there is no such file: then nothing starts at all."""
        if not self.argv:
            return None
        name = self.argv[0].rpartition("/")[2]
        known = name in SHELLS or name in _BUILTINS or (name == "nvidia-smi" and self.smi is not None)
        return self.argv[0] if not known and (not self.serves or name == "nvidia-smi") else None

    def run(self) -> Iterator[Step]:
        """Output and pauses, in order; ``exit_code`` holds after the end."""
        argv = list(self.argv)
        if not argv:
            yield from self._service("the image's own command")
        elif argv[0].rpartition("/")[2] not in SHELLS:
            yield from self._command(argv)
        elif len(argv) >= 3 and re.fullmatch(r"-e?u?x?c", argv[1]):
            self._stops_on_error = "e" in argv[1]
            yield from self._script(argv[2])
        elif self.serves:
            yield from self._service(shlex.join(argv))

    def _script(self, script: str) -> Iterator[Step]:
        try:
            commands = read_script(script)
        except ScriptNotUnderstood as error:
            if self.serves:
                yield from self._service(script)
            else:
                self.exit_code = SYNTAX_ERROR
                yield STDERR, f"sh: not understood by a virtual shell: {error}\n".encode()
            return
        for position, command in enumerate(commands):
            if (command.joint == "&&" and self.exit_code) or (command.joint == "||" and not self.exit_code):
                continue
            yield from self._simple(command)
            tested = position + 1 < len(commands) and commands[position + 1].joint != ";"
            if self._ended or (self._stops_on_error and self.exit_code and not tested):
                return

    def _simple(self, command: Command) -> Iterator[Step]:
        given, assigned = list(command.words), {}
        while given and is_assignment(given[0]):
            name, _, value = joined(given.pop(0), self._value).partition("=")
            assigned[name] = value
        words = [argument for word in given for argument in fields(word, self._value)]
        if not words:
            self._variables |= assigned
            self.exit_code = 0
            return
        # Before a command, they are variables of that command alone.
        kept = dict(self._variables), set(self._exported)
        self._variables |= assigned
        self._exported |= assigned.keys()
        for step in self._command(words):
            if isinstance(step, tuple):
                stream = command.streams.get(step[0], step[0])
                if stream is not None:
                    yield stream, step[1]
            else:
                yield step
        if assigned:
            self._variables, self._exported = kept

    def _command(self, argv: list[str]) -> Iterator[Step]:
        name, arguments = argv[0].rpartition("/")[2], argv[1:]
        match name:
            case "exit":
                self._ended = True
                if arguments:
                    self.exit_code = int(arguments[0]) & 255 if arguments[0].isdigit() else SYNTAX_ERROR
            case "exec" if arguments:
                yield from self._command(arguments)
                self._ended = True
            case "set":
                self._stops_on_error = self._stops_on_error or any(re.match(r"-\w*e", word) for word in arguments)
                self.exit_code = 0
            case "export":
                self._variables |= dict(word.split("=", 1) for word in arguments if "=" in word)
                self._exported |= {word.partition("=")[0] for word in arguments}
                self.exit_code = 0
            case "nvidia-smi" if self.smi is not None:
                if self.smi.hangs:
                    yield FOREVER
                text, self.exit_code = self.smi.answer(arguments)
                yield STDOUT, text.encode()
            case _ if name in _BUILTINS:
                self.exit_code = 0
                yield from self._builtin(name, arguments)
            case _ if self.serves and name != "nvidia-smi":
                yield from self._service(shlex.join(argv))
            case _:
                self.exit_code = NOT_FOUND
                yield STDERR, f"sh: {argv[0]}: not found\n".encode()

    def _builtin(self, name: str, arguments: list[str]) -> Iterator[Step]:
        match name:
            case "echo":
                newline = arguments[:1] != ["-n"]
                yield STDOUT, (" ".join(arguments if newline else arguments[1:]) + "\n" * newline).encode()
            case "printf":
                yield STDOUT, _printf(arguments).encode()
            case "sleep":
                yield sum(map(_seconds, arguments))
            case "false":
                self.exit_code = 1
            case "env" | "printenv":
                exported = {name: self._variables[name] for name in self._exported & self._variables.keys()}
                env = {key: self._variables.get(key, value) for key, value in self.env.items()} | exported
                asked = [name for name in arguments if name in env]
                self.exit_code = 1 if len(asked) < len(arguments) else 0
                lines = [env[name] for name in asked] if arguments else [f"{key}={env[key]}" for key in env]
                yield STDOUT, "".join(f"{line}\n" for line in lines).encode()
            case "hostname":
                yield STDOUT, (self._value("HOSTNAME") or "localhost").encode() + b"\n"
            case "pwd":
                yield STDOUT, b"/\n"
            case "cat" if not arguments:
                yield FOREVER
            case "cat" | "ls":
                self.exit_code = 1
                yield STDERR, f"{name}: can't open '{arguments[0] if arguments else '.'}'\n".encode()

    def _service(self, what: str) -> Iterator[Step]:
        yield STDOUT, f"virtual process started: {what}\n".encode()
        yield FOREVER

    def _value(self, name: str) -> str | None:
        if name == "?":
            return str(self.exit_code)
        if name == "$":
            return "1"
        return self._variables.get(name, self.env.get(name))


_BUILTINS = frozenset(
    {"echo", "printf", "sleep", "true", ":", "false", "env", "printenv", "hostname", "pwd", "cat", "ls"}
)


def _printf(arguments: list[str]) -> str:
    """The format with its escapes and ``%s``, ``%d``; repeated for what arguments are left."""
    if not arguments:
        return ""
    form, rest = arguments[0].replace("\\n", "\n").replace("\\t", "\t"), arguments[1:]
    written = ""
    while True:
        parts = re.split(r"%[sd]", form)
        for part in parts[:-1]:
            written += part + (rest.pop(0) if rest else "")
        written += parts[-1].replace("%%", "%")
        if not rest or len(parts) == 1:
            return written


def _seconds(text: str) -> float:
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:], 0)
    number = text[:-1] if unit else text
    if re.fullmatch(r"\d+(\.\d*)?|\.\d+", number):
        return float(number) * (unit or 1)
    return FOREVER if text in ("infinity", "inf") else 0.0
