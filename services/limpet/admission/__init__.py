"""Admission: judges discovered links, makes rows, then marks."""
