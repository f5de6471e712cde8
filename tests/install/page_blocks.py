"""Programs and outputs that stand on a page of docs/, for tests that try them."""
import re


def blocks(text, language):
    """The fenced code blocks of one language, in order."""
    return re.findall(rf"^```{re.escape(language)}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def block(text, language, number=0):
    """One of them, by its place."""
    return blocks(text, language)[number]
