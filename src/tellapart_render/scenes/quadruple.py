"""Draw quadruples: two captions that differ in one phrase, and two scenes that differ in the same way.

The captions of the aspect `order` have the same words in two orders: two objects change places, colours or numbers.

A caption names an object and a subject: the `object` is located relative to the `subject` ("the mug is behind the
bowl": object mug, subject bowl). A counting caption has an object only.

Everything is drawn from `numpy.random.default_rng([stream, seed, aspect, index, attempt])`, so a quadruple depends on
its `Key` alone, not on the order of work. The demo, training and tests have different streams, so their scenes differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tellapart_render.captions.grammar import (
    ASPECTS,
    COUNTS,
    GRADED,
    LOCATIONS,
    PLACES,
    SIZES,
    VERBS,
    Aspect,
    Noun,
    Relation,
    Vocabulary,
    count_caption,
    group_caption,
    relation_caption,
    vocabulary,
)
from tellapart_render.meshes.materials import PALETTE
from tellapart_render.meshes.objects import shape
from tellapart_render.scenes.scene import (
    FLAT,
    Scene,
    Thing,
    camera_for,
    can_carry,
    corners,
    draw_ground,
    draw_light,
    relate,
    scatter,
)

STREAMS: dict[str, int] = {"demo": 101, "train": 202, "test": 303}
Wording = Literal["minimal", "paper"]
HeldOut = Literal["yes", "no"]
Surroundings = Literal["camera", "light", "ground"]
Exchange = Literal["colours", "numbers", "places"]
T = TypeVar("T")
#: By object: each subject that it can swap colours with, and both in the swapped colours, the object first.
_ColourPairs = dict[Noun, list[tuple[Noun, Noun, Noun]]]

#: What two objects of order items exchange, in turn.
_EXCHANGES: tuple[Exchange, ...] = ("colours", "numbers", "places")

# The numbers of one object in the two scenes of an order item; at most six things are large enough in a picture.
_GROUP_SIZES = ((2, 3), (3, 2), (2, 4), (4, 2))

# The range of scales for a caption's size word; "" for a caption without a size.
_SIZE_RANGE = {"small": (0.66, 0.80), "large": (1.12, 1.34), "": (0.85, 1.10)}

# Categories that cannot be recognised from behind, so they are turned by 40 degrees at most.
_FRONTED = frozenset(
    {"alarm clock", "laptop", "sofa", "refrigerator", "toaster", "pressure cooker", "keyboard"}
    | {"bird", "backpack", "gameboy", "storage"}
)
# Categories that cannot be recognised end-on (a teapot is a ball), so they show a side, within 57 degrees.
_SIDED = frozenset(
    {"coffee mug", "porcelain teapot", "frypan", "milk frother"} | {"animal", "shoe", "footwear", "gaming mouse"}
)

#: Two categories of Figure 14 whose objects may be called by either name.
_SHOES = frozenset({"shoe", "footwear"})


@dataclass(frozen=True, slots=True)
class Key:
    """The numbers and choices that determine a quadruple.

    With `held_out="yes"` at least one pair of shape and colour is shown that training leaves out, with "no" none.
    Camera, light or ground, if listed in `unseen`, is drawn from a range that other scenes do not use; captions and
    things stay the same. What order items exchange takes turns; `exchange`, if not empty, lists it. `attempt` is raised
    when a drawn quadruple is rejected.
    """

    stream: str
    seed: int
    aspect: Aspect
    index: int
    attempt: int = 0
    wording: Wording = "minimal"
    held_out: HeldOut = "no"
    vocabulary: str = "demo"
    unseen: tuple[Surroundings, ...] = ()
    exchange: tuple[Exchange, ...] = ()

    @property
    def name(self) -> str:
        """The item id of this quadruple."""
        return f"{self.aspect}-{self.index:03d}"

    def generator(self) -> np.random.Generator:
        """Return the random generator that belongs to this key alone."""
        numbers = [STREAMS[self.stream], self.seed, (*ASPECTS, *GRADED).index(self.aspect), self.index, self.attempt]
        return np.random.default_rng(numbers)


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that a picture must show: the `relation` of thing 0 to thing 1 (or None), and the `count` of things.

    `slack` multiplies the area and the share of each thing that must be seen.
    """

    relation: Relation | None
    count: int
    slack: float = 1.0


@dataclass(frozen=True, slots=True)
class Quadruple:
    """Two scenes and their captions, with the facts and words that they were drawn from; caption k is true of scene k.

    `nouns[k]` are the objects of scene k in the order of its things (counting: one noun, that of all things). `sizes`
    are the size words of object and subject, `verb` and `place` further words of the captions.
    """

    key: Key
    change: str
    captions: tuple[str, str]
    scenes: tuple[Scene, Scene]
    facts: tuple[Fact, Fact]
    nouns: tuple[tuple[Noun, ...], tuple[Noun, ...]]
    sizes: tuple[str, str] = ("", "")
    verb: str = "are"
    place: str = ""


