"""A model in a file: is the picture as bright as the text says? Measured without installing anything."""


def brightness(image, text):
    """Score one PIL image with one text: higher for a bright picture beside "white", for a dark one beside "black"."""
    light = sum(image.convert("L").histogram()[128:]) / (image.width * image.height)
    return light if "white" in text else 1 - light


brightness.fingerprint = "brightness-1"  # change it with what the function computes: the store files scores under it
