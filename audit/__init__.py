"""Active checks on a model, and the tools to try demur without one. Where to look:

    recording   recorded traces, found again by what was asked
    completions chat completions and their streams, made from a recorded trace
    replay      the ASGI app: an OpenAI-compatible upstream that answers from a recording
    loopback    runs an ASGI app on a port of this machine, for a test, the demo, or `demur replay`

Uses `demur.classifier` to read traces. Files are read by the command, which knows how to tell what they hold.
"""