def filter_allowed(group: Iterable[Noun], key: Key, words: Vocabulary) -> tuple[Noun, ...]:
    """Return the nouns that the scenes may show: all, or those that training does not leave out."""
    return tuple(noun for noun in group if key.held_out == "yes" or not words.holds_out(noun))


def leading_nouns(group: tuple[Noun, ...], key: Key, words: Vocabulary) -> tuple[Noun, ...]:
    """Return the nouns that may be the caption's object: held-out ones if the key asks for them, else the others."""
    return tuple(noun for noun in group if words.holds_out(noun) == (key.held_out == "yes"))


def _agree_verb(verb: str, noun: Noun, wording: Wording) -> str:
    """Make the verb agree with a plural noun; the wording `paper` keeps `is`, as Figure 14 of EqBen does."""
    return "are" + verb[len("is") :] if noun.plural and wording == "minimal" else verb


def pick_noun(group: tuple[Noun, ...], rng: np.random.Generator) -> Noun:
    """Pick a category first, then one of its objects, so that large categories are not picked more often."""
    names = sorted({noun.category for noun in group})
    name = names[int(rng.integers(len(names)))]
    members = [noun for noun in group if noun.category == name]
    return members[int(rng.integers(len(members)))]


def draw_thing(noun: Noun, size: str, rng: np.random.Generator) -> Thing:
    """Draw the scale and the turn about the vertical of an object at the origin."""
    low, high = _SIZE_RANGE[size]
    turn = rng.uniform(-np.pi, np.pi)
    if noun.category in _FRONTED:
        turn = turn / 4.5  # 40 degrees to either side
    elif noun.category in _SIDED:
        turn = turn / 3.2 + (np.pi if turn > 0 else 0.0)  # 56 degrees from either side view
    yaw = (turn + np.pi) % (2 * np.pi) - np.pi
    scale = round(float(rng.uniform(low, high)), 4)
    return Thing(noun.shape, noun.colour, scale, (0.0, 0.0, 0.0), round(float(yaw), 4))


def make_scenes(
    first: tuple[Thing, ...], second: tuple[Thing, ...], rng: np.random.Generator, high: bool, key: Key
) -> tuple[Scene, Scene]:
    """Make two scenes of two groups of things, with the same camera, light and ground; `high` as in `camera_for`."""
    together = (*first, *second)
    camera = camera_for(together, rng, high=high, unseen="camera" in key.unseen)
    light = draw_light(rng, unseen="light" in key.unseen)
    shared = (camera, light, draw_ground(together, rng, unseen="ground" in key.unseen))
    return Scene(*shared, first), Scene(*shared, second)


def _pick_two(key: Key, rng: np.random.Generator) -> tuple[Noun, Noun]:
    """Pick object and subject of different categories; the object carries the held-out pair, if there is one."""
    words = vocabulary(key.vocabulary)
    pool = filter_allowed(words.located, key, words)
    chosen = pick_noun(leading_nouns(pool, key, words), rng)
    return chosen, pick_noun(tuple(noun for noun in pool if noun.category != chosen.category), rng)


def _possible_relations(thing: Thing, subject: Thing) -> tuple[Relation, ...]:
    """Return the relations that can be built: `top` only if the subject can carry the thing."""
    return (*FLAT, "top") if can_carry(subject, thing) else FLAT


def pick_one(options: tuple[T, ...], rng: np.random.Generator) -> T:
    """Pick one, all equally likely."""
    return options[int(rng.integers(len(options)))]


def rivals(noun: Noun, pool: tuple[Noun, ...]) -> tuple[Noun, ...]:
    """Return the nouns of the same category such that neither object may be called by the other's name."""
    category = (other for other in pool if other.category == noun.category)
    return tuple(other for other in category if not other.implies(noun) and not noun.implies(other))


