"""Blender beside Mitsuba: the same scene, the same masks but for edges, the same pixels again; and clear refusals."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from facts import raises
from tellapart.errors import DataError
from tellapart_render.renderers.blender import VARIABLE, Blender
from tellapart_render.renderers.renderer import Settings
from tellapart_render.scenes.quadruple import Key, draw

SCENE = draw(Key("test", 4, "location", 1, vocabulary="figure-14")).scenes[0]
MADE = Path(__file__).parents[2] / "scratch" / "blender" / "bin" / "python"
BLENDER_SETTINGS = Settings(size=48, samples=4, depth=3, seed=5)


@pytest.fixture(scope="module")
def python():
    found = os.environ.get(VARIABLE) or (str(MADE) if MADE.exists() else "")
    if not found:
        pytest.skip(f"needs an interpreter that has bpy, in {VARIABLE}, or: python ci/parts.py blender")
    return found


@pytest.fixture(scope="module")
def blender(python):
    """Start the worker, and what the other renderer keeps for the process, before the first test."""
    if find_spec("mitsuba") and find_spec("pyoidn"):
        from tellapart_render.renderers.mitsuba import MITSUBA

        MITSUBA.masks(SCENE, 16)
    blender = Blender(python)
    blender.masks(SCENE, 16)
    return blender


@pytest.mark.slow
def test_both_renderers_see_the_same_things_in_the_same_places(blender):
    pytest.importorskip("mitsuba", reason="needs the render extra: mitsuba")
    from tellapart_render.renderers.mitsuba import MITSUBA

    (seen, alone), (there, lone) = blender.masks(SCENE, 64), MITSUBA.masks(SCENE, 64)
    assert seen.shape == there.shape
    assert (seen == there).mean() > 0.98
    np.testing.assert_allclose(alone, lone, rtol=0.1)


@pytest.mark.slow
def test_both_renderers_agree_on_light_and_colour(blender):
    pytest.importorskip("mitsuba", reason="needs the render extra: mitsuba")
    pytest.importorskip("pyoidn", reason="needs the render extra: pyoidn")
    from tellapart_render.renderers.mitsuba import MITSUBA

    ours, theirs = (each.render(SCENE, BLENDER_SETTINGS).astype(float) for each in (blender, MITSUBA))
    assert ours.shape == theirs.shape == (48, 48, 3)
    np.testing.assert_allclose(ours.mean(axis=(0, 1)), theirs.mean(axis=(0, 1)), atol=12)
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.9


@pytest.mark.slow
def test_the_same_scene_gives_the_same_pixels_also_in_another_process(blender, python):
    once = blender.render(SCENE, BLENDER_SETTINGS)
    blender.masks(SCENE, 16)
    np.testing.assert_array_equal(blender.render(SCENE, BLENDER_SETTINGS), once)
    np.testing.assert_array_equal(Blender(python).render(SCENE, BLENDER_SETTINGS), once)


@pytest.mark.slow
def test_a_job_that_fails_says_why_and_the_worker_goes_on(blender):
    with raises(DataError, "Blender", "Traceback"):
        blender.render(SCENE, Settings(size=16, samples="many"))
    assert blender.masks(SCENE, 16)[0].shape == (16, 16)
    assert set(blender.versions) == {"blender"}


def test_a_missing_interpreter_is_an_error_with_the_fix(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    with raises(DataError, "'blender'", "Python", "Blender", VARIABLE):
        Blender().masks(SCENE, 16)
    with raises(DataError, "/no/such", "Python"):
        Blender("/no/such").masks(SCENE, 16)
    without = tmp_path / "python"
    without.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    without.chmod(0o755)
    with raises(DataError, "Blender", "1", "Python"):
        Blender(str(without)).masks(SCENE, 16)
