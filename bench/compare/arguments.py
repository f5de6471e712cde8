"""How words of the command line become values."""
import argparse


def parse_size(text):
    """8, 4K, 64M."""
    units = {"K": 10, "M": 20, "G": 30}
    return int(text[:-1]) << units[text[-1].upper()] if text[-1:].upper() in units else int(text)


def several(convert, allowed=None):
    """A parser of lists: words between commas, each converted, each one of `allowed` if that is given."""
    def parse(text):
        values = [convert(word) for word in text.split(",")]
        if allowed and not set(values) <= set(allowed):
            raise argparse.ArgumentTypeError(f"choose from {','.join(map(str, allowed))}")
        return values
    return parse
