"""Secrets are replaced in everything that is written, in whatever common form they occur."""

from __future__ import annotations

import base64
import html
import json
import os
import threading
from urllib.parse import quote, quote_plus

import numpy as np
import pandas as pd
import pytest
from fake_openai import FakeOpenAI
from hypothesis import given
from hypothesis import strategies as st
from live_study import ask, make_store, rows, script, skill_text

import skillcomp as sc
from skillcomp import cli as commands
from skillcomp import export
from skillcomp.errors import AgentError, StudyError
from skillcomp.io import redaction
from skillcomp.io.redaction import is_secret_name, redact, redact_bytes, redact_json
from skillcomp.io.store import RunStore
from skillcomp.live import BaseAgent, CliAgent, OpenAIAgent, Reply
from skillcomp.live.agents import cli
from skillcomp.live.agents.agent import redacted_reply
from skillcomp.live.agents.process import files_left

KEY = 'sk-lo+pb/ack-0123456789"x<y_Z'
NAME = "MY_API_KEY"
CODES = [ord(letter) for letter in KEY]
RAW = KEY.encode()


FORMS = {
    "plain": KEY,
    "reversed": KEY[::-1],
    "JSON": json.dumps(KEY),
    "JSON in JSON": json.dumps(json.dumps(KEY)),
    "JSON in JSON in JSON": json.dumps(json.dumps(json.dumps(KEY))),
    "JSON with escaped slashes": json.dumps(KEY).replace("/", "\\/"),
    "JSON with an escaped plus": json.dumps(KEY).replace("+", "\\u002b").replace("<", "\\u003C"),
    "JSON of codes": "".join(f"\\u{code:04x}" for code in CODES),
    "JSON of codes in capitals": "".join(f"\\u{code:04X}" for code in CODES),
    "JSON of codes in JSON": json.dumps("".join(f"\\u{code:04x}" for code in CODES)),
    "every second letter as a code": "".join(
        f"\\u{c:04x}" if i % 2 else chr(c) for i, c in enumerate(CODES)
    ).replace('"', '\\"'),
    "codes of JavaScript": "".join(f"\\u{{{code:x}}}" for code in CODES),
    "codes of C": "".join(f"\\x{code:02x}" for code in CODES),
    "codes of Python": "".join(f"\\U{code:08x}" for code in CODES),
    "a cell of csv": KEY.replace('"', '""'),
    "base64 of JSON": base64.b64encode(json.dumps({"k": KEY}).encode()).decode(),
    "URL": quote(KEY, safe=""),
    "URL with a slash": quote(KEY),
    "URL in small letters": quote(KEY, safe="").lower().replace("_z", "_Z"),
    "form of a web page": quote_plus(KEY),
    "URL in a URL": quote(quote(KEY, safe=""), safe=""),
    "URL of all letters": "".join(f"%{code:02X}" for code in CODES),
    "HTML": html.escape(KEY),
    "HTML with names": KEY.replace("+", "&plus;").replace("/", "&sol;").replace("<", "&lt;"),
    "HTML of codes": "".join(f"&#{code};" for code in CODES),
    "HTML of hexadecimal codes": "".join(f"&#x{code:X};" for code in CODES),
    "HTML in JSON": json.dumps(html.escape(KEY)),
    "HTML in HTML": html.escape(html.escape(KEY)),
    "UTF-16": KEY.encode("utf-16-le").decode(),
    "UTF-16 of the other order": KEY.encode("utf-16-be").decode(),
    "UTF-16 in JSON": json.dumps(KEY.encode("utf-16-le").decode()),
    "UTF-32": KEY.encode("utf-32-le").decode(),
    "base64": base64.b64encode(RAW).decode(),
    "base64 without padding": base64.b64encode(RAW).decode().rstrip("="),
    "base64 after one byte": base64.b64encode(b"x" + RAW).decode(),
    "base64 after two bytes": base64.b64encode(b"xy" + RAW + b"z").decode(),
    "base64 for URLs": base64.urlsafe_b64encode(b"~" + RAW).decode(),
    "base64 in lines": base64.encodebytes(RAW * 3).decode(),
    "base64 in lines in JSON": json.dumps(base64.encodebytes(RAW * 3).decode()),
    "base64 in JSON with escaped slashes": base64.b64encode(b"\xff\xff" + RAW)
    .decode()
    .replace("/", "\\/")
    .replace("+", "\\u002B"),
    "base64 in a URL": quote(base64.b64encode(b"\xff\xfe" + RAW).decode(), safe=""),
    "base64 of UTF-16": base64.b64encode(KEY.encode("utf-16-le")).decode(),
    "base64 of the reversed key": base64.b64encode(RAW[::-1]).decode(),
    "base32": base64.b32encode(RAW).decode(),
    "base32 after three bytes, in small letters": base64.b32encode(b"abc" + RAW).decode().lower(),
    "hexadecimal": RAW.hex(),
    "hexadecimal in capitals": RAW.hex().upper(),
    "hexadecimal with colons": RAW.hex(":"),
    "hexadecimal with dashes": RAW.hex("-"),
    "hexadecimal in lines": RAW.hex("\n", 8),
    "hexadecimal after \\x": "\\x" + RAW.hex(),
    "a list of hexadecimal numbers": ", ".join(f"0x{code:02x}" for code in CODES),
    "hexadecimal of UTF-16": KEY.encode("utf-16-le").hex(),
    "lines of a terminal": "\n".join(KEY[i : i + 10] for i in range(0, len(KEY), 10)),
}


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv(NAME, KEY)
    return KEY


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(("before", "after"), [("see ", " end"), ('{"a": "', '"}'), ("\\n", "\\n")])
def test_every_form_of_a_key_is_replaced_and_nothing_around_it(form, before, after):
    text = redact(f"{before}{form}{after}", {NAME: KEY})
    assert text.startswith(before) and text.endswith(after)
    rest = text.replace(f"[{NAME}]", "").removeprefix(before).removesuffix(after)
    # a letter at each end of base64 and base32 also holds bits of other bytes
    assert f"[{NAME}]" in text and len(rest) <= 16 and "0123" not in rest, text


