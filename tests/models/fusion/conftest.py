"""A tiny checkpoint of each family in turn."""

import pytest

FAMILIES = ["vilt", "blip", "blip-2", "blip-2 with image tokens", "flava", "bridgetower", "lxmert", "visual_bert"]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def folder(family, tmp_path_factory):
    from tiny_fusion_encoders import MAKERS, save

    assert list(MAKERS) == FAMILIES
    return save(tmp_path_factory.mktemp(family) / "model", MAKERS[family])
