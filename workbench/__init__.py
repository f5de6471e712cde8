"""What ./dev and .ci/gate.py are made of; see README.md."""
