"""Blender as the renderer: the same scene, drawn by Cycles in a process of another interpreter.

Blender's Python module `bpy` is GPL-3.0 and needs numpy before 2, so it is neither a dependency nor imported. The
user's environment variable `TELLAPART_BLENDER_PYTHON` names an interpreter that has it, which runs `blender_worker`. A
recipe or a scene file, which may come from a stranger, names no program.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tellapart.errors import DataError
from tellapart_render.meshes.materials import UNSEEN_WALLS, WALLS, Surface, floor_surface, surface
from tellapart_render.meshes.mesh import Mesh, yaw_matrix
from tellapart_render.meshes.objects import shape
from tellapart_render.renderers.renderer import Settings, develop, environment
from tellapart_render.scenes.scene import Scene, Thing, place_points

VARIABLE = "TELLAPART_BLENDER_PYTHON"
"""The environment variable that names the interpreter."""

_FIX = f"name a Python that has bpy (pip install bpy) in {VARIABLE}"
# The corners of a square of 60 units, and their texture coordinates.
_FLOOR = np.array([[-30, -30, 0], [30, -30, 0], [30, 30, 0], [-30, 30, 0]], dtype=np.float64)
_FLOOR_UV = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], dtype=np.float32)

_Arrays = dict[str, NDArray[Any]]  # what a job's `arrays.npz` holds, by name


class Blender:
    """Blender's Cycles in a worker process, started when it is first needed and ended with this one."""

    name = "blender"

    def __init__(self, python: str = "") -> None:
        self._python = python or os.environ.get(VARIABLE, "")
        self._process: subprocess.Popen[str] | None = None
        self._version = ""

    @property
    def versions(self) -> Mapping[str, str]:
        """Blender's version; starts the worker."""
        self._start_worker()
        return {"blender": self._version}

    def render(self, scene: Scene, settings: Settings) -> NDArray[np.uint8]:
        """Render a scene: sRGB uint8 `(size, size, 3)`, with the same film curve as Mitsuba's pictures."""
        return develop(self._draw_layers(scene, settings, None)[0])

    def masks(self, scene: Scene, size: int) -> tuple[NDArray[np.int16], list[int]]:
        """Return which thing each pixel sees, and how many pixels each would fill alone, as `Renderer.masks` does."""
        numbers = list(range(len(scene.things)))
        subsets = [numbers, *([number] for number in numbers)]  # all things, then each thing alone
        layers = self._draw_layers(scene, Settings(size=size), subsets)
        indices = np.rint(layers[..., 0]).astype(np.int16) - 1
        return indices[0], [int((layer >= 0).sum()) for layer in indices[1:]]

    def _start_worker(self) -> subprocess.Popen[str]:
        """Return the worker; start it unless it runs already."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        if not self._python:
            raise DataError(f"the renderer 'blender' needs a Python interpreter for Blender; {_FIX}")
        script = Path(__file__).with_name("blender_worker.py")
        try:
            # The user names the interpreter, as they name the one that runs this.
            process = subprocess.Popen(  # noqa: S603
                [self._python, "-I", str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        except OSError as missing:
            raise DataError(f"{self._python}: no such interpreter; {_FIX}") from missing
        self._process = process
        weakref.finalize(self, _end_worker, process)
        self._version = str(self._read_answer(process).get("blender"))
        return process

    def _read_answer(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """Read one answer."""
        line = _get_stream(process.stdout).readline()
        if not line:
            code = process.wait()
            raise DataError(f"{self._python}: Blender's worker ended with status {code}; {_FIX}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise DataError(f"{self._python}: Blender's worker failed: {answer['error'].strip()}")
        return answer

    def _draw_layers(self, scene: Scene, settings: Settings, subsets: list[list[int]] | None) -> NDArray[np.float32]:
        """Let the worker draw a mask of each of `subsets`, or a picture if None: float32 `(layers, size, size, 3)`."""
        process = self._start_worker()
        with tempfile.TemporaryDirectory(prefix="tellapart-blender-") as folder:
            arrays: _Arrays = {}
            pieces = [
                _place_part(arrays, thing, number, part)
                for number, thing in enumerate(scene.things)
                for part in range(len(shape(thing.shape).parts))
            ]
            if subsets is None:
                pieces += _make_surroundings(arrays, scene)
                # Blender's panorama starts a quarter turn further on, and its first row is the lowest.
                sky = environment(scene.light)
                arrays["environment"] = np.roll(sky, sky.shape[1] // 4, axis=1)[::-1]
            job = {
                "camera": {name: getattr(scene.camera, name) for name in ("position", "target", "field")}
                | {"lens": scene.camera.lens if subsets is None else 0.0},
                **asdict(settings),
                "subsets": subsets,
                "pieces": pieces,
            }
            (Path(folder) / "job.json").write_text(json.dumps(job), encoding="utf-8")
            np.savez(Path(folder) / "arrays.npz", **arrays)  # type: ignore[arg-type]
            commands = _get_stream(process.stdin)
            commands.write(json.dumps({"folder": folder}) + "\n")
            commands.flush()
            self._read_answer(process)
            layers: NDArray[np.float32] = np.load(Path(folder) / "layers.npy", allow_pickle=False)
        return layers


def _end_worker(process: subprocess.Popen[str]) -> None:
    """Let a worker end by closing its input: when its `Blender` is collected, or this process ends."""
    with contextlib.suppress(BrokenPipeError):
        _get_stream(process.stdin).close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _get_stream(process.stdout).close()


def _get_stream(stream: IO[str] | None) -> IO[str]:
    """Return a pipe of the worker; both were asked for."""
    assert stream is not None  # noqa: S101
    return stream


def _describe_surface(arrays: _Arrays, name: str, described: Surface, repeat: float = 1.0) -> dict[str, Any]:
    """Describe a surface in JSON types; add its picture to the arrays. `repeat` is as in Mitsuba's `_describe_bsdf`."""
    material: dict[str, Any] = {"terms": dict(described.terms), "repeat": repeat, "picture": None, "colour": None}
    if isinstance(described.colour, tuple):
        material["colour"] = described.colour
    else:
        material["picture"] = f"{name}.picture"
        arrays[material["picture"]] = described.colour
    return material