def _change_attribute(key: Key, rng: np.random.Generator) -> Quadruple:
    """Swap the object for another one of its category: a change of colour, of kind, or of both."""
    words = vocabulary(key.vocabulary)
    pool = filter_allowed((noun for group in words.categories.values() for noun in group), key, words)
    one = pick_noun(leading_nouns(pool, key, words), rng)
    others = rivals(one, pool)
    same_shape = tuple(noun for noun in others if noun.shape == one.shape)
    other = pick_one(same_shape if same_shape and rng.random() < 0.75 else others, rng)
    if rng.random() < 0.5:
        one, other = other, one
    subjects = tuple(noun for noun in filter_allowed(words.objects, key, words) if noun.category != one.category)
    subject_noun = pick_noun(subjects, rng)
    sizes = (pick_one(SIZES, rng), pick_one(SIZES, rng))
    thing, subject = draw_thing(one, sizes[0], rng), draw_thing(subject_noun, sizes[1], rng)
    swapped = replace(thing, shape=other.shape, colour=other.colour)
    both = _possible_relations(swapped, subject)
    relation = pick_one(tuple(relation for relation in _possible_relations(thing, subject) if relation in both), rng)
    # The distance fits the wider of the two shapes, so that both can stand on the same spot.
    widest = max((thing, swapped), key=lambda candidate: shape(candidate.shape).reach)
    position = relate(widest, relation, subject, rng).position
    verb, location = pick_one(VERBS, rng), pick_one(LOCATIONS[relation], rng)
    subject_phrase = f"{sizes[1]} {subject_noun.phrase()}"
    captions = tuple(
        relation_caption(f"{sizes[0]} {noun.phrase()}", _agree_verb(verb, noun, key.wording), location, subject_phrase)
        for noun in (one, other)
    )
    change = "colour"
    if one.shape != other.shape:
        change = "kind" if one.colour == other.colour else "colour and kind"
    first, second = (replace(drawn, position=position) for drawn in (thing, swapped))
    high = relation in ("front", "behind")
    return Quadruple(
        key=key,
        change=change,
        captions=(captions[0], captions[1]),
        scenes=make_scenes((first, subject), (second, subject), rng, high=high, key=key),
        facts=(Fact(relation, 2), Fact(relation, 2)),
        nouns=((one, subject_noun), (other, subject_noun)),
        sizes=sizes,
        verb=verb,
        place=location,
    )


def _change_location(key: Key, rng: np.random.Generator) -> Quadruple:
    """Move the object to another place: left or right of the subject, in front, behind or on top of it."""
    noun, subject_noun = _pick_two(key, rng)
    thing, subject = draw_thing(noun, "", rng), draw_thing(subject_noun, "", rng)
    options = list(_possible_relations(thing, subject))
    # "top" is possible for few pairs; if it is, take it half of the time.
    if "top" in options and rng.random() < 0.5:
        options.remove("top")
        relations = ["top", options[int(rng.integers(len(options)))]]
        rng.shuffle(relations)
    else:
        relations = [options[int(k)] for k in rng.permutation(len(options))[:2]]
    first, second = relations[0], relations[1]
    verbs = (pick_one(VERBS, rng),) * 2
    if key.wording == "paper":
        verbs = (verbs[0], pick_one(VERBS, rng))
    words = tuple(pick_one(LOCATIONS[relation], rng) for relation in (first, second))
    captions = tuple(
        relation_caption(noun.phrase(), _agree_verb(verb, noun, key.wording), location, subject_noun.phrase())
        for verb, location in zip(verbs, words, strict=True)
    )
    places = [relate(thing, relation, subject, rng) for relation in (first, second)]
    high = bool({"front", "behind"} & {first, second})
    return Quadruple(
        key=key,
        change="/".join(sorted((first, second))),
        captions=(captions[0], captions[1]),
        scenes=make_scenes((places[0], subject), (places[1], subject), rng, high=high, key=key),
        facts=(Fact(first, 2), Fact(second, 2)),
        nouns=((noun, subject_noun), (noun, subject_noun)),
        verb=verbs[0],
        place="/".join(words),
    )


def _change_count(key: Key, rng: np.random.Generator) -> Quadruple:
    """Change the number of equal objects."""
    words = vocabulary(key.vocabulary)
    pool = filter_allowed((n for n in words.objects if not n.plural), key, words)
    noun = pick_noun(leading_nouns(pool, key, words), rng)
    counts = COUNTS if key.wording == "paper" else COUNTS[1:]
    count, other = (counts[int(k)] for k in rng.permutation(len(counts))[:2])
    pattern = draw_thing(noun, "", rng)
    spots = scatter(max(count, other), pattern.size, shape(pattern.shape).reach, rng)
    things = tuple(replace(pattern, position=spot, yaw=draw_thing(noun, "", rng).yaw) for spot in spots)
    place, existential = pick_one(PLACES, rng), bool(rng.random() < 0.5)
    return Quadruple(
        key=key,
        change="/".join(str(n) for n in sorted((count, other))),
        captions=(
            count_caption(count, noun, place, existential=existential),
            count_caption(other, noun, place, existential=existential),
        ),
        scenes=make_scenes(things[:count], things[:other], rng, high=True, key=key),
        facts=(Fact(None, count), Fact(None, other)),
        nouns=((noun,), (noun,)),
        place=place,
    )


