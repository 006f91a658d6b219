"""From the word behind `--subject` to the subject that plays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.subjects.base import Subject
from harness.subjects.described import Process, read_description
from harness.subjects.own import OwnKernels
from harness.subjects.remote import ProviderSubject, PythonSubject
from harness.subjects.target import parse_target

if TYPE_CHECKING:
    from oracles.pool import Pool

DEFAULT = OwnKernels.name


def check_subject(text: str) -> None:
    """Whether the word can be a subject at all, before anything is started. Raises UsageProblem."""
    from oracles.pins import load_pins

    pins = load_pins()
    if text != DEFAULT and text not in pins and text not in {pin.engine for pin in pins.values()}:
        parse_target(text)


def resolve(text: str, level: str, pool: Pool) -> Subject:
    """`reference`, an engine or a pin by name, else Python code. Raises UsageProblem when it is none of them."""
    from oracles.pins import load_pins, pins_for

    if text == DEFAULT:
        return OwnKernels()
    pins = load_pins()
    if text in pins:
        return ProviderSubject(pool.get(text))
    if text in {pin.engine for pin in pins.values()}:
        names = pins_for(text, level)
        if names:
            return ProviderSubject(pool.get(names[0]))
    target = parse_target(text)
    if target.described and target.file is not None and isinstance(read_description(target.file), Process):
        return ProviderSubject.start(target)
    return PythonSubject(target)
