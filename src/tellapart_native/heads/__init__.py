"""Readings that several families share: captions, answers, boxes, two images, vectors."""
