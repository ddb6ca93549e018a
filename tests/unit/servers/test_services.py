"""What is missing is said in one line, before anything starts."""

from pathlib import Path
from typing import Any, ClassVar

import pytest

from servers import Folder, Node, Service, Trouble, service
from servers.service import memory_available_megabytes


class Sleepers(Service):
    """A service whose nodes sleep, or end at once."""

    name: ClassVar = "sleepers"
    megabytes: ClassVar = {"single": 1, "three": 2**40}
    seconds_max: ClassVar = 0.2
    words: tuple[str, ...] = ("sleep", "60")
    serving: bool = True

    def plan(self) -> list[Node]:
        count = 1 if self.form == "single" else 3
        return [Node(f"sleeper-{number}", self.root / f"sleeper-{number}") for number in range(count)]

    def choose_ports(self) -> dict[str, dict[str, int]]:
        return {node.name: {} for node in self.nodes}

    def prepare(self, node: Node) -> None:
        node.data.mkdir(parents=True, exist_ok=True)

    def command(self, node: Node) -> tuple[str, ...]:
        assert node in self.nodes
        return self.words

    def answers(self, node: Node) -> bool:
        return self.serving and node.alive

    def endpoints(self) -> dict[str, Any]:
        return {"nodes": len(self.nodes)}


class Dying(Sleepers):
    """It says why, and ends."""

    words = ("sh", "-c", "echo no such luck; exit 1")
    serving = False


class Silent(Sleepers):
    """It runs and never answers."""

    serving = False


class Needy(Sleepers):
    """It needs a program that nobody has."""

    programs: ClassVar = ("java-of-tomorrow",)


def test_up_is_repeatable_and_down_unpublishes(tmp_path: Path) -> None:
    """The same process, the same endpoints; after `down` nothing is offered."""
    folder = Folder.at(tmp_path)
    one = Sleepers(folder, tied=True)
    assert one.up() == {"nodes": 1}
    first = one.nodes[0].process
    assert Sleepers(folder, tied=True).up() == {"nodes": 1}
    assert one.nodes[0].process == first
    assert folder.endpoints() == {"sleepers": {"nodes": 1}}
    assert one.down() == 1
    assert folder.endpoints() == {}


def test_a_wiped_node_comes_back_empty_and_a_restarted_one_does_not(tmp_path: Path) -> None:
    """`restart` keeps data, `wipe` loses it."""
    one = Sleepers(Folder.at(tmp_path), tied=True)
    one.up()
    kept = one.nodes[0].data / "kept"
    kept.touch()
    one.restart("sleeper-0")
    assert kept.exists()
    one.wipe("sleeper-0")
    assert not one.nodes[0].alive
    one.restart("sleeper-0")
    assert one.nodes[0].alive
    assert not kept.exists()
    one.down()


def test_a_death_while_starting_is_told_with_its_last_words(tmp_path: Path) -> None:
    """No waiting for a dead server."""
    with pytest.raises(Trouble, match=r"ended while starting.*no such luck"):
        Dying(Folder.at(tmp_path), tied=True).up()


def test_a_silent_server_is_given_up(tmp_path: Path) -> None:
    """The wait has an end, and says for whom it was."""
    silent = Silent(Folder.at(tmp_path), tied=True)
    with pytest.raises(Trouble, match=r"is not ready after 0\.2 s: sleeper-0"):
        silent.up()
    silent.down()


def test_missing_programs_and_memory_are_named(tmp_path: Path) -> None:
    """Nothing has been started then."""
    with pytest.raises(Trouble, match="needs java-of-tomorrow, which is not installed"):
        Needy(Folder.at(tmp_path / "a")).up()
    with pytest.raises(Trouble, match=r"needs \d+ MB of memory, \d+ MB are available"):
        Sleepers(Folder.at(tmp_path / "b"), "three").up()
    assert memory_available_megabytes() > 0


def test_a_folder_keeps_its_form(tmp_path: Path) -> None:
    """Three nodes do not become one behind the data's back."""
    one = Sleepers(Folder.at(tmp_path), tied=True)
    one.up()
    one.down()
    with pytest.raises(Trouble, match="holds the form single, not three"):
        Sleepers(Folder.at(tmp_path), "three")


def test_unknown_names_are_answered_with_the_known_ones(tmp_path: Path) -> None:
    """Of servers and of nodes."""
    with pytest.raises(Trouble, match="no server is called kafkaesque: kafka"):
        service("kafkaesque", Folder.at(tmp_path))
    with pytest.raises(Trouble, match="sleepers has no node x: sleeper-0"):
        Sleepers(Folder.at(tmp_path)).node("x")


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    """The line names the folder."""
    (tmp_path / "file").touch()
    with pytest.raises(Trouble, match="cannot make the folder"):
        Folder.at(tmp_path / "file" / "below")
