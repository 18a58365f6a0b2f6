"""Records of zero-shot classification: images, their classes, and templates that put a class into words."""

from __future__ import annotations

from dataclasses import dataclass

from tellapart.data.task_records import check_ids
from tellapart.errors import DataError


@dataclass(frozen=True, slots=True)
class ClassifiedImage:
    """An image and the index of its class, from 0; images with the same `cluster`, if any, are resampled together."""

    id: str
    image: str
    label: int
    cluster: str = ""


def check_templates(templates: tuple[str, ...], place: str) -> tuple[str, ...]:
    """Return the templates, each of which must hold `{}` once, the place of the class's name."""
    if not templates:
        raise DataError(f"{place}: no template; give one a line, such as: a photo of a {{}}.")
    for number, template in enumerate(templates, start=1):
        if template.count("{}") != 1:
            raise DataError(f"{place}: template {number} must hold {{}} once, for the class's name; got {template!r}")
    if len(set(templates)) < len(templates):
        raise DataError(f"{place}: a template is repeated, and would count twice")
    return templates


@dataclass(frozen=True)
class ClassificationSet:
    """Images of known classes.

    Attributes:
        name: the name of the set in results.
        classes: their names, as captions use them.
        templates: sentences with `{}` for the name; several are averaged.
        pictures: the images to classify; not every class needs one.

    >>> pets = ClassificationSet("pets", ("cat", "dog"), ("a photo of a {}.",), (ClassifiedImage("0", "a.png", 1),))
    >>> pets.prompts
    (('a photo of a cat.', 'a photo of a dog.'),)
    """

    name: str
    classes: tuple[str, ...]
    templates: tuple[str, ...]
    pictures: tuple[ClassifiedImage, ...]

    def __post_init__(self) -> None:
        if len(self.classes) < 2:
            raise DataError(f"{self.name} has {len(self.classes)} classes; it needs two or more")
        if not all(name.strip() for name in self.classes):
            raise DataError(f"{self.name}: class {[bool(c.strip()) for c in self.classes].index(False)} has no name")
        if len(set(self.classes)) < len(self.classes):
            twice = next(name for index, name in enumerate(self.classes) if name in self.classes[:index])
            raise DataError(
                f"{self.name}: two classes are called {twice!r}, so no model can distinguish them; name them in "
                "classes.txt"
            )
        check_templates(self.templates, self.name)
        check_ids(self.name, [picture.id for picture in self.pictures])
        for picture in self.pictures:
            if not 0 <= picture.label < len(self.classes):
                raise DataError(
                    f"{self.name}: picture {picture.id!r} is of class {picture.label}; there are {len(self.classes)}, "
                    "from 0"
                )

    @property
    def prompts(self) -> tuple[tuple[str, ...], ...]:
        """The caption of every class in every template: `[template][class]`."""
        return tuple(tuple(template.replace("{}", name) for name in self.classes) for template in self.templates)
