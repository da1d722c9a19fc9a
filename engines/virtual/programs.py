"""What a simulated container's command prints and how it ends: a very small shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

FOREVER = float("inf")
SEPARATOR = re.compile(r"(;|&&|\|\||\n)")
NOT_FOUND = 127


@dataclass(slots=True)
class Program:
    """One command in one environment. ``nvidia_smi`` answers for the cards it may see, or is
    None where the tool is not there."""

    argv: Sequence[str]
    env: Mapping[str, str]
    nvidia_smi: Callable[[Sequence[str]], tuple[str, int]] | None
    exit_code: int = 0
    _variables: dict[str, str] = field(default_factory=dict)

    def run(self) -> Iterator[bytes | float]:
        """Output as bytes and pauses in seconds, in order; ``exit_code`` holds after the end."""
        argv = list(self.argv)
        if len(argv) >= 3 and argv[0].rpartition("/")[2] in ("sh", "bash", "ash") and argv[1] in ("-c", "-ec"):
            yield from self._script(argv[2])
        elif not argv:
            yield from self._service("image's own command")
        else:
            yield from self._command(argv, known_only=False)

    def _script(self, script: str) -> Iterator[bytes | float]:
        parts = SEPARATOR.split(_mask_quotes(script, hide=True))
        operator = ";"
        for number, part in enumerate(parts):
            if number % 2:
                operator = part
                continue
            text = _mask_quotes(part, hide=False).strip()
            skipped = (operator == "&&" and self.exit_code) or (operator == "||" and not self.exit_code)
            if not text or skipped:
                continue
            words = [self._expand(word) for word in _words(text)]
            if words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0], re.DOTALL):
                name, _, value = words[0].partition("=")
                self._variables[name] = value
                continue
            if words[:1] == ["exit"]:
                self.exit_code = int(words[1]) & 255 if words[1:] and words[1].isdigit() else self.exit_code
                return
            ends = words[:1] == ["exec"]
            yield from self._command(words[1:] if ends else words, known_only=True)
            if ends:
                return

    def _command(self, argv: Sequence[str], *, known_only: bool) -> Iterator[bytes | float]:
        name, arguments = argv[0].rpartition("/")[2], list(argv[1:])
        self.exit_code = 0
        match name:
            case "echo":
                yield (" ".join(arguments) + "\n").encode()
            case "printf":
                yield "".join(arguments[:1]).replace("\\n", "\n").encode()
            case "sleep":
                yield _seconds(arguments[0]) if arguments else 0.0
            case "true" | ":":
                return
            case "false":
                self.exit_code = 1
            case "env" | "printenv":
                yield "".join(f"{key}={value}\n" for key, value in self.env.items()).encode()
            case "nvidia-smi" if self.nvidia_smi is not None:
                text, self.exit_code = self.nvidia_smi(arguments)
                yield text.encode()
            case "nvidia-smi":
                yield b"sh: nvidia-smi: not found\n"
                self.exit_code = NOT_FOUND
            case _ if known_only:
                yield f"sh: {name}: not found\n".encode()
                self.exit_code = NOT_FOUND
            case _:
                yield from self._service(shlex.join(argv))

    def _service(self, what: str) -> Iterator[bytes | float]:
        yield f"virtual process started: {what}\n".encode()
        yield FOREVER

    def _expand(self, word: str) -> str:
        def value(match: re.Match[str]) -> str:
            name = match[1] or match[2]
            if name == "?":
                return str(self.exit_code)
            return self._variables.get(name, self.env.get(name, ""))

        return re.sub(r"\$(?:\{(\w+)\}|(\w+|\?))", value, word)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _mask_quotes(text: str, *, hide: bool) -> str:
    """Separators inside quotes are hidden while the script is split, and put back after."""
    pairs = [(";", "\ue000"), ("&&", "\ue001"), ("||", "\ue002"), ("\n", "\ue003")]
    if not hide:
        for plain, mask in pairs:
            text = text.replace(mask, plain)
        return text

    def mask_all(match: re.Match[str]) -> str:
        quoted = match[0]
        for plain, mask in pairs:
            quoted = quoted.replace(plain, mask)
        return quoted

    return re.sub(r"'[^']*'|\"[^\"]*\"", mask_all, text)


def _seconds(text: str) -> float:
    try:
        return FOREVER if text in ("infinity", "inf") else max(0.0, float(text.rstrip("s")))
    except ValueError:
        return 0.0
