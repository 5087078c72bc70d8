"""``python -m penstock``: the ``penstock`` command of this interpreter."""

from penstock.command_line.main import main

if __name__ == "__main__":
    main(prog_name="penstock")
