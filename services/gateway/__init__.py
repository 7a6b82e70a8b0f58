"""The gateway: a client of the bus, for browsers and other HTTP clients.

    GET  /evaluations, /evaluations/{id}          pages; live during the evaluation, then its record
    /api/…                                        REST; `/api/openapi.json` describes it
    GET  /api/evaluations/{id}/events             server-sent events, resumed by Last-Event-ID

Owns: pages, routes, live streams. Knows: the bus, no database, no other service.
"""
