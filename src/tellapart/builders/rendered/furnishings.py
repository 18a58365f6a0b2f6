"""Models of things that are not tableware: textiles, boxes, appliances and toys, from rounded boxes and tubes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tellapart.builders.rendered.solids import (
    Mesh,
    extruded,
    place,
    revolve,
    rounded_box,
    rounded_profile,
    stretched,
    tube,
)
from tellapart.builders.rendered.tableware import Model, Part, Top

__all__ = ["FURNISHINGS"]

_QUARTER = float(np.pi / 2)


def _hat() -> Model:
    brim = [(0.2, 0.04), (0.38, 0.0), (0.49, 0.03), (0.5, 0.05), (0.48, 0.05), (0.38, 0.025), (0.26, 0.06)]
    crown = [(0.27, 0.03), (0.26, 0.12), (0.235, 0.3), (0.2, 0.37), (0.1, 0.355), (0, 0.33)]
    band = [(0.268, 0.055), (0.276, 0.06), (0.268, 0.125), (0.258, 0.13)]
    parts = []
    for slot, profile in (("main", brim), ("main", crown), ("band", band)):
        parts.append(Part(slot, stretched(revolve(rounded_profile(profile, 0.05)), (1.0, 0.86, 1.0))))
    return Model(tuple(parts), top=Top("flat", 0.37, 0.21))


def _towel() -> Model:
    layers = [(0.92, 0.66, 0.0, 0.0), (0.9, 0.64, 0.01, -0.008), (0.915, 0.65, -0.008, 0.006)]
    parts = []
    for level, (width, depth, x, y) in enumerate(layers):
        parts.append(Part("main", place(rounded_box((width, depth, 0.085), 0.04), (x, y, 0.075 * level))))
    return Model(tuple(parts), top=Top("flat", 0.235, 0.34))


def _gift_box() -> Model:
    parts = [
        Part("white", rounded_box((0.8, 0.8, 0.5), 0.015)),
        Part("white", place(rounded_box((0.86, 0.86, 0.16), 0.015), (0, 0, 0.44))),
    ]
    for yaw in (0.0, _QUARTER):
        parts.append(Part("ribbon", place(rounded_box((0.12, 0.812, 0.505), 0.004), yaw=yaw)))
        parts.append(Part("ribbon", place(rounded_box((0.12, 0.872, 0.17), 0.004), (0, 0, 0.436), yaw=yaw)))
    return Model(tuple(parts), top=Top("flat", 0.606, 0.42))


def _axle(profile: list[tuple[float, float]], offset: tuple[float, float, float], segments: int = 32) -> Mesh:
    """A solid of revolution lying on its side: its axis points to the viewer (-y)."""
    return place(revolve(profile, segments), offset, pitch=_QUARTER)


def _alarm_clock() -> Model:
    case = rounded_profile([(0, 0), (0.36, 0), (0.38, 0.03), (0.38, 0.26), (0.34, 0.28), (0.33, 0.25)], 0.03)
    face = [(0.33, 0.25), (0.0, 0.25)]
    bell = rounded_profile([(0.15, 0.0), (0.145, 0.05), (0.1, 0.11), (0.0, 0.14)], 0.04)
    parts = [Part("brass", _axle(case, (0, 0.14, 0.46))), Part("dial", _axle(face, (0, 0.14, 0.46)))]
    for sign in (-1.0, 1.0):
        dome = place(revolve(bell, 24), pitch=0.0)
        turned = _leaning(dome, sign * 0.6)
        parts.append(Part("brass", place(turned, (sign * 0.22, 0.0, 0.8))))
        leg = [(sign * 0.2, 0.0, 0.14), (sign * 0.25, 0.0, 0.07), (sign * 0.3, 0.0, 0.0)]
        parts.append(Part("brass", tube(leg, (0.035, 0.035), taper=0.7)))
    arch = [(float(0.1 * np.cos(t)), 0.0, float(0.9 + 0.12 * np.sin(t))) for t in np.linspace(0, np.pi, 11)]
    parts.append(Part("brass", tube(arch, (0.018, 0.03))))
    for angle, length in ((0.5, 0.2), (-1.15, 0.27)):
        tip = (float(length * np.sin(angle)), -0.115, float(0.46 + length * np.cos(angle)))
        parts.append(Part("black", tube([(0.0, -0.115, 0.46), tip], (0.014, 0.006), taper=0.5, segments=6)))
    return Model(tuple(parts))


def _leaning(mesh: Mesh, angle: float) -> Mesh:
    """Lean a mesh to the right by `angle` radians (about the y axis)."""
    turned = place(place(mesh, yaw=_QUARTER), pitch=angle)
    return place(turned, yaw=-_QUARTER)


def _laptop() -> Model:
    base = rounded_box((0.96, 0.66, 0.035), 0.015)
    lid = place(rounded_box((0.96, 0.03, 0.62), 0.012), (0, 0, 0), pitch=-0.3)
    screen = place(rounded_box((0.88, 0.01, 0.53), 0.004), (0, -0.016, 0.05), pitch=-0.3)
    return Model(
        (
            Part("black", base),
            Part("keys", place(rounded_box((0.84, 0.3, 0.006), 0.002), (0, 0.08, 0.033))),
            Part("dark", place(rounded_box((0.26, 0.16, 0.004), 0.001), (0, -0.2, 0.033))),
            Part("black", place(lid, (0, 0.33, 0.03))),
            Part("screen", place(screen, (0, 0.33, 0.03))),
        )
    )


def _toaster() -> Model:
    parts = [
        Part("steel", place(rounded_box((0.9, 0.5, 0.54), 0.11), (0, 0, 0.06))),
        Part("black", rounded_box((0.86, 0.48, 0.1), 0.03)),
        Part("black", place(rounded_box((0.07, 0.12, 0.05), 0.015), (0.47, 0, 0.4))),
        Part("dark", place(rounded_box((0.012, 0.03, 0.3), 0.004), (0.45, 0, 0.18))),
        Part("black", _axle(rounded_profile([(0, 0), (0.05, 0), (0.05, 0.05), (0, 0.05)], 0.01), (0.3, -0.24, 0.24))),
    ]
    slot = rounded_box((0.66, 0.075, 0.02), 0.008)
    parts += [Part("dark", place(slot, (0, y, 0.585))) for y in (-0.09, 0.09)]
    return Model(tuple(parts), top=Top("flat", 0.605, 0.25))


def _sofa() -> Model:
    parts = [
        Part("main", place(rounded_box((1.0, 0.46, 0.18), 0.04), (0, 0, 0.06))),
        Part("main", place(rounded_box((1.0, 0.14, 0.5), 0.06), (0, 0.2, 0.06))),
    ]
    for sign in (-1.0, 1.0):
        parts.append(Part("main", place(rounded_box((0.13, 0.48, 0.34), 0.06), (sign * 0.45, 0, 0.06))))
        parts.append(Part("main", place(rounded_box((0.38, 0.36, 0.11), 0.05), (sign * 0.193, -0.04, 0.22))))
        leg = rounded_box((0.05, 0.05, 0.08), 0.01)
        parts += [Part("wood", place(leg, (sign * 0.44, y, 0.0))) for y in (-0.18, 0.2)]
    return Model(tuple(parts))


def _refrigerator() -> Model:
    parts = [
        Part("main", place(rounded_box((0.5, 0.44, 0.95), 0.04), (0, 0.02, 0.05))),
        Part("dark", rounded_box((0.46, 0.42, 0.06), 0.01)),
        Part("main", place(rounded_box((0.5, 0.06, 0.6), 0.03), (0, -0.22, 0.06))),
        Part("main", place(rounded_box((0.5, 0.06, 0.32), 0.03), (0, -0.22, 0.675))),
    ]
    for low, high in ((0.4, 0.6), (0.72, 0.85)):
        path = [(0.18, -0.28, low), (0.18, -0.28, (low + high) / 2), (0.18, -0.28, high)]
        parts.append(Part("steel", tube(path, (0.018, 0.018))))
    return Model(tuple(parts), top=Top("flat", 1.0, 0.22))


def _school_bus() -> Model:
    body = [(-0.5, 0.0), (0.3, 0.0), (0.3, 0.36), (0.27, 0.4), (-0.47, 0.4), (-0.5, 0.36)]
    tyre = rounded_profile([(0, 0), (0.1, 0), (0.1, 0.07), (0, 0.07)], 0.02)
    hub = [(0.05, 0.072), (0.0, 0.076)]
    parts = [
        Part("main", place(extruded(body, 0.4), (0, 0, 0.08))),
        Part("main", place(rounded_box((0.24, 0.36, 0.2), 0.04), (0.38, 0, 0.08))),
        Part("black", place(rounded_box((0.82, 0.408, 0.025), 0.003), (-0.1, 0, 0.2))),
        Part("glass", place(rounded_box((0.012, 0.34, 0.13), 0.004), (0.302, 0, 0.3))),
        Part("black", place(rounded_box((0.04, 0.38, 0.05), 0.01), (0.5, 0, 0.08))),
        Part("black", place(rounded_box((0.04, 0.4, 0.05), 0.01), (-0.5, 0, 0.08))),
    ]
    window = rounded_box((0.105, 0.408, 0.12), 0.004)
    parts += [Part("glass", place(window, (float(x), 0, 0.31))) for x in np.linspace(-0.4, 0.18, 5)]
    for x in (-0.3, 0.36):
        for y in (-0.145, 0.215):
            parts.append(Part("black", _axle(tyre, (x, y, 0.1), 24)))
            parts.append(Part("steel", _axle(hub, (x, y, 0.1), 24)))
    return Model(tuple(parts), top=Top("flat", 0.48, 0.19))


def _keyboard() -> Model:
    return Model(
        (
            Part("black", rounded_box((1.0, 0.36, 0.04), 0.015)),
            Part("keys", place(rounded_box((0.95, 0.31, 0.014), 0.004), (0, 0, 0.036))),
        ),
        top=Top("flat", 0.05, 0.18),
    )


FURNISHINGS: dict[str, Callable[[], Model]] = {
    "hat": _hat,
    "stripe towel": _towel,
    "wash towel": _towel,
    "gift box": _gift_box,
    "alarm clock": _alarm_clock,
    "laptop": _laptop,
    "toaster": _toaster,
    "sofa": _sofa,
    "refrigerator": _refrigerator,
    "school bus": _school_bus,
    "keyboard": _keyboard,
}
