"""Measurements against bare docker-py in the same run: ``make bench``."""
