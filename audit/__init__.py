"""Active checks on a model, and the tools to try demur without one. Where to look:

    recording   recorded traces, found again by what was asked
    completions chat completions and their streams, made from a recorded trace
    replay      the ASGI app: an OpenAI-compatible upstream that answers from a recording
    corpus      labelled traces: any column of label words becomes three classes; `layers` reads how it was declined
    evaluate    verdicts against those labels: the figures; `intervals` bounds each by a bootstrap over prompts
    agreement   two coders of the same rows, layer by layer; `cells` counts, `agreement_words` says it
    evaluation  a whole evaluation, of several corpora and their groups; `evaluation_page` shows it (and its .html)
    judge       a language model as a coder: its own head lists what it is made of
    judge_run   a judge codes a corpus, `judge_file` keeps it; `judge_report` compares, `judge_words` says it
    verdicts    verdict records read back, whichever command or proxy wrote them
    facework    how refusals are put: their reasons, strategies and features, counted for all and by group;
                `facework_words` says it in sentences, `facework_differences` where groups lie apart,
                `facework_files` writes it; `proportion` is a share with its interval
    loopback    runs an ASGI app on a port of this machine, for a test, the demo, or `demur replay`

Uses `demur.classifier` to read traces. Files are read by the command, which knows how to tell what they hold.
"""
