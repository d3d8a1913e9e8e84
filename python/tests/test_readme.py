"""The front page, run as a reader would: its Python blocks one after another, its commands."""

import re
import shlex
from pathlib import Path

import pytest

import shardwise
from shardwise.cli import main

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_python_blocks_run(monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    first, second, third = blocks("python")
    # The planning of a launch asks the machines that are there; a test has none.
    monkeypatch.setattr(shardwise, "prelaunch", lambda *_, **__: Planned())
    names = {"torch": torch, "model": torch.nn.Conv2d(3, 8, 3)}
    for block in (first, second, third):
        exec(block, names)
    out = capsys.readouterr().out
    assert names["plan"].applied is names["model"]
    assert "fsdp" in out.lower() or "ddp" in out.lower()


class Planned:
    """Stands for the plan of a launch."""

    applied = None

    def apply(self, model):
        self.applied = model
        return model


def test_the_first_command_prints_a_plan(capsys):
    command, check = (shlex.split(block) for block in blocks("sh"))
    assert command[0] == "./shardwise"
    assert main(command[1:]) == 0
    assert "GiB" in capsys.readouterr().out
    assert check == ["./check"]
    for program in (command[0], *check):
        assert (ROOT / program).stat().st_mode & 0o111, f"{program} cannot be run"


def test_every_page_that_is_linked_exists():
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert len(links) > 10
    assert not [link for link in links if not (ROOT / link).exists()]


def test_every_command_that_is_named_exists(capsys):
    line = re.search(r"`shardwise ([a-z| -]+)`", README).group(1)
    for verb in [word.strip() for word in line.split("|")] + [
        "export",
        "check",
        "run",
        "calibrate",
    ]:
        with pytest.raises(SystemExit) as caught:
            main([verb, "--help"])
        assert caught.value.code == 0, verb
    capsys.readouterr()
