"""Programs for the original library, against a model: any call, by anybody, at any time."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from installed import C99, CPP, ROOT, Program

PAGE = 4096
LENGTHS = [1, 100, PAGE, 3 * PAGE, 16 * PAGE, 17 * PAGE + 1, 1 << 20, 5 << 20, 70 << 20]
AREAS = 6
STEPS = int(os.environ.get("SWINGDB_STEPS", 700))


@dataclass
class Held:
    """What an area of a process must contain."""

    token: int
    data: bytearray
    enabled: bool = False


@dataclass
class Party:
    """A process, and what it has, by the number of the area."""

    program: Program
    areas: dict[int, Held] = field(default_factory=dict)

    def own(self, token: int) -> Held | None:
        return next((held for held in self.areas.values() if held.token == token), None)


def checksum(data: bytes) -> int:
    total = 5381
    for byte in data:
        total = (total * 33 + byte) & 0xFFFFFFFF
    return total


class World:
    """All processes, told one thing after the other."""

    def __init__(self, start, rng, folder: Path):
        self.start, self.rng, self.folder = start, rng, folder
        self.parties = [Party(start()) for _ in range(3)]
        self.past: list[int] = []
        self.hooks = self.refused = 0

    def living(self) -> list[Held]:
        return [held for party in self.parties for held in party.areas.values()]

    def some_token(self) -> int:
        """Mostly one that exists; else one that did, or never can."""
        held = self.living()
        if held and self.rng.random() < 0.8:
            return self.rng.choice(held).token
        return self.rng.choice([*self.past[-9:], 0, -1, 4095, 4096, 1 << 20])

    def place(self, held: Held) -> tuple[int, int]:
        """A range of an area, often at its end or at the edge of a page."""
        size = len(held.data)
        offset = self.rng.randrange(size)
        if self.rng.random() < 0.5:
            offset = offset // PAGE * PAGE
        return offset, min(self.rng.choice([1, 7, 100, PAGE, 3 * PAGE + 5, 70_000]), size - offset)

    def tell(self, party: Party, *words) -> int:
        return int(party.program.tell(" ".join(map(str, words))))

    def enter(self, party: Party, number: int, token: int, data: bytearray) -> None:
        assert 1 <= token <= 4095
        assert token not in [held.token for held in self.living()], "tokens are unique"
        party.areas[number] = Held(token, data)

    def create(self, party: Party) -> None:
        free = [number for number in range(AREAS) if number not in party.areas]
        if free:
            length = self.rng.choice(LENGTHS)
            token = self.tell(party, "create", free[0], length)
            self.enter(party, free[0], token, bytearray(length))

    def hook(self, party: Party) -> None:
        free = [number for number in range(AREAS) if number not in party.areas]
        if not free:
            return
        wanted = self.some_token()
        origin = next((held for held in self.living() if held.token == wanted), None)
        token = self.tell(party, "hook", free[0], wanted)
        if origin is None or not origin.enabled:
            assert token == -1, f"{wanted} cannot be hooked"
            self.refused += 1
            return
        self.hooks += 1
        self.enter(party, free[0], token, bytearray(origin.data))

    def allow(self, party: Party, verb: str) -> None:
        token = self.some_token()
        held = party.own(token)
        assert self.tell(party, verb, token) == (0 if held else -1)
        if held:
            held.enabled = verb == "enable"

    def release(self, party: Party) -> None:
        token = self.some_token()
        held = party.own(token)
        assert self.tell(party, "release", token) == (0 if held else -1)
        if held:
            self.past.append(token)
            party.areas = {n: other for n, other in party.areas.items() if other is not held}

    def change(self, party: Party, verb: str) -> None:
        if not party.areas:
            return
        number, held = self.rng.choice(list(party.areas.items()))
        offset, size = self.place(held)
        if verb == "fill":
            byte = self.rng.randrange(256)
            assert self.tell(party, "fill", number, offset, size, byte) == 0
            held.data[offset : offset + size] = bytes([byte]) * size
        elif verb == "load":
            bytes_ = self.rng.randbytes(size)
            (self.folder / "given").write_bytes(bytes_)
            assert self.tell(party, "load", number, offset, size, self.folder / "given") == size
            held.data[offset : offset + size] = bytes_
        else:
            assert self.tell(party, "save", number, offset, size, self.folder / "got") == size
            assert (self.folder / "got").read_bytes() == held.data[offset : offset + size]

    def look(self, party: Party) -> None:
        for number, held in party.areas.items():
            offset, size = self.place(held)
            expected = checksum(held.data[offset : offset + size])
            assert self.tell(party, "sum", number, offset, size) == expected

    def end(self, party: Party) -> None:
        """A process ends in an orderly way, or not, and another takes its place."""
        if self.rng.random() < 0.5:
            assert party.program.end() == 0
        else:
            party.program.process.send_signal(signal.SIGKILL)
            party.program.process.wait()
            party.program.close()
        self.past += [held.token for held in party.areas.values()]
        party.program, party.areas = self.start(), {}

    def step(self) -> None:
        party = self.rng.choice(self.parties)
        steps = {
            self.create: 4, self.hook: 10, self.release: 4, self.look: 8,
            lambda p: self.allow(p, "enable"): 10, lambda p: self.allow(p, "disable"): 2,
            lambda p: self.change(p, "fill"): 14, lambda p: self.change(p, "load"): 6,
            lambda p: self.change(p, "save"): 4,
        }  # fmt: skip
        if self.rng.random() < 0.01:
            self.end(party)
        else:
            self.rng.choices(list(steps), list(steps.values()))[0](party)


@pytest.mark.parametrize("compiler", [C99, CPP], ids=["C", "C++"])
def test_any_order_does_what_the_model_does(build, env, rng, tmp_path, home, compiler):
    source = ROOT / "tests/capi/original.c"
    if compiler is CPP:
        source = tmp_path / "original.cpp"
        source.write_text((ROOT / "tests/capi/original.c").read_text())
    program = build(compiler, source, "swing-original", extra=["-D_GNU_SOURCE"])
    world = World(lambda: Program([program], env), rng, tmp_path)
    try:
        for _ in range(STEPS):
            world.step()
        for party in world.parties:
            world.look(party)
        assert min(world.hooks, world.refused) > STEPS / 150
        assert [party.program.end() for party in world.parties] == [0] * 3
    finally:
        for party in world.parties:
            party.program.process.kill()
            party.program.close()
    # Whoever ended in an orderly way has left nothing; of the killed others sweep.
    last = Program([program], env)
    assert int(last.tell("create 0 1")) > 0 and last.end() == 0
    assert not [name for name in os.listdir(home) if name.startswith("swing-token-")]
