"""Draw scenes with Blender's Cycles: a script for another interpreter that has `bpy` and numpy, never imported.

The module `blender` runs the script, which imports nothing of tellapart (docs/decisions/0012). Each line of its input,
in JSON, names a folder with `job.json` and `arrays.npz`; the script writes `layers.npy` there and answers by a line.
Layers are float32 `(layers, size, size, 3)`: one picture of linear radiance, or masks. A pixel of a mask is the number
of the thing that it sees plus one, or 0. A job's `pieces` are the meshes of things, and of floor and wall (thing -1).
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any


def main() -> None:
    """Answer jobs until standard input ends."""
    # Blender prints to standard output: answers get a copy of it, and it is redirected to standard error.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    bpy = import_module("bpy")

    bpy.ops.preferences.addon_enable(module="cycles")
    print(json.dumps({"blender": bpy.app.version_string}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            _draw_job(bpy, Path(json.loads(line)["folder"]))
            answer: dict[str, Any] = {"done": True}
        except Exception:
            answer = {"error": traceback.format_exc(limit=4)}
        print(json.dumps(answer), file=answers, flush=True)


def _draw_job(bpy: ModuleType, folder: Path) -> None:
    """Build the scene of one job, render its layers and write them."""
    import numpy as np

    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    with np.load(folder / "arrays.npz", allow_pickle=False) as arrays:
        loaded = {name: arrays[name] for name in arrays.files}
    _clear_scene(bpy)
    _put_camera(bpy, job["camera"])
    masks = job["subsets"] is not None
    _make_world(bpy, None if masks else loaded["environment"])
    pieces = [(piece["thing"], _make_piece(bpy, piece, loaded, masks)) for piece in job["pieces"]]
    _set_cycles(bpy, job, masks)
    layers = []
    for subset in job["subsets"] if masks else [None]:  # a mask shows a subset of the things, a picture all of them
        for thing, part in pieces:
            part.hide_render = subset is not None and thing not in subset
        layers.append(_render_layer(bpy, np, folder / "layer.exr"))
    np.save(folder / "layers.npy", np.stack(layers))


def _clear_scene(bpy: ModuleType) -> None:
    """Remove everything that the previous job made."""
    for kind in ("objects", "meshes", "materials", "images", "cameras", "lights", "worlds"):
        blocks = getattr(bpy.data, kind)
        for block in list(blocks):
            blocks.remove(block)


def _put_camera(bpy: ModuleType, settings: dict[str, Any]) -> None:
    """Place a thin-lens camera; `field` is the angle of view in degrees, `lens` the radius of the opening."""
    vector = import_module("mathutils").Vector

    data = bpy.data.cameras.new("camera")
    data.sensor_fit, data.angle = "HORIZONTAL", settings["field"] * 3.141592653589793 / 180.0
    camera = bpy.data.objects.new("camera", data)
    aim = vector(settings["target"]) - vector(settings["position"])
    camera.location, camera.rotation_mode = settings["position"], "QUATERNION"
    camera.rotation_quaternion = aim.to_track_quat("-Z", "Y")
    if settings["lens"] > 0:
        data.dof.use_dof, data.dof.focus_distance = True, aim.length
        data.dof.aperture_fstop = data.lens * 1e-3 / (2.0 * settings["lens"])  # focal length, in mm, per diameter
    bpy.context.scene.collection.objects.link(camera)
    bpy.context.scene.camera = camera


def _make_image(bpy: ModuleType, pixels: Any) -> Any:
    """Make a linear float image of an array, whose first row is the lowest (v = 0)."""
    import numpy as np

    height, width = pixels.shape[:2]
    image = bpy.data.images.new("picture", width, height, alpha=False, float_buffer=True)
    image.colorspace_settings.name = "Non-Color"
    opaque = np.concatenate([pixels, np.ones((height, width, 1), dtype=np.float32)], axis=2)
    image.pixels.foreach_set(np.ascontiguousarray(opaque, dtype=np.float32).ravel())
    image.update()
    return image


def _make_world(bpy: ModuleType, environment: Any) -> None:
    """Surround the scene with an image of radiance, or with black."""
    world = bpy.data.worlds.new("world")
    bpy.context.scene.world = world
    world.use_nodes = True
    nodes, links = world.node_tree.nodes, world.node_tree.links
    nodes.clear()
    background, output = nodes.new("ShaderNodeBackground"), nodes.new("ShaderNodeOutputWorld")
    links.new(background.outputs[0], output.inputs[0])
    background.inputs["Color"].default_value = (0.0, 0.0, 0.0, 1.0)
    if environment is not None:
        sky = nodes.new("ShaderNodeTexEnvironment")
        sky.image = _make_image(bpy, environment)
        links.new(sky.outputs[0], background.inputs["Color"])


def _make_piece(bpy: ModuleType, piece: dict[str, Any], arrays: dict[str, Any], masks: bool) -> Any:
    """Make the object of one piece of the job, a mesh with its material, and return it."""
    import numpy as np

    vertices, faces = arrays[piece["mesh"] + ".vertices"], arrays[piece["mesh"] + ".faces"]
    mesh = bpy.data.meshes.new("part")
    mesh.from_pydata(vertices.tolist(), [], faces.tolist())
    layer = mesh.uv_layers.new(name="uv")
    corners = np.empty(len(mesh.loops), dtype=np.int32)
    mesh.loops.foreach_get("vertex_index", corners)
    layer.data.foreach_set("uv", arrays[piece["mesh"] + ".uv"][corners].ravel().astype(np.float32))
    mesh.polygons.foreach_set("use_smooth", np.ones(len(mesh.polygons), dtype=bool))
    mesh.normals_split_custom_set(arrays[piece["mesh"] + ".normals"][corners].tolist())
    mesh.materials.append(_make_emission(bpy, piece["thing"] + 1) if masks else _make_material(bpy, piece, arrays))
    part = bpy.data.objects.new("part", mesh)
    bpy.context.scene.collection.objects.link(part)
    return part


def _make_shader(bpy: ModuleType, kind: str) -> tuple[Any, Any]:
    """Return a material of one shader node, and the node."""
    material = bpy.data.materials.new("material")
    material.use_nodes = True
    tree = material.node_tree
    tree.nodes.clear()
    shader, output = tree.nodes.new(kind), tree.nodes.new("ShaderNodeOutputMaterial")
    tree.links.new(shader.outputs[0], output.inputs[0])
    return material, shader


def _make_emission(bpy: ModuleType, value: int) -> Any:
    """Return a material whose pixels have a value, whatever the light."""
    material, shader = _make_shader(bpy, "ShaderNodeEmission")
    shader.inputs["Color"].default_value, shader.inputs["Strength"].default_value = (1.0, 1.0, 1.0, 1.0), float(value)
    return material


def _make_material(bpy: ModuleType, piece: dict[str, Any], arrays: dict[str, Any]) -> Any:
    """Return the material of a piece: a principled shader if the piece has `terms`, else a diffuse one."""
    terms = piece["terms"]
    material, shader = _make_shader(bpy, "ShaderNodeBsdfPrincipled" if terms else "ShaderNodeBsdfDiffuse")
    base = shader.inputs["Base Color" if terms else "Color"]
    if piece["picture"] is None:
        base.default_value = (*piece["colour"], 1.0)
    else:
        nodes, links = material.node_tree.nodes, material.node_tree.links
        picture, coordinates, repeat = (
            nodes.new(f"ShaderNode{kind}") for kind in ("TexImage", "TexCoord", "VectorMath")
        )
        picture.image, repeat.operation = _make_image(bpy, arrays[piece["picture"]]), "MULTIPLY"
        repeat.inputs[1].default_value = (piece["repeat"], piece["repeat"], 1.0)
        links.new(coordinates.outputs["UV"], repeat.inputs[0])
        links.new(repeat.outputs[0], picture.inputs["Vector"])
        links.new(picture.outputs["Color"], base)
    names = {"roughness": "Roughness", "metallic": "Metallic", "specular": "Specular IOR Level",
             "clearcoat": "Coat Weight", "sheen": "Sheen Weight"}  # fmt: skip
    for term, value in terms.items():
        if term in names:
            shader.inputs[names[term]].default_value = value
    if "clearcoat_gloss" in terms:
        shader.inputs["Coat Roughness"].default_value = 0.3 * (1.0 - terms["clearcoat_gloss"])
    return material


def _set_cycles(bpy: ModuleType, job: dict[str, Any], masks: bool) -> None:
    """Set Cycles: one thread, a fixed seed, a box filter; masks take one ray through the middle of a pixel."""
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    scene.render.resolution_x = scene.render.resolution_y = job["size"]
    scene.render.resolution_percentage = 100
    scene.render.threads_mode, scene.render.threads = "FIXED", 1
    scene.render.image_settings.file_format = "OPEN_EXR"
    scene.render.image_settings.color_depth = "32"
    scene.render.image_settings.color_mode = "RGB"
    cycles = scene.cycles
    cycles.device, cycles.use_adaptive_sampling = "CPU", False
    cycles.samples, cycles.seed = (1, 0) if masks else (job["samples"], job["seed"] % 2**31)
    cycles.max_bounces = 0 if masks else job["depth"]
    cycles.pixel_filter_type, cycles.filter_width = ("BOX", 0.01) if masks else ("BOX", 1.0)
    cycles.use_denoising = not masks
    if not masks:
        cycles.denoiser = "OPENIMAGEDENOISE"


def _render_layer(bpy: ModuleType, np: ModuleType, path: Path) -> Any:
    """Render a layer to a file, and return its pixels, the uppermost row first."""
    scene = bpy.context.scene
    scene.render.filepath = str(path)
    bpy.ops.render.render(write_still=True)
    image = bpy.data.images.load(str(path))
    width, height = image.size
    values = np.empty(width * height * 4, dtype=np.float32)
    image.pixels.foreach_get(values)
    bpy.data.images.remove(image)
    return values.reshape(height, width, 4)[::-1, :, :3].copy()


if __name__ == "__main__":
    main()
