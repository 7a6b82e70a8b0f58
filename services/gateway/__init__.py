"""The gateway: a client of the bus, for browsers and other HTTP clients.

    GET  /                                        what runs, the fleet, the latest results; live
    GET  /evaluations, /evaluations/{id}          pages; live during the evaluation, then its record
    /api/…                                        REST; `/api/openapi.json` describes it
    GET  /api/evaluations/{id}/events             server-sent events, resumed by Last-Event-ID
    GET  /api/events                              the same for all evaluations
    GET  /static/{build-id}/…                     styles and scripts, cached for ever

    rest/       handlers of `/api`                live/       streams of server-sent events
    site/       handlers of pages                 pages/      views: what a template shows (pure)
    access/     who may reach it                  sent/       files and datasets that are sent
    parameters/ what addresses ask for            reports/    an evaluation as one document
    charts/     charts as pictures
    templates/  Jinja2; base.html is the frame    static/     css/, js/ (ES modules, no build step)

A page is a view with the name of its template, `rendered` by `rendering.py`. Pages are complete
without JavaScript; modules keep them up to date.

Owns: pages, routes, live streams. Knows: the bus, no database, no other service.
"""