def _change_order(key: Key, rng: np.random.Generator) -> Quadruple:
    """Let two objects change places, colours or numbers: by the item's number, so that all are balanced."""
    pairs = _list_colour_pairs(key)
    turns = key.exchange or _EXCHANGES
    match turns[key.index % len(turns)]:
        case "colours" if pairs:
            return _exchange_colours(key, pairs, rng)
        case "numbers":
            return _exchange_counts(key, rng)
        case _:
            return _exchange_places(key, rng)


def _exchange_places(key: Key, rng: np.random.Generator) -> Quadruple:
    """Swap the places of object and subject."""
    noun, other = _pick_two(key, rng)
    thing, subject = draw_thing(noun, "", rng), draw_thing(other, "", rng)
    relation = pick_one(FLAT, rng)
    placed = relate(thing, relation, subject, rng)
    swapped = (replace(subject, position=placed.position), replace(thing, position=subject.position))
    scenes = make_scenes((placed, subject), swapped, rng, high=relation in ("front", "behind"), key=key)
    return _relate_twice(key, "places", ((noun, other), (other, noun)), relation, scenes, rng)


def _exchange_colours(key: Key, pairs: _ColourPairs, rng: np.random.Generator) -> Quadruple:
    """Swap the colours of object and subject, which stay where they are."""
    words = vocabulary(key.vocabulary)
    noun = pick_noun(leading_nouns(tuple(pairs), key, words), rng)
    other = pick_noun(tuple(subject for subject, _, _ in pairs[noun]), rng)
    crossed = next((a, b) for subject, a, b in pairs[noun] if subject == other)
    thing, subject = draw_thing(noun, "", rng), draw_thing(other, "", rng)
    relation = pick_one(FLAT, rng)
    first = (relate(thing, relation, subject, rng), subject)
    second = (replace(first[0], colour=crossed[0].colour), replace(subject, colour=crossed[1].colour))
    sides = [((noun, other), first), (crossed, second)]
    if rng.random() < 0.5:
        sides.reverse()
    scenes = make_scenes(sides[0][1], sides[1][1], rng, high=relation in ("front", "behind"), key=key)
    return _relate_twice(key, "colours", (sides[0][0], sides[1][0]), relation, scenes, rng)


def _list_colour_pairs(key: Key) -> _ColourPairs:
    """Return the pairs of a vocabulary's objects that can swap colours: both exist in both colours."""
    words = vocabulary(key.vocabulary)
    pool = filter_allowed(words.objects, key, words)
    # The objects whose phrase begins with their colour, by phrase.
    coloured = {noun.phrase(): noun for noun in pool if noun.colour and noun.attribute.split()[:1] == [noun.colour]}

    def recolour(noun: Noun, colour: str) -> Noun | None:
        return coloured.get(noun.phrase().replace(noun.colour, colour, 1))

    pairs: _ColourPairs = {}
    for noun in coloured.values():
        for other in coloured.values():
            recoloured, recoloured_other = recolour(noun, other.colour), recolour(other, noun.colour)
            differ = noun.category != other.category and noun.colour != other.colour
            if differ and recoloured and recoloured_other:
                pairs.setdefault(noun, []).append((other, recoloured, recoloured_other))
    return pairs


def _relate_twice(
    key: Key,
    change: str,
    nouns: tuple[tuple[Noun, Noun], tuple[Noun, Noun]],
    relation: Relation,
    scenes: tuple[Scene, Scene],
    rng: np.random.Generator,
) -> Quadruple:
    """Make the quadruple of two pairs of objects in the same relation, with captions in the same words."""
    verb, place = pick_one(VERBS, rng), pick_one(LOCATIONS[relation], rng)
    first, second = (relation_caption(a.phrase(), verb, place, b.phrase()) for a, b in nouns)
    facts = (Fact(relation, 2), Fact(relation, 2))
    return Quadruple(key, change, (first, second), scenes, facts, nouns, verb=verb, place=place)


