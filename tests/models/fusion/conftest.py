"""A tiny checkpoint of each family in turn."""

import pytest

#: The first two are the fast tests' where the others are slow.
FAMILIES = ["blip", "lxmert", "vilt", "blip-2", "blip-2 with image tokens", "flava", "bridgetower", "visual_bert"]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def folder(family, tmp_path_factory):
    from tiny_fusion_encoders import MAKERS, save

    assert sorted(MAKERS) == sorted(FAMILIES)
    return save(tmp_path_factory.mktemp(family) / "model", MAKERS[family])
