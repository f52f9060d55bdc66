"""The `demur` command. Where to look:

    main       finds the subcommand; every ending of a run becomes one exit code here
    classify   saved traces -> verdicts         traces   what a file holds: JSON, JSON Lines, SSE or plain text
    serve      runs the proxy                   options  one flag for every setting
    eval       verdicts against labelled data; `eval_render`, `agreement_render` and `judge_render` show the figures
    eval_judge a judge codes the data (`judge_settings`: which one; `judge_progress`: how far it is)
    report     how refusals are put; `verdict_files` reads verdicts, `report_render` shows it on a terminal
    replay     an upstream that answers from recorded traces (the app is `demur.audit.replay`)
    demo       replay + proxy + a few calls on loopback (`demo_run`), checked as they go; `demo.jsonl` is replayed
    config     the effective settings           render   verdicts on a terminal, the evidence underlined
    output_files  what stands in the way of a file that is to be written

A subcommand is a module with a `command`. It is imported when it is called, so that `demur classify` needs neither the
proxy's libraries nor their start-up time. Only this room prints, and only it guesses what a file holds.
"""
