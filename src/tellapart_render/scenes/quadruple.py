"""Draw minimal quadruples: two captions that differ in one phrase, and two scenes that differ in the same way.

The captions of the aspect `order` have the same words in two orders: two objects change places, colours or numbers.

A caption names an object and a subject: the `object` is the thing that is located, the `subject` the thing that it is
located by ("the mug is behind the bowl": object mug, subject bowl). A counting caption has an object only.

Everything is drawn from `numpy.random.default_rng([stream, seed, aspect, index, attempt])`, so a quadruple depends on
these numbers alone, not on the order of work. Streams keep scenes of the demo, of training and of tests apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np

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
from tellapart_render.meshes.objects import shape
from tellapart_render.scenes.scene import (
    FLAT,
    Scene,
    Thing,
    camera_for,
    can_carry,
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
#: For each object, the subjects that it can swap colours with, and what both are called then.
_Crossed = dict[Noun, list[tuple[Noun, Noun, Noun]]]

#: What changes places in order items, in turn.
_EXCHANGES: tuple[Exchange, ...] = ("colours", "numbers", "places")

# Numbers of the two groups of an order item; of six things in a picture each is still large enough.
_GROUPS = ((2, 3), (3, 2), (2, 4), (4, 2))

# Scales that are drawn for a caption's size word; "" for a caption without one.
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


@dataclass(frozen=True, slots=True)
class Key:
    """The numbers and choices that determine a quadruple.

    `held_out="yes"` shows at least one pair of shape and colour that training leaves out, "no" shows none. Camera,
    light or ground, if listed in `unseen`, is drawn from a range that other scenes do not use; captions and things stay
    the same. Order items take turns with what changes places; `exchange`, if not empty, lists it. `attempt` is raised
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
    """Two scenes and their captions (caption k is true of scene k), with the facts and words they were drawn from.

    `nouns[k]` are the objects of scene k in the order of its things (counting: one noun, that of all things).
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
    """Pick a category first, then one of its objects, so that rich categories do not crowd out the rest."""
    names = sorted({noun.category for noun in group})
    name = names[int(rng.integers(len(names)))]
    members = [noun for noun in group if noun.category == name]
    return members[int(rng.integers(len(members)))]


def draw_thing(noun: Noun, size: str, rng: np.random.Generator) -> Thing:
    """Draw the scale and the turn about the vertical of an object at the origin."""
    low, high = _SIZE_RANGE[size]
    turn = rng.uniform(-np.pi, np.pi)
    if noun.category in _FRONTED:
        turn = turn / 4.5
    elif noun.category in _SIDED:
        turn = turn / 3.2 + (np.pi if turn > 0 else 0.0)
    yaw = (turn + np.pi) % (2 * np.pi) - np.pi
    scale = round(float(rng.uniform(low, high)), 4)
    return Thing(noun.shape, noun.colour, scale, (0.0, 0.0, 0.0), round(float(yaw), 4))


def make_scenes(
    first: tuple[Thing, ...], second: tuple[Thing, ...], rng: np.random.Generator, high: bool, key: Key
) -> tuple[Scene, Scene]:
    """Make two scenes of two groups of things, with the same camera, light and ground."""
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


def rivals(one: Noun, pool: tuple[Noun, ...]) -> tuple[Noun, ...]:
    """Return the nouns of the same category that are false of this object, and that this noun is false of."""
    return tuple(
        noun for noun in pool if noun.category == one.category and not noun.implies(one) and not one.implies(noun)
    )


def _change_attribute(key: Key, rng: np.random.Generator) -> Quadruple:
    """Swap the object for another one of its category: a change of colour, of kind, or of both."""
    words = vocabulary(key.vocabulary)
    pool = filter_allowed((noun for group in words.categories.values() for noun in group), key, words)
    one = pick_noun(leading_nouns(pool, key, words), rng)
    mates = rivals(one, pool)
    alike = tuple(noun for noun in mates if noun.shape == one.shape)
    other = pick_one(alike if alike and rng.random() < 0.75 else mates, rng)
    if rng.random() < 0.5:
        one, other = other, one
    others = tuple(noun for noun in filter_allowed(words.objects, key, words) if noun.category != one.category)
    subject_noun = pick_noun(others, rng)
    sizes = (pick_one(SIZES, rng), pick_one(SIZES, rng))
    thing, subject = draw_thing(one, sizes[0], rng), draw_thing(subject_noun, sizes[1], rng)
    swapped = replace(thing, shape=other.shape, colour=other.colour)
    relation = pick_one(
        tuple(r for r in _possible_relations(thing, subject) if r in _possible_relations(swapped, subject)), rng
    )
    # The distance fits the wider of the two shapes, so that both can stand on the same spot.
    widest = max((thing, swapped), key=lambda t: shape(t.shape).reach)
    position = relate(widest, relation, subject, rng).position
    verb, location = pick_one(VERBS, rng), pick_one(LOCATIONS[relation], rng)
    subject_phrase = f"{sizes[1]} {subject_noun.phrase()}"
    captions = tuple(
        relation_caption(f"{sizes[0]} {noun.phrase()}", _agree_verb(verb, noun, key.wording), location, subject_phrase)
        for noun in (one, other)
    )
    colour, kind = one.colour != other.colour, one.shape != other.shape
    return Quadruple(
        key=key,
        change="colour and kind" if colour and kind else "kind" if kind else "colour",
        captions=(captions[0], captions[1]),
        scenes=make_scenes(
            (replace(thing, position=position), subject),
            (replace(swapped, position=position), subject),
            rng,
            high=relation in ("front", "behind"),
            key=key,
        ),
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
    words = tuple(pick_one(LOCATIONS[r], rng) for r in (first, second))
    captions = tuple(
        relation_caption(noun.phrase(), _agree_verb(v, noun, key.wording), w, subject_noun.phrase())
        for v, w in zip(verbs, words, strict=True)
    )
    return Quadruple(
        key=key,
        change="/".join(sorted((first, second))),
        captions=(captions[0], captions[1]),
        scenes=make_scenes(
            (relate(thing, first, subject, rng), subject),
            (relate(thing, second, subject, rng), subject),
            rng,
            high=bool({"front", "behind"} & {first, second}),
            key=key,
        ),
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
    yaws = [draw_thing(noun, "", rng).yaw for _ in spots]
    things = tuple(replace(pattern, position=s, yaw=y) for s, y in zip(spots, yaws, strict=True))
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


def _exchange_colours(key: Key, pairs: _Crossed, rng: np.random.Generator) -> Quadruple:
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


def _list_colour_pairs(key: Key) -> _Crossed:
    """Return, for each object, the subjects it can swap colours with, and what both are then called."""
    words = vocabulary(key.vocabulary)
    pool = filter_allowed(words.objects, key, words)
    coloured = {
        candidate.phrase(): candidate
        for candidate in pool
        if candidate.colour and candidate.attribute.split()[:1] == [candidate.colour]
    }

    def recolour(each: Noun, colour: str) -> Noun | None:
        return coloured.get(each.phrase().replace(each.colour, colour, 1))

    pairs: _Crossed = {}
    for group in coloured.values():
        for other in coloured.values():
            crossed = (recolour(group, other.colour), recolour(other, group.colour))
            if group.category != other.category and group.colour != other.colour and crossed[0] and crossed[1]:
                pairs.setdefault(group, []).append((other, crossed[0], crossed[1]))
    return pairs


def _relate_twice(
    key: Key,
    change: str,
    nouns: tuple[tuple[Noun, Noun], tuple[Noun, Noun]],
    relation: Relation,
    scenes: tuple[Scene, Scene],
    rng: np.random.Generator,
) -> Quadruple:
    """Name two pairs of objects in the same relation, by the same words."""
    verb, place = pick_one(VERBS, rng), pick_one(LOCATIONS[relation], rng)
    first, second = (relation_caption(a.phrase(), verb, place, b.phrase()) for a, b in nouns)
    facts = (Fact(relation, 2), Fact(relation, 2))
    return Quadruple(key, change, (first, second), scenes, facts, nouns, verb=verb, place=place)


def _exchange_counts(key: Key, rng: np.random.Generator) -> Quadruple:
    """Swap the numbers of two groups: as many things of the larger group as are too many become the other object."""
    words = vocabulary(key.vocabulary)
    pool = filter_allowed((n for n in words.objects if not n.plural), key, words)
    one = pick_noun(leading_nouns(pool, key, words), rng)
    other = pick_noun(tuple(noun for noun in pool if noun.category != one.category), rng)
    patterns = [draw_thing(noun, "", rng) for noun in (one, other)]
    numbers = pick_one(_GROUPS, rng)
    widest = max(patterns, key=lambda thing: shape(thing.shape).reach * thing.size)
    spots = scatter(sum(numbers), widest.size, shape(widest.shape).reach, rng)
    stood = [
        [replace(pattern, position=spot, yaw=draw_thing(noun, "", rng).yaw) for spot in spots]
        for pattern, noun in zip(patterns, (one, other), strict=True)
    ]
    first, second = ((*stood[0][:count], *stood[1][count:]) for count in numbers)
    place, existential = pick_one(PLACES, rng), bool(rng.random() < 0.5)
    groups = [((count, one), (sum(numbers) - count, other)) for count in numbers]
    captions = [group_caption(members, place, existential=existential) for members in groups]
    nouns = [(one,) * group[0][0] + (other,) * group[1][0] for group in groups]
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
    makers = {
        "attribute": _change_attribute,
        "counting": _change_count,
        "location": _change_location,
        "order": _change_order,
    }
    return makers[key.aspect](key, key.generator())
