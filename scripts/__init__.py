"""What the Makefile calls: run everything on one machine, play the demo, test with real servers."""
