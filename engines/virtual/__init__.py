"""The virtual node: a server that speaks the Docker Engine API, with simulated cards.

The product reaches it through ``engines.docker`` like any engine, so there is no second
way through its code. It makes a first look possible without Docker, and fleets and faults
possible on one machine. No Django import.
"""
