"""`python -m roocontext` is the command line."""

from roocontext.cli import main

if __name__ == "__main__":
    main()
