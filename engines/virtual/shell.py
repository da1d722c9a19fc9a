"""Reading a script of a very small shell: simple commands joined by ``;``, ``&&`` and ``||``. Pure.

Quotes, escapes, variables, comments and the redirections that only drop or join output are
read as a POSIX shell reads them. Anything else is refused as a whole, so that no half of a
script is played.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

BLANKS = " \t\r"
KEYWORDS = frozenset({"if", "while", "until", "for", "case", "function", "trap", "!", "{", "}", "wait", "eval", "."})

_REDIRECTION = re.compile(r"(?P<fd>[12&]?)>(?:&(?P<to>[12])|\s*(?P<null>/dev/null)(?![^\s;&|]))")
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+|[?])(?::-(?P<default>[^}$]*))?\}|(?P<plain>[A-Za-z_]\w*|[?$]|\d))")


class ScriptNotUnderstood(Exception):
    """The script needs a real shell."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a word. ``expands``: variables in it are replaced."""

    text: str
    expands: bool


Word = list[Piece]


@dataclass(slots=True)
class Command:
    """``joint`` is what stands before it: ``;`` (always), ``&&`` or ``||``."""

    joint: str = ";"
    words: list[Word] = field(default_factory=list)
    streams: dict[int, int | None] = field(default_factory=dict)
    """Where a stream (1, 2) goes instead; None: nowhere."""


def read_script(script: str) -> list[Command]:
    """The script's commands, in order.

    Raises:
        ScriptNotUnderstood: it has loops, pipes, substitutions, an open quote, ...
    """
    commands = list(_Reader(script).commands())
    for command in commands:
        first = command.words[0][0]
        if first.text in KEYWORDS and len(command.words[0]) == 1:
            raise ScriptNotUnderstood(first.text)
    return commands


def expand(word: Word, value_of: Callable[[str], str | None]) -> str:
    """The word as the command sees it; fields are not split."""

    def replaced(match: re.Match[str]) -> str:
        value = value_of(match["braced"] or match["plain"])
        return value if value else match["default"] or ""

    return "".join(_VARIABLE.sub(replaced, piece.text) if piece.expands else piece.text for piece in word)


class _Reader:
    def __init__(self, script: str) -> None:
        self.script = script
        self.at = 0

    def commands(self) -> Iterator[Command]:
        command = Command()
        while self.at < len(self.script):
            rest = self.script[self.at :]
            if rest[0] in BLANKS:
                self.at += 1
            elif rest.startswith("\\\n"):
                self.at += 2
            elif rest[0] == "#":
                self.at += (rest + "\n").index("\n")
            elif redirection := _REDIRECTION.match(rest):
                self.at += redirection.end()
                self._redirect(command, redirection)
            elif joint := re.match(r"&&|\|\||;(?!;)|\n", rest):
                self.at += joint.end()
                if command.words:
                    yield command
                elif joint[0] in ("&&", "||"):
                    raise ScriptNotUnderstood("nothing before " + joint[0])
                command = Command(";" if joint[0] == "\n" else joint[0])
            elif rest[0] in "&|<>();`":
                raise ScriptNotUnderstood(rest[0])
            else:
                command.words.append(self._word())
        if command.words:
            yield command
        elif command.joint != ";":
            raise ScriptNotUnderstood("nothing after " + command.joint)

    def _redirect(self, command: Command, found: re.Match[str]) -> None:
        for stream in (1, 2) if found["fd"] == "&" else (int(found["fd"] or 1),):
            to = None if found["null"] else int(found["to"])
            # `>/dev/null 2>&1`: the second goes where the first goes by then.
            command.streams[stream] = to if to is None else command.streams.get(to, to)

    def _word(self) -> Word:
        word: Word = []
        while self.at < len(self.script):
            char = self.script[self.at]
            if char in BLANKS + "\n;&|<>()":
                break
            self.at += 1
            if char == "'":
                word.append(Piece(self._until("'"), False))
            elif char == '"':
                word += self._double_quoted()
            elif char == "\\":
                word.append(Piece(self.script[self.at : self.at + 1], False))
                self.at += 1
            elif char == "`" or (char == "$" and self.script[self.at : self.at + 1] == "("):
                raise ScriptNotUnderstood("command substitution")
            else:
                self._append(word, char)
        return word

    def _double_quoted(self) -> Word:
        word: Word = [Piece("", True)]
        while True:
            char = self.script[self.at : self.at + 1]
            self.at += 1
            if char == '"':
                return word
            if not char:
                raise ScriptNotUnderstood("an open quote")
            if char == "\\" and self.script[self.at : self.at + 1] in ("$", "`", '"', "\\"):
                word.append(Piece(self.script[self.at], False))
                self.at += 1
            elif char == "`" or (char == "$" and self.script[self.at : self.at + 1] == "("):
                raise ScriptNotUnderstood("command substitution")
            else:
                self._append(word, char)

    @staticmethod
    def _append(word: Word, char: str) -> None:
        if word and word[-1].expands:
            word[-1] = Piece(word[-1].text + char, True)
        else:
            word.append(Piece(char, True))

    def _until(self, quote: str) -> str:
        end = self.script.find(quote, self.at)
        if end < 0:
            raise ScriptNotUnderstood("an open quote")
        text = self.script[self.at : end]
        self.at = end + 1
        return text
