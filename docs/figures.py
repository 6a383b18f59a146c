"""Figures of the documentation: each cell draws the figure of the function in its first line."""

# %%

import skillcomp as sc

store = sc.datasets.load("pilot")
cases, attempts = sc.frames.cases(store), sc.frames.attempts(store)
verdicts, gold = sc.frames.verdicts(store), sc.frames.gold(store)
outcomes = sc.frames.outcomes(verdicts, cases, grader="g2")

# %% skillcomp.plots.estimates
delta = sc.deltas.paired(outcomes, by=["skill"]).sort_values("estimate", ascending=False)
sc.plots.estimates(delta, y="skill", null=0)

# %% skillcomp.plots.cases
changes = sc.skillverdicts.cases(outcomes, by=["skill"])
decided = sc.skillverdicts.decide(outcomes, by=["skill"])
sc.plots.cases(changes, decided.sort_values("estimate", ascending=False))

# %% skillcomp.plots.case_map
sc.plots.case_map(sc.skillverdicts.cases(outcomes, by=["skill"]))

# %% skillcomp.plots.corrected
rows = sc.correction.delta(verdicts, gold, by=["grader"], cases=cases)
rows = rows[rows["condition"].eq("skill")]
sc.plots.corrected(rows, y=["grader", "condition"])

# %% skillcomp.plots.ranks
sc.plots.ranks(sc.reliability.contrast(verdicts, gold, cases=cases))

# %% skillcomp.plots.transfer
sc.plots.transfer(sc.deltas.rates(outcomes, by=["transfer"]))

# %% skillcomp.plots.transfer_curve
distances = sc.overlap.case_distance(cases, store.skills)
measured = outcomes[outcomes["condition"].ne("placebo")].merge(distances, on=["skill", "case_id"])
of_cases = sc.skillverdicts.cases(measured, by=["distance"])
sc.plots.transfer_curve(sc.transfer.curve(measured, distance="distance"), of_cases)

# %% skillcomp.plots.dimensions
sc.plots.dimensions(sc.deltas.rates(outcomes, by=["comprehension_dimension", "condition"]))

# %% skillcomp.plots.datasheet
graded = sc.frames.verdicts(store, round="all", perturbation="all")
answers = sc.frames.attempts(store, perturbation="all")
labels, pairs = sc.frames.gold(store, labeller="all"), sc.frames.pairwise(store)
sc.plots.datasheet(sc.bias.datasheet(graded, answers, labels, pairs, cases=cases))

# %% skillcomp.plots.facet
rates = sc.deltas.rates(outcomes, by=["skill", "condition"])
sc.plots.facet(rates, sc.plots.estimates, by="skill", y="condition", height=3.2)

# %% skillcomp.plots.overlap
shared = sc.overlap.score(attempts, skills=store.skills, cases=cases, ngram=3)
sc.plots.overlap(shared.merge(attempts[["attempt_id", "condition"]]), limit=0.05)

# %% skillcomp.plots.threshold
copies = sc.overlap.positives(store.skills)
curve = sc.overlap.positives_found(copies, skills=store.skills, ngram=range(3, 13))
sc.plots.threshold(curve[curve["n_sentences"].eq(1)].assign(measure=curve["copy"]))

# %% skillcomp.plots.roc
texts = sc.datasets.passages("copies")
curve = sc.overlap.roc(sc.overlap.score(texts, skills=store.skills, ngram=[3, 6, 9]))
sc.plots.roc(curve, hue="n")

# %% skillcomp.plots.power
power = sc.planning.power_curve(outcomes, sizes=[0.1, 0.2, 0.3], n_cases=[10, 20, 40, 80])
sc.plots.power(power[power["condition"].eq("skill")], y="estimate", hue="size")

# %% skillcomp.plots.scores
study = sc.datasets.load("execution")
executed = sc.frames.outcomes(sc.frames.verdicts(study), sc.frames.cases(study))
executed = executed[executed["grader_version"].eq(executed["grader_version"].iloc[0])]
documents = sc.structure.score_by_document(executed, study.skills)
sc.plots.scores(documents.drop_duplicates(["skill", "condition"]), hue="condition")
