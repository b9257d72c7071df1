"""Inputs of programs that no test has: those of tests, with words exchanged so that their form stays."""

import random
from collections.abc import Iterator, Sequence


def others_like(seen: Sequence[str], draw: random.Random, most: int) -> Iterator[tuple[int, str]]:
    """Yield inputs in the form of those given, none of them given itself, each with the number of its base.

    Words of a line change places, lines of equal length do, a whole number takes another value between those seen
    at its place, or all of a line do; the first line of several stays, since it tends to say how many follow.

    Example:
        >>> ((base, text),) = others_like(["2\\n3 1\\n"], random.Random(0), 1)
        >>> base, text.splitlines()[0], text == "2\\n3 1\\n"
        (0, '2', False)
    """
    known = {tuple(one.split()) for one in seen}
    for _ in range(most * 8):
        base = draw.randrange(len(seen))
        lines = [line.split() for line in seen[base].splitlines()]
        first = 1 if len(lines) > 1 else 0
        for _ in range(draw.randint(1, 3)):
            draw.choice((_words, _lines, _values, _line))(lines, first, seen, draw)
        words = tuple(word for line in lines for word in line)
        if words and words not in known:
            known.add(words)
            yield base, "".join(" ".join(line) + "\n" for line in lines)
            most -= 1
        if not most:
            return


def _words(lines: list[list[str]], first: int, seen: Sequence[str], draw: random.Random) -> None:
    """Let the words of a line change places."""
    del seen
    long = [words for words in lines[first:] if len(set(words)) > 1 and all(map(_is_whole, words))]
    if long:
        draw.shuffle(draw.choice(long))


def _lines(lines: list[list[str]], first: int, seen: Sequence[str], draw: random.Random) -> None:
    """Let two lines of as many words change places."""
    del seen
    pairs = [
        (i, j)
        for i in range(first, len(lines))
        for j in range(i + 1, min(len(lines), i + 50))
        if len(lines[i]) == len(lines[j]) and lines[i] != lines[j]
    ]
    if pairs:
        i, j = draw.choice(pairs)
        lines[i], lines[j] = lines[j], lines[i]


def _values(lines: list[list[str]], first: int, seen: Sequence[str], draw: random.Random) -> None:
    """Let a whole number take another value between those seen at its place, or in its line."""
    places = [(i, j) for i in range(first, len(lines)) for j, w in enumerate(lines[i]) if _is_whole(w)]
    if not places:
        return
    i, j = draw.choice(places)
    there = {int(w) for w in lines[i] if _is_whole(w)}
    for text in seen:
        words = [line.split() for line in text.splitlines()]
        if len(words) > i and len(words[i]) > j and _is_whole(words[i][j]):
            there.add(int(words[i][j]))
    lines[i][j] = str(draw.randint(min(there), max(there)))


def _line(lines: list[list[str]], first: int, seen: Sequence[str], draw: random.Random) -> None:
    """Let all whole numbers of a line take other values between its least and its greatest."""
    del seen
    long = [words for words in lines[first:] if len(words) > 1 and all(map(_is_whole, words))]
    if long:
        words = draw.choice(long)
        values = [int(word) for word in words]
        words[:] = [str(draw.randint(min(values), max(values))) for _ in words]


def _is_whole(word: str) -> bool:
    return word.lstrip("-").isdigit()
