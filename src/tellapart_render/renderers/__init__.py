"""The renderers of scenes: Mitsuba in this process, Blender in another."""
