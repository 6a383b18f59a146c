"""Redaction: the processor time of `redact` next to a search for one form after the other.

``python -m benchmarks.redaction`` redacts 60 MB of output of each of six kinds, with ten secrets
of 48 characters in the environment. One kind has a secret in every 20th line: it is measured
without a target, because each place of an encoded secret has to be found. The peer is the function
of the third release, which knew fewer forms: it searched the text once for each form of each
secret. ``--quick`` takes a tenth.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from urllib.parse import quote

from skillcomp.io.redaction import redact

TARGET_SHARE = 1 / 6  # of the processor time of the peer
SIZE = 60_000_000
N_SECRETS = 10
OFTEN = "events, a secret in 20 lines"
SEED = 20261128


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="6 MB")
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    size = options.size or (SIZE // 10 if options.quick else SIZE)
    draw = random.Random(SEED)
    environment = {
        f"N{i}_API_KEY": "sk-" + base64.b64encode(draw.randbytes(34)).decode()[:45]
        for i in range(N_SECRETS)
    }
    print(f"redaction: {size / 1e6:g} MB of output, {N_SECRETS} secrets, processor time")
    print("  kind of output                        peer s   ours s    share")
    all_reached = True
    for kind, text in texts(size, list(environment.values()), draw).items():
        peer, ours = seconds(form_by_form, text, environment), seconds(redact, text, environment)
        reached = ours <= TARGET_SHARE * peer or kind == OFTEN
        all_reached &= reached
        verdict = "" if reached else "  NOT REACHED"
        print(f"  {kind:34s} {peer:9.2f} {ours:8.2f} {ours / peer:8.3f}{verdict}")
    words = "reached" if all_reached else "NOT REACHED"
    print(f"  target: a share of {TARGET_SHARE:.3f} for each other kind: {words}")
    return 0 if all_reached else 1


def texts(size: int, secrets: Sequence[str], draw: random.Random) -> dict[str, str]:
    """Return texts of about the same size, such as programs print them."""
    letters = "etaoinshrdlcumwfgypbvk"
    words = ["".join(draw.choices(letters, k=draw.randint(2, 10))) for _ in range(5_000)]

    def message(n: int) -> str:
        said = f'{" ".join(draw.choices(words, k=30))}:\n\t"{draw.choice(words)}" at 100% & <b>.\n'
        return json.dumps({"type": "assistant", "id": f"msg_{n:08d}", "text": said})

    def with_secret(n: int) -> str:
        secret = secrets[n % len(secrets)]
        forms = (secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode())
        return json.dumps({"type": "assistant", "text": f"The key is {forms[n % 3]}."})

    lines = [message(n) for n in range(2_000)]
    rare = [*lines[:-1], with_secret(0)]
    often = [with_secret(n) if n % 20 == 0 else line for n, line in enumerate(lines)]
    prose = [" ".join(draw.choices(words, k=100)) for _ in range(2_000)]
    data = draw.randbytes(300_000)
    kinds = {
        "events in JSON": "\n".join(lines),
        "events, a secret in 2,000 lines": "\n".join(rare),
        OFTEN: "\n".join(often),
        "prose": "\n".join(prose),
        "base64 in lines": base64.encodebytes(data).decode(),
        "hexadecimal": data.hex(" "),
    }
    return {kind: (text * (size // len(text) + 1))[:size] for kind, text in kinds.items()}


def seconds(function: Callable[..., str], text: str, environment: dict[str, str]) -> float:
    """Return the processor time of a function in seconds; its patterns are compiled before."""
    function(text[:1_000], environment)
    begun = time.process_time()
    function(text, environment)
    return time.process_time() - begun


def form_by_form(text: str, environment: dict[str, str]) -> str:
    """Replace secrets as the third release did, by one search for each form of each secret."""
    for name, secret in environment.items():
        text = text.replace(secret, f"[{name}]")
        for pattern in _patterns(secret):
            text = pattern.sub(f"[{name}]", text)
    return text


def _patterns(secret: str) -> list[re.Pattern[str]]:
    line_break, between_bytes = r"(?:\\+[nr]|\s)*", r"(?:\\+[nrx]|[\s:])*"
    url_safe = {"+": "-", "/": "_"}
    raw = secret.encode()
    forms = {secret[::-1], quote(secret, safe=""), quote(secret, safe="").lower()}
    for text in (secret, secret[::-1]):
        for ascii_only in (True, False):
            once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
            forms |= {once, json.dumps(once, ensure_ascii=ascii_only)[1:-1]}
    patterns = [re.escape(form) for form in sorted(forms, key=len)[::-1] if form != secret]
    for data in (raw, raw[::-1]):
        patterns.append(f"(?i:{between_bytes.join(f'{byte:02x}' for byte in data)})")
        for encode, size, bits in ((base64.b64encode, 3, 6), (base64.b32encode, 5, 5)):
            for start in range(size):
                whole = encode(b"\0" * start + data).decode().rstrip("=")
                core = whole[-(-start * 8 // bits) : (start + len(data)) * 8 // bits]
                letters = (f"[{re.escape(c)}{url_safe[c]}]" if c in url_safe else c for c in core)
                patterns.append(line_break.join(letters))
    return [re.compile(pattern) for pattern in patterns]


if __name__ == "__main__":
    sys.exit(main())
