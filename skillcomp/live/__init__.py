"""Ask agents, have graders judge their answers, and run whole studies.

Agents and graders are objects that are passed in. `run`, `grade` and `compare` write to a store,
and `status` reads it. A name is imported on first use, because importing an SDK takes a second.
The headings below are the names of the files.

run: answers, verdicts and comparisons
    ``run``: have agents answer the cases of a study, and store the answers.
    ``grade``: have every grader grade every stored answer once.
    ``compare``: have a grader compare answers in pairs, each pair in both orders.

probe: a test of the checks before a study
    ``probe``: run every check on answers of known quality.

status: the progress of a study
    ``status``: counts and costs of each agent and each grader.

study_file: a study as a file
    ``read_study``: read ``study.yaml``.

agents.agent: what every agent is
    ``BaseAgent``: the base class, with defaults.
    ``Cell``: the case, condition and repeat of an answer.
    ``Reply``: an answer and how it was made.
    ``family_of``: family of a model.

agents.service: models through an SDK
    ``AnthropicAgent``: a Claude model.
    ``OpenAIAgent``: a model behind an OpenAI-compatible endpoint.

agents.cli: programs
    ``CliAgent``: ``claude -p``, ``codex exec`` or another command.

graders.grader: what all graders share
    ``BaseGrader``: the base class, with defaults.
    ``Grading``: the result of grading one answer.
    ``GraderWarning``: a warning about a grader or its gradings.
    ``answer_of``, ``ask_until_read``, ``on_check``, ``verdicts_of``: steps of a grader.

graders.comprehension: models as graders
    ``ComprehensionGrader``: a verdict on every check of an answer.
    ``PairwiseGrader``: the better of two answers.
    ``read_reply``: read a reply of a grader and apply the rules.

graders.gold_answers: a test of the grader before a study
    ``GoldAnswer``: an answer with known verdicts.

replay: recorded answers and verdicts
    ``ReplayAgent``: an agent that returns the answers recorded in a store.
    ``ReplayGrader``: a grader that returns the verdicts recorded in a store.

graders.task_graders: graders of task suites
    ``SuiteGrader``: the judge that each task names.
    ``Contains``, ``Pytest``, ``LlmRubric``: judges that use words, tests or a rubric.

graders.traces: graders of the work of a program
    ``TraceGrader``: a grader that decides checks on the trace and the files.
    ``TraceJudge``: a program that judges by a rubric.
"""

from skillcomp.removed_names import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
