from .lint_path import Finding as Finding
from .lint_path import lint_skill as lint_skill
from .lint_path import lint_suite as lint_suite