@pytest.mark.parametrize("key", ["geheim-über/ß日本-42", "n0123456789", '"quoted\\key"', "x" * 8])
def test_keys_with_other_letters_are_found_too(key):
    wide = key.encode("utf-16-le")
    forms = [key, json.dumps(key)[1:-1], json.dumps(key, ensure_ascii=False)[1:-1], key[::-1]]
    forms += [quote(key), key.encode().hex(), base64.b64encode(key.encode()).decode(), f"C:\\{key}"]
    forms += [base64.b64encode(wide).decode(), wide.hex()]
    for form in forms:
        assert f"[{NAME}]" in redact(f"a {form} b", {NAME: key}), form
    assert f"[{NAME}]".encode() in redact_bytes(b"a " + wide + b" b", {NAME: key})


def test_a_key_at_every_place_of_a_long_text_is_found():
    size = redaction.BLOCK
    filler = 'The tide says "high" \\n at 100% & more. ' * (3 * size // 40)
    form = FORMS["JSON in JSON"].replace("/", "\\/")
    for place in (0, size - 60, size - 30, size - 1, size, size + 1, 2 * size - 40, len(filler)):
        text = redact(filler[:place] + form + filler[place:], {NAME: KEY})
        rest = text.replace(f'"\\"[{NAME}]\\""', "").replace(f"[{NAME}]", "")
        assert len(text) < len(filler) + 30 and "0123456789" not in rest


@given(st.text(max_size=400))
def test_a_text_without_secrets_is_the_same_object(text):
    assert redact(text, {NAME: KEY}) is text


@given(st.text(max_size=60), st.text(max_size=60), st.sampled_from(sorted(FORMS)))
def test_whatever_stands_around_it_a_form_is_gone(before, after, name):
    text = redact(f"{before} {FORMS[name]} {after}", {NAME: KEY})
    assert f"[{NAME}]" in text and FORMS[name] not in text


@given(st.recursive(st.text(max_size=9) | st.sampled_from(list(FORMS.values())), st.lists))
def test_json_stays_json(content):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(NAME, KEY)
        redacted = redact_json(json.dumps({"content": content}).encode())
    text = json.dumps(json.loads(redacted), ensure_ascii=False)
    assert KEY not in text and KEY not in json.loads(redacted)["content"]


def test_words_of_a_name_decide_whether_its_value_is_a_secret():
    secret = ("DB_PASS", "MYSQL_PWD", "GITHUB_PAT", "SENTRY_DSN", "SLACK_WEBHOOK_URL", "COOKIE")
    secret += (
        "SESSION",
        "PROXY_AUTHORIZATION",
        "OPENAI_API_KEY",
        "APIKEY",
        "hf_token",
        "PGPASSWORD",
    )
    secret += ("MY_SECRET", "AWS_CREDENTIALS", "NPM_AUTH", "DB_PASS2", "SSH_PASSPHRASE", "WEBHOOKS")
    plain = ("PATH", "PWD", "OLDPWD", "PATTERN", "COMPASS", "BYPASS", "GIT_ASKPASS", "PATIENCE")
    plain += ("XDG_SESSION_ID", "DBUS_SESSION_BUS_ADDRESS", "DESKTOP_SESSION", "SESSION_MANAGER")
    plain += ("TERM_SESSION_ID", "PASSED", "AUTHOR", "HOME", "LANG", "MPATH", "SESSIONIZE")
    assert [name for name in secret if not is_secret_name(name)] == []
    assert [name for name in plain if is_secret_name(name)] == []


def test_secrets_inside_a_value_are_found_and_paths_are_none(tmp_path):
    environment = {
        "DATABASE_URL": "postgres://me:hunter2%40hunter2@db/x",
        "GIT_URL": "https://ghp_0123456789abcdef@host/x",
        "SERVICE": "https://host/v1?region=eu&api_key=abcdefgh-1",
        "HEADER_AUTHORIZATION": "Bearer abcdefgh-2",
        "SESSION": str(tmp_path),
        "PASS": "short",
    }
    secrets = "hunter2%40hunter2 hunter2@hunter2 ghp_0123456789abcdef abcdefgh-1 abcdefgh-2"
    names = "[DATABASE_URL] [DATABASE_URL] [GIT_URL] [SERVICE] [HEADER_AUTHORIZATION]"
    assert redact(f"{secrets} {tmp_path} short", environment) == f"{names} {tmp_path} short"


# Everything that is written

PROGRAM = """
texts = {{"a": {escaped}, "b": {codes}}}
prefix = '{{"type": "assistant", "message": {{"id": "m", "content": [{{"type": "text", "text": "'
print('{{"type": "system", "subtype": "init", "session_id": "s", "model": "' + texts["b"] + '"}}')
print(prefix + texts["a"] + '"}}]}}}}')
print('{{"type": "result", "subtype": "success", "result": "It is ' + texts["a"] + ' or '
      + texts["b"] + '.", "stop_reason": "' + texts["a"] + '"}}')
"""


def all_files(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def assert_no_key(folder, key=KEY):
    for file, data in all_files(folder).items():
        text = data.decode("utf-8", "replace")
        assert redact(text, {NAME: key}) == text, file
        assert redact(str(file), {NAME: key}) == str(file)


def test_a_key_printed_in_escapes_of_json_is_in_no_table_export_and_page(tmp_path, key):
    body = PROGRAM.format(
        escaped=repr(FORMS["JSON with escaped slashes"][1:-1]), codes=repr(FORMS["JSON of codes"])
    )
    agent = CliAgent(script(tmp_path, body), output="claude", passed=[NAME])
    store = make_store(tmp_path, n_cases=1)
    sc.run(store, agents=[agent], progress=False)
    answers = [row["answer"] for row in rows(store, "attempts")]
    assert answers and set(answers) == {f"It is [{NAME}] or [{NAME}]."}
    assert_no_key(store.path)
    frames = {"attempts": sc.frames.attempts(store), "cases": sc.frames.cases(store)}
    export.write(frames, tmp_path / "export")
    assert_no_key(tmp_path / "export")
    read = pd.read_parquet(tmp_path / "export" / "attempts.parquet")
    assert read["answer"].str.contains(f"[{NAME}]", regex=False).all()
    sc.report.build(store, tmp_path / "page", notebooks=False)
    assert_no_key(tmp_path / "page")


def test_exports_and_pages_of_frames_with_a_key_have_none(tmp_path, key, monkeypatch):
    """The frames may come from a store or table that was written without redaction."""
    monkeypatch.delenv(NAME)
    store = make_store(tmp_path, n_cases=1)
    sc.run(store, agents=[Echo()], progress=False)
    assert KEY in rows(store, "attempts")[0]["answer"]
    monkeypatch.setenv(NAME, KEY)
    attempts = sc.frames.attempts(store)
    export.write({"attempts": attempts}, tmp_path / "export")
    assert_no_key(tmp_path / "export")
    assert KEY in attempts["answer"].iloc[0]  # the frame of the user is unchanged
    sc.report.build(store, tmp_path / "page", notebooks=False)
    assert_no_key(tmp_path / "page")


@pytest.mark.filterwarnings("ignore::skillcomp.frames.table_reader.FrameWarning")
def test_a_key_where_a_page_folds_a_long_answer_is_on_no_page(tmp_path, key):
    table = pd.DataFrame({"case": ["a", "b"] * 2, "condition": ["baseline"] * 2 + ["skill"] * 2})
    table["passed"], table["answer"] = [0, 0, 1, 1], "x" * 1_490 + KEY + "y" * 2_000
    roles = {"case": "case", "condition": "condition", "passed": "passed", "answer": "answer"}
    own = sc.from_frame(table, skill=None, **roles)
    assert KEY in own.attempts["answer"].iloc[0]
    sc.report.build(own, tmp_path / "page", notebooks=False)
    assert_no_key(tmp_path / "page")
    pages = [data for file, data in all_files(tmp_path / "page").items() if b"yyyyyyy" in data]
    assert pages and not any(KEY[:9].encode() in data for data in pages)


class Echo(BaseAgent):
    """An agent of another package, which does not know of redaction."""

    async def ask(self, prompt, **about):
        return Reply(
            answer=f"It is {KEY}.", model=f"m-{KEY}", stop_reason=FORMS["HTML"], error=FORMS["URL"],
            trace=FORMS["JSON in JSON"], request_id=FORMS["base64"],
        )  # fmt: skip


def test_every_text_of_an_attempt_passes_the_door_of_the_store(tmp_path, key):
    store = make_store(tmp_path, n_cases=1)
    sc.run(store, agents=[Echo()], progress=False)
    row = rows(store, "attempts")[0]
    names = ("answer", "agent_model", "stop_reason", "error", "trace", "request_id")
    assert [name for name in names if f"[{NAME}]" not in (row[name] or "")] == []
    store.append("notes_of_mine", [{"text": KEY, KEY: [KEY, {"deep": FORMS["base64"]}], "n": 1}])
    store.annotate(source=KEY)
    assert_no_key(store.path)
    assert next(store.records("notes_of_mine"))["n"] == 1


def test_a_service_that_echoes_its_key_leaves_it_nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("MINE", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    def edit(reply):
        reply.update(model=f"gpt-{KEY}", id=FORMS["base64"])
        reply["choices"][0]["finish_reason"] = KEY

    with FakeOpenAI(key=None, answer=f"It is {FORMS['HTML']}.", edit=edit) as server:
        agent = OpenAIAgent("gpt-6", key_env="MINE", base_url=server.url)
        reply = ask(agent)
        with FakeOpenAI(key="another") as refusing:
            refused = ask(OpenAIAgent("gpt-6", key_env="MINE", base_url=refusing.url))
    for text in (reply.answer, reply.model, reply.stop_reason, reply.error, reply.request_id):
        assert "[MINE, a key]" in text
    assert "[MINE, a key]" in refused.error
    for text in (reply.model_dump_json(), refused.model_dump_json()):
        assert redact(text, {NAME: KEY}) == text


def test_texts_of_the_user_are_stored_unchanged(tmp_path, monkeypatch):
    """The hashes of skills and suites are recorded, and an edited text could not be answered."""
    monkeypatch.setenv("DB_PASS", "tidemark")
    store = make_store(tmp_path, n_cases=1)
    assert store.skills["tides"].text == skill_text("tides")
    assert "tidemark" in store.skills["tides"].text
    assert not any("edited" in problem for problem in store.problems)


def test_names_and_contents_of_files_that_a_program_leaves_have_no_key(tmp_path, key):
    body = f"""
k = os.environ[{NAME!r}]
os.makedirs('out/' + k)
for name in (k, k[::-1], k.replace('/', ''), k.encode().hex()):
    os.makedirs(os.path.dirname('out/' + name), exist_ok=True)
    open('out/' + name + '.txt', 'w').write(k)
open('out/' + k + '/deep', 'wb').write(k.encode('utf-16-le'))
open('a.bin', 'wb').write(bytes(range(256)) + k.encode() + bytes(range(256)))
print('done')
"""
    agent = CliAgent(script(tmp_path, body), passed=[NAME], output="text")
    keep = tmp_path / "kept"
    cell = cli.Cell("s/1", "skill", bounds=cli.Bounds(keep=keep))
    reply = ask(agent, cell=cell)
    assert reply.answer == "done"
    for file, data in all_files(keep).items():
        assert redact_bytes(data, {NAME: KEY}) is data, file
    names = [str(file.relative_to(keep)) for file in all_files(keep)]
    assert all(redact(name, {NAME: KEY}) == name for name in names)
    left = files_left(keep)
    assert set(left) <= set(names) and len(left) == len(set(left)) == 6
    assert f"out/[{NAME}].txt" in left and f"out/[{NAME}]-2.txt" in left
    whole = bytes(range(256)) + f"[{NAME}]".encode() + bytes(range(256))
    assert (keep / "a.bin").read_bytes() == whole


def test_no_password_of_a_base_url_is_in_the_arguments_of_a_program(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    body = (
        "print(open('/proc/self/cmdline').read().replace('\\0', ' '))\n"
        "for f in [os.path.expanduser('~/.codex/config.toml')]:\n"
        "    text = open(f).read() if os.path.exists(f) else 'no file'\n"
        "    open({file!r}, 'w').write(text)"
    )
    seen = tmp_path / "seen.toml"
    command = [*script(tmp_path, body.format(file=str(seen)), "codex"), "exec", "-"]
    answers = []

    def redacted(reply):
        answers.append(reply.answer)
        return redacted_reply(reply)

    # see the arguments as ps does, before the reply is redacted
    monkeypatch.setattr(cli, "redacted_reply", redacted)
    for url, secret in (
        ("http://me:hunter2hunter2@127.0.0.1:9/v1", "hunter2hunter2"),
        ("http://127.0.0.1:9/v1?api_key=abcdefgh-0123", "abcdefgh-0123"),
        (f"http://127.0.0.1:9/{quote(KEY, safe='')}/v1", "0123456789"),
    ):
        assert ask(CliAgent(command, base_url=url, output="text")).status == "ok"
        assert "model_provider=" in answers[-1] and secret not in answers[-1]
        assert f'model_providers.skillcomp.base_url="{url}"' in seen.read_text()
    ask(CliAgent(command, base_url="http://127.0.0.1:9/v1", output="text"))
    assert seen.read_text() == "no file"
    with pytest.raises(AgentError, match="leave CODEX_HOME out of passed="):
        CliAgent(command, base_url="http://me:hunter2hunter2@h/v1", passed=["CODEX_HOME"])


def test_a_study_whose_agent_is_named_after_its_key_resumes(tmp_path, key):
    store = make_store(tmp_path, n_cases=1)
    calls = tmp_path / "calls"
    command = script(tmp_path, f"open({str(calls)!r}, 'a').write('x'); print('yes')")
    for _ in range(2):
        agents = [CliAgent(command, model=f"m-{KEY}"), CliAgent(command, name="other")]
        sc.run(RunStore(store.path), agents=agents, progress=False)
    assert len(calls.read_text()) == len(rows(store, "attempts")) == 2 * 2 * 2
    assert any(f"[{NAME}]" in row["attempt_id"] for row in rows(store, "attempts"))
    assert_no_key(store.path)


class Named(Echo):
    name = f"agent {KEY}"


def test_a_name_that_must_be_stored_unchanged_may_hold_no_secret(tmp_path, key, monkeypatch):
    store = make_store(tmp_path, n_cases=1)
    with pytest.raises(StudyError, match=r"name of agent 'agent \[MY_API_KEY\]' holds a secret"):
        sc.run(store, agents=[Named()], progress=False)
    monkeypatch.setenv("DB_PASS", "lanterns")
    with pytest.raises(StudyError, match=r"the name '\[DB_PASS\]' holds a secret"):
        sc.run(store, agents=[Echo()], progress=False)
    assert not rows(store, "attempts")


def test_the_reply_of_a_program_is_redacted_outside_the_event_loop(tmp_path, monkeypatch, key):
    threads = []

    def redacted(reply):
        threads.append(threading.get_ident())
        return redacted_reply(reply)

    monkeypatch.setattr(cli, "redacted_reply", redacted)
    ask(CliAgent(script(tmp_path, "print('yes')")))
    assert threads and threading.get_ident() not in threads


@pytest.mark.parametrize(
    ("secrets", "text"),
    [
        # two backslashes before u006e must not leave a line break behind
        (
            {NAME: "sk-nrt-0123456789"},
            json.dumps("".join(f"\\u{ord(c):04x}" for c in "sk-nrt-0123456789")),
        ),
        ({NAME: "abc+}defgh1234"}, r"abc\u002b}defgh1234"),
        # a path in which \n is no escape, and the same key in an escape
        ({NAME: "n0123456789"}, r"C:\n0123456789 %6e0123456789"),
        # a key of which little is left without separators, in other forms
        ({NAME: "a+b/c1d2"}, "a+b/c1d2"[::-1]),
        ({NAME: "a+b/c1d2"}, quote("a+b/c1d2", safe="")),
        ({NAME: "a+b/c1d2"}, "a+b/c1d2".encode("utf-16-le").decode("latin-1")),
        # bytes of UTF-16 of which the control characters were replaced
        ({NAME: "sk-0123456789"}, "\ufffd".join("sk-0123456789")),
        ({NAME: "sk-0123456789"}, "\u2400".join("sk-0123456789")),
        # a short secret inside a long one
        ({"A_PASS": "11-28-26", NAME: "key-11-28-26-zzzzzzzz"}, "key-11-28-26-zzzzzzzz"),
        ({NAME: "10xy/z+1234567"}, "10xy%2Fz%2B1234567"),
    ],
)
def test_a_key_that_other_escapes_separators_or_keys_resemble_is_replaced(secrets, text):
    redacted = redact(f"It is {text}.", secrets)
    assert f"[{NAME}]" in redacted
    assert not any(len(part) > 9 for part in redacted.replace(NAME, "").split())


@pytest.mark.parametrize(
    ("url", "password"),
    [
        ("postgres://me:p@ssword1234@db/x", "p@ssword1234"),
        ("http://me:pass/word1234@127.0.0.1/v1", "pass/word1234"),
        ("redis://:hunter2hunter2@[::1]:6379/0", "hunter2hunter2"),
        ("postgres://u:pa?ss#word1234@h/db", "pa?ss#word1234"),
        ("git+https://user:ghp_abcdefgh1234@github.com/org/repo.git@v1.0", "ghp_abcdefgh1234"),
        ("mysql://u:secretpw1111@db1/x,mysql://u:secretpw2222@db2/y", "secretpw2222"),
    ],
)
def test_a_password_of_a_url_may_hold_an_at_sign_or_a_slash(url, password):
    assert redact(f"x{password}y", {"OWN_URL": url}) == "x[OWN_URL]y"
    assert redact("localhost:8080/packages", {"OWN_URL": "http://localhost:8080/packages/@me"})


@pytest.mark.parametrize(
    "arguments",
    [
        ["--db", "postgres://u:hunter2hunter2@h/x"],
        ["--url=https://h/v1?api_key=hunter2hunter2"],
        ["--pass", "hunter2hunter2"],
        ["--dsn", "hunter2hunter2"],
        ["MY_PAT=hunter2hunter2"],
        ["--header=X-Api-Key: hunter2hunter2"],
        ["--header", "Authorization: Basic hunter2hunter2"],
        ["-H", "X-Api-Key: hunter2hunter2V0=="],
        ["--httpAuthorization=hunter2hunter2"],
    ],
)
def test_a_key_among_the_arguments_of_a_program_is_in_no_setting(tmp_path, arguments):
    agent = CliAgent([*script(tmp_path, "print('yes')"), *arguments])
    assert "hunter2" not in agent.settings
    assert agent.settings.count("a key") == 1


def test_a_secret_that_is_not_utf_8_and_headers_that_are_none_break_nothing(monkeypatch):
    monkeypatch.setitem(os.environb, b"A_KEY", b"caf\xe9-password-1")
    assert redact_json(b'{"a": 1}') == b'{"a": 1}'
    assert redact_bytes(b"it is caf\xe9-password-1") == b"it is caf\xe9-password-1"
    OpenAIAgent("m", base_url="http://127.0.0.1:9/v1", options={"extra_headers": None})


def test_the_name_of_a_session_is_no_secret(tmp_path):
    agent = CliAgent([*script(tmp_path, "print('yes')"), "--session-name", "evaluation"])
    assert "evaluation" in agent.settings


def test_headers_of_a_call_are_secrets_although_the_call_succeeds():
    options = {"extra_headers": {"Authorization": "Bearer mine-0123456789", "X-Tag": "trial"}}
    agent = OpenAIAgent("m", base_url="http://127.0.0.1:9/v1", options=options)
    assert "mine-0123456789" not in redact(agent.settings)
    assert redact("it is mine-0123456789") == "it is [Authorization]"


def test_json_that_is_nested_deeply_is_redacted(key):
    redacted = redact_json(b"[" * 600 + json.dumps(KEY).encode() + b"]" * 600)
    assert redact(redacted.decode(), {NAME: KEY}) == redacted.decode()


def test_escapes_of_any_length_take_no_quadratic_time():
    text = KEY + ("&#" + "0" * 30_000 + "65;" + "&lt;" * 6_000) * 4
    assert redact(html.escape(KEY) + text, {NAME: KEY}).startswith(f"[{NAME}][{NAME}]&#")


def test_the_traceback_of_an_error_in_a_command_has_no_key(monkeypatch, capsys, key):
    def broken():
        raise RuntimeError(f"the key is {KEY}")

    monkeypatch.setattr(commands, "app", broken)
    with pytest.raises(SystemExit):
        commands.main()
    said = capsys.readouterr().err
    assert f"the key is [{NAME}]" in said and "Traceback" in said


def test_names_categories_and_arrays_of_a_table_are_exported_without_a_key(tmp_path, key):
    frame = pd.DataFrame(
        {KEY: pd.Categorical(["a", "b"], ["a", "b", KEY]), "x": [b"1", KEY.encode()]}
    )
    frame["lists"] = pd.Series([np.array([KEY, "b"], object), None], dtype=object)
    frame.attrs = {"made": KEY, 1: "x"}
    nested = np.empty(2, object)
    nested[:] = [["a"], [KEY]]  # an array of two lists, not of two rows
    frame["same"] = pd.Series([nested, None], dtype=object)
    export.write({"mine": frame}, tmp_path)
    read = pd.read_parquet(tmp_path / "mine.parquet")
    assert list(read) == [f"[{NAME}]", "x", "lists", "same"]
    assert KEY not in str(
        [*read.iloc[:, 0].array.categories, *read["x"], *read["lists"], read.attrs]
    )
    assert [list(entry) for entry in read["same"].iloc[0]] == [["a"], [f"[{NAME}]"]]
    assert_no_key(tmp_path)


@pytest.mark.parametrize("form", ["plain", "JSON of codes"])
def test_a_key_at_the_place_where_an_answer_is_cut_is_gone_whole(key, monkeypatch, form):
    secret = FORMS[form]
    monkeypatch.setenv("OTHER_KEY", "x" * 40)
    for start in range(-len(secret) - 2, 3, 7 if form == "plain" else 29):
        text = "y" * (1_000_000 + start) + secret + "y" * 1_000_000
        reply = Reply(answer=text)
        assert reply.status == "truncated" and 990_000 < len(reply.answer) <= 1_000_000
        left = redact(reply.answer).strip("y")
        assert left in ("", f"[{NAME}]")


def test_only_the_place_of_the_cut_is_searched_for_keys(key):
    """The rest is redacted when it is stored, off the event loop."""
    answer = Reply(answer=KEY + "y" * 2_000_000).answer
    assert answer.startswith(KEY) and redact(answer).startswith(f"[{NAME}]")


def test_a_key_within_a_key_leaves_no_half_at_the_cut(monkeypatch):
    monkeypatch.setenv("A_TOKEN", "inner-0123456789")
    monkeypatch.setenv(NAME, "head-of-secret-inner-0123456789")
    for start in range(40):
        text = "y" * (1_000_000 - start) + os.environ[NAME] + "y" * 100
        assert set(redact(Reply(answer=text).answer)) <= set(f"y[{NAME}]")


def test_tables_with_other_columns_are_exported_with_their_types(tmp_path, key):
    frame = pd.DataFrame(
        {
            "text": pd.array(["a", KEY, None], "string"),
            "number": [1.0, 2.0, None],
            "list": [["a"], [KEY, "b"], None],
            "kind": pd.Categorical(["u", "v", "u"]),
        }
    )
    export.write({"mine": frame}, tmp_path)
    read = pd.read_parquet(tmp_path / "mine.parquet")
    assert read["text"].dtype == frame["text"].dtype and read["text"].isna().tolist()[2]
    assert read["text"][1] == f"[{NAME}]" and list(read["list"][1]) == [f"[{NAME}]", "b"]
    assert_no_key(tmp_path)


def test_the_environment_itself_is_left_alone(key):
    redact(KEY)
    assert os.environ[NAME] == KEY


def test_a_secret_of_which_little_is_left_without_blanks_is_replaced_too():
    assert redact("say 1 2 3 4 5 now", {"PASS": "1 2 3 4 5"}) == "say [PASS] now"
