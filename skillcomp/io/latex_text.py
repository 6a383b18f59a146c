"""Text for LaTeX: escaped characters, and the code that includes a figure in a paper."""

from __future__ import annotations

import re

_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
_SIGNS |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
_SIGNS |= {"−": "$-$", "∞": r"$\infty$", "±": r"$\pm$"}


def escape_latex(text: str) -> str:
    """Escape the characters that LaTeX would read as commands; line feeds become spaces."""
    return "".join(_SIGNS.get(sign, sign) for sign in " ".join(text.split()))


def latex_label(kind: str, name: str) -> str:
    r"""Return a label for ``\ref``, such as ``fig:02-skills``."""
    return f"{kind}:{re.sub(r'[^A-Za-z0-9:.-]+', '-', name)}"


def latex_figure(stem: str, caption: str, inches: float) -> str:
    """Return a figure environment with ``stem.pdf`` (``inches`` wide), caption and label."""
    lines = [
        r"\begin{figure}[tbp]",
        r"\centering",
        rf"\includegraphics[width={inches:.2f}in]{{\detokenize{{{stem}.pdf}}}}",
        rf"\caption{{{escape_latex(caption)}}}",
        rf"\label{{{latex_label('fig', stem)}}}",
        r"\end{figure}",
    ]
    return "\n".join(lines) + "\n"
