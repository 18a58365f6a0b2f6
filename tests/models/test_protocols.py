"""A caller's object meets the protocols of what it has, as a Python sees it that does not ask `__getattr__`."""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest

from tellapart.models import protocols
from tellapart.models.generative.answers import Chooser
from tellapart.models.generative.readings import Answerer
from tellapart.models.memory.adapter import MemoryModel, methods_of
from tellapart.models.memory.identity import Identity
from tellapart.tasks.boxes import BoxAnswerer

PROTOCOLS = [kind for kind in vars(protocols).values() if getattr(kind, "_is_runtime_protocol", False)]
IDENTITY = Identity("thing", "thing-1", "similarity")


def members_of(protocol: type) -> set[str]:
    """The methods and attributes that a protocol asks for."""
    parts = [vars(base) for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    return {
        name for names in parts for name in {**names, **names.get("__annotations__", {})} if not name.startswith("_")
    }


def hold(protocol: type, **more) -> MemoryModel:
    thing = SimpleNamespace(**{name: lambda *_: [] for name in members_of(protocol)}, **more)
    return MemoryModel(IDENTITY, methods_of(thing), [thing], wrapped=thing)


@pytest.mark.parametrize("protocol", [*PROTOCOLS, Answerer, BoxAnswerer, Chooser])
def test_an_object_in_memory_has_every_member_of_its_protocols(protocol):
    model = hold(protocol, reads_arrays=True)
    assert isinstance(model, protocol)
    for name in members_of(protocol):
        inspect.getattr_static(model, name)


def test_an_object_keeps_no_picture_that_it_prepared_and_further_methods_get_pictures():
    """What it prepared is packed here in an object that its methods do not know."""
    model = hold(protocols.KeptPreparer)
    assert isinstance(model, protocols.ImagePreparer) and not isinstance(model, protocols.KeptPreparer)
    asked = []
    thing = SimpleNamespace(choose=lambda images, captions: asked.extend(images[0]) or ["first"])
    pixels = np.zeros((4, 6, 3), np.uint8)
    assert MemoryModel(IDENTITY, {}, [thing], wrapped=thing).choose([(pixels, pixels)], [("a", "b")]) == ["first"]
    assert [picture.size for picture in asked] == [(6, 4)] * 2
