"""``python -m onemodel`` is the command ``onemodel``."""

from onemodel.cli import main

main(prog_name="onemodel")
