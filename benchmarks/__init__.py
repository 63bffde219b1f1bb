"""Commands that reproduce the figures of the documentation, each comparing side by side."""