def _exchange_counts(key: Key, rng: np.random.Generator) -> Quadruple:
    """Swap the numbers of two groups: surplus things of the larger group become the other object in the same place."""
    words = vocabulary(key.vocabulary)
    pool = filter_allowed((n for n in words.objects if not n.plural), key, words)
    one = pick_noun(leading_nouns(pool, key, words), rng)
    other = pick_noun(tuple(noun for noun in pool if noun.category != one.category), rng)
    patterns = [draw_thing(noun, "", rng) for noun in (one, other)]
    numbers = pick_one(_GROUP_SIZES, rng)
    widest = max(patterns, key=lambda thing: shape(thing.shape).reach * thing.size)
    spots = scatter(sum(numbers), widest.size, shape(widest.shape).reach, rng)
    # Both objects on all spots; a scene shows the one on its first spots and the other on the rest.
    ones, others = (
        [replace(pattern, position=spot, yaw=draw_thing(noun, "", rng).yaw) for spot in spots]
        for pattern, noun in zip(patterns, (one, other), strict=True)
    )
    first, second = ((*ones[:count], *others[count:]) for count in numbers)
    place, existential = pick_one(PLACES, rng), bool(rng.random() < 0.5)
    counts = [(count, sum(numbers) - count) for count in numbers]
    captions = [group_caption(((a, one), (b, other)), place, existential=existential) for a, b in counts]
    nouns = [(one,) * a + (other,) * b for a, b in counts]
    return Quadruple(
        key=key,
        change="numbers",
        captions=(captions[0], captions[1]),
        scenes=make_scenes(first, second, rng, high=True, key=key),
        facts=(Fact(None, sum(numbers)), Fact(None, sum(numbers))),
        nouns=(nouns[0], nouns[1]),
        place=place,
    )


def draw(key: Key) -> Quadruple:
    """Draw the quadruple that belongs to a key; the same key always gives the same quadruple."""
    makers = {"attribute": _change_attribute, "counting": _change_count}
    makers |= {"location": _change_location, "order": _change_order}
    return makers[key.aspect](key, key.generator())


# Graded aspects: quadruples that differ by a small or large step, or show a change of colour better or worse.
#
# An item's tag `level` is not the step, but a measure of the scenes, the masks or the pictures. With small steps a
# caption is true by comparison alone: it fits its picture better than the other picture.

#: Linear sRGB to CIE XYZ under D65.
_XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))


