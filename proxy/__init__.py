"""The proxy: what a client sends goes to the upstream, what comes back goes to the client, and a copy is judged.

The way of one request:

    server      two uvicorn servers in one loop, signals, the orderly end
      protocol  a client's connection: limits of a head, pipelines, HTTP/1.0, what can't be read
    app         `/-/…` is ours; everything else goes to the relay
    relay       one exchange from the first byte to the last
      leash       what may end it from outside: the client leaves, time is up
      upload      the request: what is read of it, which headers go up (headers, urls)
      upstream    httpx's transport seam over aiohttp's client (upstream_connection, upstream_errors)
      passage     how the answer goes on, by its head
      inspection  the copy: decoded (coding), taken apart and judged (demur.classifier)
      finish      the verdict's key in a stream's finish chunk
      hold        a stream's head waits for an early verdict
      errors      our own answers
    record      the facts of the running exchange, frozen at its end into an
    observe     Exchange, of which every sink hears once:
      telemetry…  spans, events      metrics      counters, shown by admin
      verdict_log JSON Lines         store        verdicts to look up by id
                                   lookup       how they are told
    second_opinion  may review the verdict when all is over; then they hear of it again

Where no proxy stands, others carry the exchange, and it is judged from beside:

    witness     one exchange: told what comes by, it says what goes on (passage, inspection, finish, record)
      middleware        inside an application that serves the API itself
        application     who hears of its exchanges
        call            one call of it, message by message
      client_transport  inside a client process, around a transport of httpx or httpx2
        client_watch    one exchange of it

Traffic comes first: bytes go on before they are looked at, and whatever fails in looking at them changes none.
"""
