"""Pairs of frames of one video: exact decoding, and builders for video-language annotations."""