def to_lab(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Convert sRGB uint8 `(n, 3)` to CIE L*a*b* under D65, float64 `(n, 3)`."""
    srgb = pixels / 255.0
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    xyz = linear @ (np.array(_XYZ) / np.sum(_XYZ, axis=1, keepdims=True)).T
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz * (29 / 6) ** 2 / 3 + 4 / 29)  # CIE's f(t)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


def ciede2000(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the difference of two colours in L*a*b*, with all weights 1.

    Source: Sharma, Wu and Dalal (2005), *Color Research & Application* 30, 21-30.

    >>> round(ciede2000(np.array([50, 2.6772, -79.7751]), np.array([50, 0, -82.7485])), 4)
    2.0425
    """
    light, a, b = np.array([one, other], np.float64).T
    raw_chroma = np.hypot(a, b).mean()
    a = a * (1.5 - 0.5 * np.sqrt(raw_chroma**7 / (raw_chroma**7 + 25.0**7)))
    chroma, hue = np.hypot(a, b), np.degrees(np.arctan2(b, a)) % 360
    is_grey = chroma.min() == 0  # a grey has no hue: the formula adds both hues, one of which is 0
    turn = 0.0 if is_grey else (hue[1] - hue[0] + 180) % 360 - 180
    mean_hue = hue.sum() if is_grey else (hue[0] + turn / 2) % 360
    delta_hue = 2 * np.sqrt(chroma.prod()) * np.sin(np.radians(turn / 2))
    mean_light, mean_chroma = light.mean(), chroma.mean()
    cosines = np.cos(np.radians([mean_hue - 30, 2 * mean_hue, 3 * mean_hue + 6, 4 * mean_hue - 63]))
    weight = 1 + np.array([-0.17, 0.24, 0.32, -0.20]) @ cosines
    by_light = (light[1] - light[0]) / (1 + 0.015 * (mean_light - 50) ** 2 / np.sqrt(20 + (mean_light - 50) ** 2))
    by_chroma = (chroma[1] - chroma[0]) / (1 + 0.045 * mean_chroma)
    by_hue = delta_hue / (1 + 0.015 * mean_chroma * weight)
    angle = np.radians(60 * np.exp(-(((mean_hue - 275) / 25) ** 2)))
    rotation = -2 * np.sqrt(mean_chroma**7 / (mean_chroma**7 + 25.0**7)) * np.sin(angle)
    return float(np.sqrt(by_light**2 + by_chroma**2 + by_hue**2 + rotation * by_chroma * by_hue))


_SIDES: tuple[Relation, Relation] = ("left", "right")


class View(NamedTuple):
    """A picture of a scene, sRGB uint8 `(size, size, 3)`, and the scene's `Renderer.masks`."""

    pixels: NDArray[np.uint8]
    visible: NDArray[np.int16]
    alone: list[int]


@dataclass(frozen=True, slots=True)
class Graded:
    """A graded aspect: the unit of its level, its smallest and largest step, and how it is drawn and measured."""

    unit: str
    steps: tuple[float, float]
    draw: Callable[[Key, float, np.random.Generator], Quadruple]
    measure: Callable[[Sequence[Scene], Sequence[View]], float]


def draw_level(key: Key) -> Quadruple:
    """Draw the quadruple of a graded aspect that belongs to a key; its step depends on the item's number alone."""
    least, largest = LEVELS[key.aspect].steps
    # Multiples of the golden ratio, modulo 1, spread evenly, however many items there are; here on a logarithmic scale.
    step = least * (largest / least) ** ((0.5 + key.index * 0.6180339887498949) % 1.0)
    return LEVELS[key.aspect].draw(key, step, key.generator())


def measure_level(aspect: Aspect, scenes: Sequence[Scene], views: Sequence[View]) -> float:
    """Measure an item in its aspect's unit, to four digits."""
    return float(f"{LEVELS[aspect].measure(scenes, views):.4g}")


def _pick_three(key: Key, rng: np.random.Generator) -> tuple[Noun, Noun, Noun]:
    """Pick an object, the same object in another paint (its double), and a subject of another category."""
    words = vocabulary(key.vocabulary)
    pool = filter_allowed(words.objects, key, words)
    # Towels have textures, which cannot be mixed.
    painted = tuple(noun for noun in pool if noun.colour in PALETTE and "towel" not in noun.shape)

    def doubles_of(noun: Noun) -> tuple[Noun, ...]:
        others = (other for other in painted if other != noun)
        return tuple(other for other in others if other.phrase() == noun.phrase().replace(noun.colour, other.colour, 1))

    noun = pick_noun(leading_nouns(tuple(noun for noun in painted if doubles_of(noun)), key, words), rng)
    subject = pick_noun(tuple(other for other in pool if other.category != noun.category), rng)
    return noun, pick_one(doubles_of(noun), rng), subject


def _finish(
    key: Key,
    captions: Sequence[str],
    things: Iterable[tuple[Thing, ...]],
    rng: np.random.Generator,
    relation: Relation | None = None,
    *,
    slack: float = 1.0,
    high: bool = False,
) -> Quadruple:
    """Make the quadruple of two captions and their things; a coin decides which side comes first."""
    sides = list(zip(captions, things, strict=True))
    if rng.random() < 0.5:
        sides.reverse()
    (caption, first), (other, second) = sides
    facts = (Fact(relation, len(first), slack), Fact(relation, len(second), slack))
    scenes = make_scenes(first, second, rng, high=high, key=key)
    return Quadruple(key, key.aspect, (caption, other), scenes, facts, ((), ()))


def _say(phrases: Iterable[tuple[str, str]], relation: Relation, rng: np.random.Generator) -> list[str]:
    """Fill a relation's template with two pairs of phrases, in the same words."""
    verb, location = pick_one(VERBS, rng), pick_one(LOCATIONS[relation], rng)
    return [relation_caption(a, verb, location, b) for a, b in phrases]


def _say_counts(numbers: Iterable[tuple[int, Noun]], rng: np.random.Generator) -> list[str]:
    """Fill a counting template with each number of things, in the same words."""
    place, existential = pick_one(PLACES, rng), bool(rng.random() < 0.5)
    return [count_caption(count, noun, place, existential=existential) for count, noun in numbers]


def _scatter(nouns: Sequence[Noun], rng: np.random.Generator) -> tuple[Thing, ...]:
    """Put things on the ground so that they keep clear of one another; equal objects have the same size."""
    patterns = {noun: draw_thing(noun, "", rng) for noun in nouns}
    widest = max(shape(pattern.shape).reach * pattern.size for pattern in patterns.values())
    spots = zip(nouns, scatter(len(nouns), 1.0, widest, rng), strict=True)
    return tuple(replace(patterns[noun], position=spot, yaw=draw_thing(noun, "", rng).yaw) for noun, spot in spots)


def _draw_count(key: Key, step: float, rng: np.random.Generator) -> Quadruple:
    """Add equal objects: the whole part of the step."""
    words = vocabulary(key.vocabulary)
    pool = filter_allowed((noun for noun in words.objects if not noun.plural), key, words)
    noun = pick_noun(leading_nouns(pool, key, words), rng)
    fewer = int(rng.integers(1, COUNTS[-1] - int(step) + 1))
    things = _scatter([noun] * (fewer + int(step)), rng)
    captions = _say_counts([(fewer, noun), (len(things), noun)], rng)
    return _finish(key, captions, (things[:fewer], things), rng, high=True)


def _draw_colour(key: Key, step: float, rng: np.random.Generator) -> Quadruple:
    """Paint the object in mixtures of two paints, whose shares differ by the step between the pictures."""
    noun, double, third = _pick_three(key, rng)
    subject, relation = draw_thing(third, "", rng), pick_one(FLAT, rng)
    thing = relate(draw_thing(noun, "", rng), relation, subject, rng)
    paints = (f"{noun.colour} {0.5 + sign * step / 2:.4f} {double.colour}" for sign in (-1, 1))
    captions = _say([(noun.phrase(), third.phrase()), (double.phrase(), third.phrase())], relation, rng)
    things = ((replace(thing, colour=paint), subject) for paint in paints)
    return _finish(key, captions, things, rng, relation, high=relation in ("front", "behind"))


def _draw_size(key: Key, step: float, rng: np.random.Generator) -> Quadruple:
    """Make the object larger than its double in one picture and smaller in the other, by the step as a ratio."""
    noun, other, _ = _pick_three(key, rng)
    thing = draw_thing(noun, "", rng)
    large, small = (round(thing.size * step**power, 4) for power in (0.5, -0.5))
    double = replace(thing, colour=other.colour, yaw=draw_thing(other, "", rng).yaw, size=large)
    relation = pick_one(_SIDES, rng)
    placed = relate(replace(thing, size=large), relation, double, rng)
    words = (("large", "small"), ("small", "large"))
    captions = _say([(f"{a} {noun.phrase()}", f"{b} {other.phrase()}") for a, b in words], relation, rng)
    sizes = ((large, small), (small, large))
    return _finish(key, captions, ((replace(placed, size=a), replace(double, size=b)) for a, b in sizes), rng, relation)


def _draw_distance(key: Key, step: float, rng: np.random.Generator) -> Quadruple:
    """Put the object close to the subject, and farther away by the step as a ratio."""
    noun, _, third = _pick_three(key, rng)
    subject = draw_thing(third, "", rng)
    near = relate(draw_thing(noun, "", rng), pick_one(_SIDES, rng), subject, rng)
    far = replace(near, position=(round(near.position[0] * step, 4), round(near.position[1] * step, 4), 0.0))
    captions = [relation_caption(noun.phrase(), "is", words, third.phrase()) for words in ("near", "far from")]
    return _finish(key, captions, ((near, subject), (far, subject)), rng)


def _draw_angle(key: Key, step: float, rng: np.random.Generator) -> Quadruple:
    """Put the object left and right of straight in front of the subject, by half of the step in degrees."""
    noun, _, third = _pick_three(key, rng)
    subject = draw_thing(third, "", rng)
    thing = relate(draw_thing(noun, "", rng), "front", subject, rng)
    distance = np.hypot(*thing.position[:2])
    turns = (-np.pi / 2 + sign * np.radians(step) / 2 for sign in (-1, 1))
    spots = ((round(float(distance * np.cos(t)), 4), round(float(distance * np.sin(t)), 4), 0.0) for t in turns)
    verb, number = pick_one(VERBS, rng), int(rng.integers(len(LOCATIONS["left"])))
    captions = [relation_caption(noun.phrase(), verb, LOCATIONS[side][number], third.phrase()) for side in _SIDES]
    return _finish(key, captions, ((replace(thing, position=spot), subject) for spot in spots), rng, high=True)


def _draw_height(key: Key, step: float, rng: np.random.Generator) -> Quadruple:
    """Stand two objects on blocks in the floor; in each picture another one is higher, by the step in scene units."""
    noun, _, other = _pick_three(key, rng)
    things = [draw_thing(noun, "", rng), draw_thing(other, "", rng)]
    side = max(1.45, *(2 * shape(thing.shape).reach * thing.size for thing in things))
    offset = (side + rng.uniform(0.1, 0.4)) / 2 * pick_one((-1, 1), rng)

    def stand(*heights: float) -> tuple[Thing, ...]:
        spots = [(round(sign * offset, 4), 0.0, round(top, 4)) for sign, top in zip((1, -1), heights, strict=True)]
        blocks = [Thing("block", "", round(side, 4), (x, y, round(z - side, 4)), 0.0) for x, y, z in spots]
        return (*(replace(thing, position=spot) for thing, spot in zip(things, spots, strict=True)), *blocks)

    verb, pairs, low, high = pick_one(VERBS, rng), ((noun, other), (other, noun)), 0.7 - step / 2, 0.7 + step / 2
    captions = [relation_caption(a.phrase(), verb, "above", b.phrase()) for a, b in pairs]
    return _finish(key, captions, (stand(high, low), stand(low, high)), rng, slack=0.5)


def _draw_hidden(key: Key, step: float, rng: np.random.Generator, relation: Relation = "behind") -> Quadruple:
    """Put the object, in either paint, behind a subject as high as the step; a step of 0 leaves it as drawn."""
    noun, other, third = _pick_three(key, rng)
    subject = draw_thing(third, "", rng)
    subject = replace(subject, size=round(step / shape(subject.shape).height, 4) if step else subject.size)
    placed = relate(draw_thing(noun, "", rng), relation, subject, rng)
    captions = _say([(noun.phrase(), third.phrase()), (other.phrase(), third.phrase())], relation, rng)
    things = ((replace(placed, colour=paint), subject) for paint in (noun.colour, other.colour))
    return _finish(key, captions, things, rng, relation, slack=0.1)


def _draw_extent(key: Key, step: float, rng: np.random.Generator) -> Quadruple:
    """Move the camera away, by the step as a factor."""
    drawn = _draw_hidden(key, 0.0, rng, pick_one(_SIDES, rng))
    camera = drawn.scenes[0].camera
    x, y, z = np.add(camera.target, step * np.subtract(camera.position, camera.target)).round(4).tolist()
    first, second = (replace(scene, camera=replace(camera, position=(x, y, z))) for scene in drawn.scenes)
    fact = replace(drawn.facts[0], slack=0.02)
    return replace(drawn, scenes=(first, second), facts=(fact, fact))


def _draw_distractors(key: Key, step: float, rng: np.random.Generator) -> Quadruple:
    """Scatter other objects round the object, whose paint changes; their number is the step's whole part minus 1."""
    noun, other, _ = _pick_three(key, rng)
    words = vocabulary(key.vocabulary)
    alike = _SHOES if noun.category in _SHOES else {noun.category}
    pool = tuple(noun for noun in filter_allowed(words.objects, key, words) if noun.category not in alike)
    things = _scatter([noun, *(pick_noun(pool, rng) for _ in range(int(step) - 1))], rng)
    repainted = (replace(things[0], colour=other.colour), *things[1:])
    return _finish(key, _say_counts([(1, noun), (1, other)], rng), (things, repainted), rng, slack=0.25, high=True)


def _count_seen(view: View) -> int:
    return len(np.unique(view.visible[view.visible >= 0]))


def _mean_colour(view: View) -> NDArray[np.float64]:
    return np.asarray(to_lab(view.pixels[view.visible == 0]).mean(axis=0))


def _shift(scene: Scene) -> NDArray[np.float64]:
    """Return the vector from the subject's position to the object's, float64 `(3,)`."""
    return np.subtract(scene.things[0].position, scene.things[1].position)


def _ratio(values: Sequence[float]) -> float:
    return max(values) / min(values)


def _turn(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return the degrees between two vectors."""
    return float(np.degrees(np.arccos(np.clip(a @ b / np.linalg.norm(a) / np.linalg.norm(b), -1, 1))))


#: `hidden`, `extent` and `distractors` show a change of colour worse or better.
LEVELS: dict[Aspect, Graded] = {
    "count": Graded("things", (1, 4.999), _draw_count, lambda _, v: abs(_count_seen(v[0]) - _count_seen(v[1]))),
    # Between the mean colours of what is seen of the object.
    "colour": Graded("CIEDE2000", (0.03, 1), _draw_colour, lambda _, v: ciede2000(*map(_mean_colour, v))),
    # Both have the same shape, so that their heights compare.
    "size": Graded("times", (1.02, 2.2), _draw_size,
                   lambda s, _: _ratio([float(np.ptp(corners(thing)[:, 2])) for thing in s[0].things])),
    # Of both things' middles.
    "distance": Graded("times", (1.03, 4), _draw_distance,
                       lambda s, _: _ratio([float(np.linalg.norm(_shift(scene))) for scene in s])),
    "angle": Graded("degrees", (3, 180), _draw_angle, lambda s, _: _turn(*map(_shift, s))),
    "height": Graded("scene units", (0.02, 1.2), _draw_height, lambda s, _: float(abs(_shift(s[0])[2]))),
    # Of the pixels that the object has alone.
    "hidden": Graded("percent", (0.3, 2.4), _draw_hidden,
                     lambda _, v: 100 - 100 * float(np.mean([(k.visible == 0).sum() / k.alone[0] for k in v]))),
    # The side of a square of what is seen of the object.
    "extent": Graded("percent of the side", (1, 9), _draw_extent,
                     lambda _, v: 100 * float(np.sqrt(np.mean([k.visible == 0 for k in v])))),
    "distractors": Graded("things", (1, 9.999), _draw_distractors, lambda _, v: _count_seen(v[0]) - 1),
}  # fmt: skip
