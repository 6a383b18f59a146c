from .lint_path import lint_path as lint_path
from .lint_rules import lint_skill as lint_skill
from .lint_suite import lint_suite as lint_suite
