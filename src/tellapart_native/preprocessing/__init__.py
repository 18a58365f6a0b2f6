"""The authors' preparation of images and captions, and positions at another image size."""
