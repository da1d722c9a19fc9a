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
    """Part of a word. ``expands``: variables in it are replaced; unless ``quoted``, by fields."""

    text: str
    expands: bool
    quoted: bool = True


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


ValueOf = Callable[[str], str | None]


def is_assignment(word: Word) -> bool:
    """Whether the word is ``NAME=value``, with the name and the sign unquoted."""
    return not word[0].quoted and re.match(r"[A-Za-z_]\w*=", word[0].text) is not None


def joined(word: Word, value_of: ValueOf) -> str:
    """The word with its variables replaced, as one text."""
    return "".join(
        _VARIABLE.sub(lambda match: _value(match, value_of), piece.text) if piece.expands else piece.text
        for piece in word
    )


def fields(word: Word, value_of: ValueOf) -> list[str]:
    """The arguments that the word becomes: unquoted values are split at blanks, empty ones vanish."""
    whole: list[str] = []
    current: str | None = None
    for piece in word:
        if piece.quoted:
            current = (current or "") + joined([piece], value_of)
            continue
        at = 0
        for match in _VARIABLE.finditer(piece.text):
            current = _joined_on(current, piece.text[at : match.start()])
            at = match.end()
            value = _value(match, value_of)
            if value[:1].isspace() and current is not None:
                whole.append(current)
                current = None
            parts = value.split()
            for number, part in enumerate(parts):
                if number:
                    whole.append(current or "")
                    current = None
                current = (current or "") + part
            if parts and value[-1:].isspace():
                whole.append(current or "")
                current = None
        current = _joined_on(current, piece.text[at:])
    return whole if current is None else [*whole, current]


def _joined_on(current: str | None, literal: str) -> str | None:
    return (current or "") + literal if literal else current


def _value(match: re.Match[str], value_of: ValueOf) -> str:
    return value_of(match["braced"] or match["plain"]) or match["default"] or ""


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
                self._append(word, char, quoted=False)
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
                self._append(word, char, quoted=True)

    @staticmethod
    def _append(word: Word, char: str, *, quoted: bool) -> None:
        if word and word[-1].expands and word[-1].quoted == quoted:
            word[-1] = Piece(word[-1].text + char, True, quoted)
        else:
            word.append(Piece(char, True, quoted))

    def _until(self, quote: str) -> str:
        end = self.script.find(quote, self.at)
        if end < 0:
            raise ScriptNotUnderstood("an open quote")
        text = self.script[self.at : end]
        self.at = end + 1
        return text
