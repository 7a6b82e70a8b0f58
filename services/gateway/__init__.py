"""The gateway: one more client of the bus, for browsers and whatever speaks HTTP.

    GET  /evaluations, /evaluations/{id}          pages; live while it runs, the record afterwards
    /api/…                                        REST; `/api/openapi.json` describes it
    GET  /api/evaluations/{id}/events             server-sent events, resumed by Last-Event-ID

Owns: pages, routes, live streams. Knows: the bus, no database, no other service.
"""
