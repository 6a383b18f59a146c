from .answer import Answer as Answer
from .answer import answer as answer
from .case_pages import write_case_pages as write_case_pages
from .methods import methods as methods
from .page import build as build
from .sentences import sentences as sentences