def _place_part(arrays: _Arrays, thing: Thing, number: int, part: int) -> dict[str, Any]:
    """Describe one part of a thing in JSON types; add its mesh, placed in the scene, to the arrays."""
    name, piece = f"{number}-{part}", shape(thing.shape).parts[part]
    arrays[f"{name}.vertices"] = place_points(piece.mesh.vertices, thing)
    arrays[f"{name}.normals"] = piece.mesh.normals @ yaw_matrix(thing.yaw)
    arrays[f"{name}.uv"], arrays[f"{name}.faces"] = piece.mesh.uv, _turn_outward(piece.mesh)
    material = _describe_surface(arrays, name, surface(thing.shape, piece.slot, thing.colour))
    return {"thing": number, "mesh": name, **material}


def _turn_outward(mesh: Mesh) -> NDArray[np.int64]:
    """Return triangles whose corners turn as their normals say: Cycles draws others black, Mitsuba draws both sides."""
    faces = mesh.faces.astype(np.int64)
    a, b, c = (mesh.vertices[faces[:, k]].astype(np.float64) for k in range(3))
    is_inward = (np.cross(b - a, c - a) * mesh.normals[faces].mean(axis=1)).sum(axis=1) < 0
    faces[is_inward] = faces[is_inward][:, ::-1]
    return faces


def _make_surroundings(arrays: _Arrays, scene: Scene) -> list[dict[str, Any]]:
    """Describe floor and wall, two squares that belong to no thing (-1); add their meshes to the arrays."""
    ground = scene.ground
    corners = {"floor": _FLOOR @ yaw_matrix(ground.yaw)}
    floor = _describe_surface(arrays, "floor", floor_surface(ground.floor, ground.variant), 60.0 / ground.tile)
    pieces = [{"thing": -1, "mesh": "floor", **floor}]
    normals = {"floor": (0.0, 0.0, 1.0), "wall": (0.0, -1.0, 0.0)}
    if ground.wall >= 0:
        corners["wall"] = _FLOOR[:, [0, 2, 1]] + np.array([0.0, ground.wall_distance, 0.0])
        wall = _describe_surface(arrays, "wall", Surface((*WALLS, *UNSEEN_WALLS)[ground.wall], {}))
        pieces.append({"thing": -1, "mesh": "wall", **wall})
    for name, points in corners.items():
        arrays[f"{name}.vertices"], arrays[f"{name}.uv"] = points, _FLOOR_UV
        arrays[f"{name}.normals"] = np.tile(np.array(normals[name]), (4, 1))
        arrays[f"{name}.faces"] = np.array([[0, 1, 2], [0, 2, 3]])
    return pieces
